// The kernels of one instruction set. Each family file fills its types; dispatch.cpp does it once
// for the process, tests do it for every instruction set that the machine has.
#pragma once

#include "allreduce/reduce/reduce.hpp"

namespace ef {

constexpr size_t reduce_types = 10;
constexpr size_t reduce_ops = 4;

struct kernels {
    int64_t target = 0;  // Highway's bit of the instruction set
    reduce_fn reduce[reduce_types][reduce_ops] = {};
    average_fn average[reduce_types] = {};
};

// Fill in the kernels of the instruction set that Highway has chosen.
void load_floats(kernels& k) noexcept;
void load_halves(kernels& k) noexcept;
void load_integers(kernels& k) noexcept;
kernels load_kernels() noexcept;

/// Highway's bits of the instruction sets the kernels are compiled for.
int64_t compiled_targets() noexcept;

}  // namespace ef
