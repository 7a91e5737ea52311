// One kind of number as another, where no value is lost: counts as real numbers, counts as places.
// A build with assertions checks it.
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace stepcast {

template <typename T>
concept Count = std::integral<T> || std::is_enum_v<T>;

// A count in arithmetic: exact up to 2^53.
template <std::integral T>
constexpr double real(T count) {
    return static_cast<double>(count);
}

// A place in an array. The count is not negative.
template <Count T>
constexpr std::size_t as_index(T count) {
    if constexpr (std::signed_integral<T>) assert(count >= 0);
    return static_cast<std::size_t>(count);
}

// A count that fits into an int, as sizes of ranks, stages and layers do.
template <Count T>
constexpr int as_int(T count) {
    if constexpr (std::integral<T>) assert(std::in_range<int>(count));
    return static_cast<int>(count);
}

}  // namespace stepcast
