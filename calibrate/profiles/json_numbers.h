// The JSON library, and integers of JSON that others wrote: a number may be a fraction, or too large for what it is read into. Internal to
// calibrate/profiles.
#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace stepcast {

// Nothing of a text, of a fraction, and of a number that T cannot hold.
template <std::integral T>
std::optional<T> whole_number(const nlohmann::json& value) {
    if (value.is_number_unsigned() && std::in_range<T>(value.get<std::uint64_t>())) return static_cast<T>(value.get<std::uint64_t>());
    if (value.is_number_integer() && !value.is_number_unsigned() && std::in_range<T>(value.get<std::int64_t>()))
        return static_cast<T>(value.get<std::int64_t>());
    return std::nullopt;
}

}  // namespace stepcast
