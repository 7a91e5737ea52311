// Enumerations by the names that files and messages use:
//   NAMED_ENUM(Head, "a head", tokens, span);
// declares the enumeration, with its enumerators as names. If files use other names, these come first, in the same order:
//   NAMED_ENUM_AS(Fabric, "a fabric", "nvswitch, nvlink-pairs, pcie", nvswitch, nvlink_pairs, pcie);
// to_string(), parse_name<Head>(), keys and their documentation use these names.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>

namespace stepcast {

template <class Enum>
struct Named {
    Enum value;
    std::string_view name;
};

// `what` includes the article: "a dtype".
template <class Enum, std::size_t count>
struct NameTable {
    std::string_view what;
    std::array<Named<Enum>, count> rows;
};

template <class Enum, std::size_t count>
constexpr NameTable<Enum, count> name_table(std::string_view what, const Named<Enum> (&rows)[count]) {
    return {what, std::to_array(rows)};
}

// The names of enumerators as written in the source: "tokens, span".
template <class Enum, std::size_t count>
constexpr NameTable<Enum, count> names_as_written(std::string_view what, std::string_view written, const Enum (&values)[count]) {
    NameTable<Enum, count> table{what, {}};
    for (std::size_t i = 0; i < count; ++i) {
        table.rows[i] = {values[i], written.substr(0, written.find(','))};
        written.remove_prefix(std::min(table.rows[i].name.size() + 2, written.size()));
    }
    return table;
}
#define NAMED_ENUM_AT(friendly, Enum, what, names, ...)                                                                \
    enum class Enum : std::uint8_t { __VA_ARGS__ };                                                                    \
    friendly constexpr auto names_of(Enum) {                                                                           \
        using enum Enum;                                                                                               \
        return names_as_written<Enum>(what, names, {__VA_ARGS__});                                                     \
    }                                                                                                                  \
    static_assert(true)
#define NAMED_ENUM_AS(Enum, what, names, ...) NAMED_ENUM_AT(, Enum, what, names, __VA_ARGS__)
#define NAMED_ENUM(Enum, what, ...) NAMED_ENUM_AT(, Enum, what, #__VA_ARGS__, __VA_ARGS__)
#define NAMED_ENUM_IN(Enum, what, ...) NAMED_ENUM_AT(friend, Enum, what, #__VA_ARGS__, __VA_ARGS__)  // in a struct

// The names from a table whose rows hold more, in the order of the enumerators.
template <class Enum, class Row, std::size_t count>
constexpr NameTable<Enum, count> names_of_rows(std::string_view what, const Row (&rows)[count], Enum Row::*value) {
    NameTable<Enum, count> table{what, {}};
    for (std::size_t i = 0; i < count; ++i) {
        if (rows[i].*value != static_cast<Enum>(i)) throw std::logic_error("a row is not in the place of its enumerator");
        table.rows[i] = {rows[i].*value, rows[i].name};
    }
    return table;
}

template <class Enum>
concept HasNames = std::is_enum_v<Enum> && requires(Enum value) { names_of(value).rows; };

template <HasNames Enum>
constexpr auto name_list = [] {
    constexpr auto table = names_of(Enum{});
    std::array<std::string_view, table.rows.size()> list;
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = table.rows[i].name;
    return list;
}();

template <HasNames Enum>
std::string_view to_string(Enum value) {
    static constexpr auto table = names_of(Enum{});
    for (const auto& row : table.rows)
        if (row.value == value) return row.name;
    throw std::logic_error("an enumerator has no name");
}

// Index of `text` among the valid names. Throws ConfigError that lists them and guesses which was meant.
std::size_t index_of_name(std::string_view text, std::string_view what, std::span<const std::string_view> valid);

template <HasNames Enum>
Enum parse_name(std::string_view text) {
    static constexpr auto table = names_of(Enum{});
    return table.rows[index_of_name(text, table.what, name_list<Enum>)].value;
}

}  // namespace stepcast
