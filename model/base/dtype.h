// Element types of operands. To add one, add its enumerator and its row here; the keys for its peak
// and costs, names and sizes follow.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/base/names.h"
#include "model/base/numbers.h"
#include "model/base/units.h"

namespace stepcast {

enum class Dtype : std::uint8_t { fp32, tf32, fp16, bf16, fp8, fp4 };

struct DtypeTraits {
    Dtype dtype;
    std::string_view name;
    double bytes;  // per element as stored; tf32 is stored as fp32
    // fewer than 16 bits: used for operands of matrix products only; everything between them is
    // bf16
    bool narrow = false;
};

inline constexpr DtypeTraits dtypes[] = {
    {Dtype::fp32, "fp32", 4}, {Dtype::tf32, "tf32", 4},     {Dtype::fp16, "fp16", 2},
    {Dtype::bf16, "bf16", 2}, {Dtype::fp8, "fp8", 1, true}, {Dtype::fp4, "fp4", 0.5, true},
};

constexpr const DtypeTraits& traits(Dtype dtype) { return dtypes[as_index(dtype)]; }
constexpr auto names_of(Dtype) {
    return names_of_rows<Dtype>("a dtype", dtypes, &DtypeTraits::dtype);
}

constexpr Bytes size_of(Dtype dtype) { return Bytes(traits(dtype).bytes); }
constexpr bool is_narrow(Dtype dtype) { return traits(dtype).narrow; }
constexpr Dtype between_products(Dtype dtype) { return is_narrow(dtype) ? Dtype::bf16 : dtype; }

template <class T>
struct PerDtype {
    std::array<T, std::size(dtypes)> values{};
    constexpr T& operator[](Dtype dtype) { return values[as_index(dtype)]; }
    constexpr const T& operator[](Dtype dtype) const { return values[as_index(dtype)]; }
    friend bool operator==(const PerDtype&, const PerDtype&) = default;
};

}  // namespace stepcast
