// Which instruction sets the kernels are compiled for, and how; included before any Highway header.
// Left out on x86 are those that add nothing to these kernels over the next lower one: SSSE3 and
// the extensions of AVX-512. By bit number, since older Highway versions lack some of the names:
// 4 AVX3_SPR, 6 AVX3_ZEN4, 7 AVX3_DL, 12 SSSE3.
#pragma once

#if defined(__x86_64__) || defined(__i386__)
#define HWY_DISABLED_TARGETS ((1LL << 4) | (1LL << 6) | (1LL << 7) | (1LL << 12))
#endif

// The fallback for machines below all of those is Highway's emulation of 128-bit vectors. Highway
// takes single scalars, which lack the operations used here, with g++ before 12.3, because that
// miscompiles the high half of a product (gcc bug 106322); these kernels never take one, and their
// test holds the emulation to the reference bit for bit.
#define HWY_BROKEN_EMU128 0

// How operators are inlined: by force, as speed needs it, except with AddressSanitizer, where the
// compilers then take minutes over one file, and seconds if they may choose.
#if defined(__SANITIZE_ADDRESS__)  // g++
#define EF_OP_INLINE inline
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)  // clang++
#define EF_OP_INLINE inline
#endif
#endif
#ifndef EF_OP_INLINE
#define EF_OP_INLINE HWY_INLINE
#endif
