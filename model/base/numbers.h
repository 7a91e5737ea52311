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
concept Countable = std::integral<T> || std::is_enum_v<T>;

// A count in arithmetic: exact up to 2^53.
template <std::integral T>
constexpr double real(T count) {
    return static_cast<double>(count);
}

// A place in an array. The count is not negative.
template <Countable T>
constexpr std::size_t as_index(T count) {
    if constexpr (std::signed_integral<T>) assert(count >= 0);
    return static_cast<std::size_t>(count);
}

// A count that fits into an int, as sizes of ranks, stages and layers do.
template <Countable T>
constexpr int as_int(T count) {
    const int small = static_cast<int>(count);
    assert(static_cast<T>(small) == count);
    return small;
}

}  // namespace stepcast
