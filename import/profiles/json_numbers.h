// The JSON library, and integers in other programs' JSON, which may be fractions or too large for
// the type. Internal to calibrate/profiles.
#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

namespace stepcast {

// nullopt for a text, a fraction, and a number that T cannot hold.
template <std::integral T>
std::optional<T> whole_number(const nlohmann::json& value) {
    if (value.is_number_unsigned() && std::in_range<T>(value.get<std::uint64_t>()))
        return static_cast<T>(value.get<std::uint64_t>());
    if (value.is_number_integer() && !value.is_number_unsigned() &&
        std::in_range<T>(value.get<std::int64_t>()))
        return static_cast<T>(value.get<std::int64_t>());
    return std::nullopt;
}

}  // namespace stepcast
