// Enumerations by the names that files and messages use:
//   NAMED_ENUM(Head, "a head", tokens, span);
// declares the enumeration, with its enumerators as names. If files use other names, these come
// first, in the same order:
//   NAMED_ENUM_AS(Fabric, "a fabric", "nvswitch, nvlink-pairs", nvswitch, nvlink_pairs);
// to_string(), parse_name<Head>(), keys and their documentation use these names.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include "model/base/numbers.h"

namespace stepcast {

// The names in the order of the enumerators. `what` includes the article: "a dtype".
template <std::size_t count>
struct NameTable {
    std::string_view what;
    std::array<std::string_view, count> names{};
};

// From a list as written in the source: "tokens, span".
template <std::size_t count>
constexpr NameTable<count> names_as_written(std::string_view what, std::string_view written) {
    NameTable<count> table{what};
    for (std::string_view& name : table.names) {
        name = written.substr(0, written.find(','));
        written.remove_prefix(std::min(name.size() + 2, written.size()));
    }
    return table;
}
#define NAMED_ENUM_AT(friendly, Enum, what, names, ...)                                        \
    enum class Enum : std::uint8_t { __VA_ARGS__ };                                            \
    friendly constexpr auto names_of(Enum) {                                                   \
        using enum Enum;                                                                       \
        return names_as_written<std::initializer_list<Enum>{__VA_ARGS__}.size()>(what, names); \
    }                                                                                          \
    static_assert(true)
#define NAMED_ENUM_AS(Enum, what, names, ...) NAMED_ENUM_AT(, Enum, what, names, __VA_ARGS__)
#define NAMED_ENUM(Enum, what, ...) NAMED_ENUM_AT(, Enum, what, #__VA_ARGS__, __VA_ARGS__)
#define NAMED_ENUM_IN(Enum, what, ...) \
    NAMED_ENUM_AT(friend, Enum, what, #__VA_ARGS__, __VA_ARGS__)  // in a struct

// From a table whose rows hold more, in the order of the enumerators.
template <class Enum, class Row, std::size_t count>
constexpr NameTable<count> names_of_rows(std::string_view what, const Row (&rows)[count],
                                         Enum Row::*value) {
    NameTable<count> table{what};
    for (std::size_t i = 0; i < count; ++i) {
        if (rows[i].*value != static_cast<Enum>(i))
            throw std::logic_error("a row is not in the place of its enumerator");
        table.names[i] = rows[i].name;
    }
    return table;
}

template <class Enum>
concept HasNames = std::is_enum_v<Enum> && requires(Enum value) {
    names_of(value).names;
};

template <HasNames Enum>
constexpr auto name_list = names_of(Enum{}).names;

template <HasNames Enum>
std::string_view to_string(Enum value) {
    const auto index = as_index(value);
    if (index >= name_list<Enum>.size()) throw std::logic_error("an enumerator has no name");
    return name_list<Enum>[index];
}

// Index of `text` among the valid names. Throws ConfigError that lists them and guesses which was
// meant.
std::size_t index_of_name(std::string_view text, std::string_view what,
                          std::span<const std::string_view> valid);

template <HasNames Enum>
Enum parse_name(std::string_view text) {
    return static_cast<Enum>(index_of_name(text, names_of(Enum{}).what, name_list<Enum>));
}

}  // namespace stepcast
