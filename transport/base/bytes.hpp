// le<T>: an integer in little-endian order, unaligned, for wire formats. Nothing else may stand in
// a wire struct.
#pragma once

#include <cstring>
#include <type_traits>

namespace ef {

template <class T>
class le {
    static_assert(std::is_unsigned_v<T>);

public:
    le() noexcept = default;
    le(T v) noexcept { *this = v; }
    le& operator=(T v) noexcept {
        for (unsigned i = 0; i < sizeof(T); ++i) b_[i] = static_cast<unsigned char>(v >> (8 * i));
        return *this;
    }
    operator T() const noexcept {
        T v = 0;
        for (unsigned i = 0; i < sizeof(T); ++i) v = static_cast<T>(v | T(T(b_[i]) << (8 * i)));
        return v;
    }

private:
    unsigned char b_[sizeof(T)] = {};
};

}  // namespace ef
