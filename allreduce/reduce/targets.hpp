// Which instruction sets the kernels are compiled for; included before any Highway header. Left
// out on x86 are those that add nothing to these kernels over the next lower one: SSSE3 and the
// extensions of AVX-512. By bit number, since older Highway versions lack some of the names:
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
