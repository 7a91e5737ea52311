// Values of keys by type: reads them from a file's value and writes them as text. Internal to
// model/.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"

namespace stepcast {

std::string quoted_toml(std::string_view text);

// Each throws ConfigError with what was found and what was expected.
void read_value(const ConfigValue& found, int& out);
void read_value(const ConfigValue& found, long& out);
void read_value(const ConfigValue& found, bool& out);
void read_value(const ConfigValue& found, double& out);
void read_value(const ConfigValue& found, std::uint64_t& out);
void read_value(const ConfigValue& found, std::string& out);
// "25 MB", "40e6 weights" or "one"
void read_value(const ConfigValue& found, BucketSize& out);
// [["4 KiB", "3.1 us"], ..]
void read_value(const ConfigValue& found, Curve& out);
// [[m, n, k, "fp32", "12 us"], ..]
void read_value(const ConfigValue& found, std::vector<GemmPoint>& out);
// rows without field names, as in older files
void read_value(const ConfigValue& found, std::vector<AttentionKernel>& out);
void read_value(const ConfigValue& found, std::vector<ExpertKernel>& out);
double si_in(const ConfigValue& found, const Exponents& of);  // a quantity's value
template <int S, int B, int F, int J>
void read_value(const ConfigValue& found, Quantity<S, B, F, J>& out) {
    out = Quantity<S, B, F, J>(si_in(found, out.exponents));
}
// Text that names something, and lists of such texts.
const std::string& name_in(const ConfigValue& found);
const std::vector<ConfigValue>& list_in(const ConfigValue& found, std::string_view of);
template <HasNames Enum>
void read_value(const ConfigValue& found, Enum& out) {
    out = parse_name<Enum>(name_in(found));
}
// Reads [13, 14, ..] or ["none", "full"].
template <class T>
concept Listed = std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || HasNames<T>;
template <Listed T>
void read_value(const ConfigValue& found, std::vector<T>& out) {
    constexpr std::string_view of = std::is_integral_v<T>         ? "integers"
                                    : std::is_floating_point_v<T> ? "numbers"
                                    : HasNames<T>                 ? "names"
                                                                  : "texts";
    for (const ConfigValue& value : list_in(found, of)) read_value(value, out.emplace_back());
}

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

// An empty text means "not stated".
template <class T>
void read_value(const ConfigValue& found, std::optional<T>& out) {
    const auto* text = std::get_if<std::string>(&found.value);
    if (text && text->empty()) return out.reset();
    read_value(found, out.emplace());
}

// Text that reads back to an equal value, without quotes.
template <class Number>
requires std::is_arithmetic_v<Number> std::string value_text(Number value) {
    return fmt::format("{}", value);
}
inline std::string value_text(const std::string& value) { return value; }
std::string value_text(const BucketSize& value);
std::string value_text(const Curve& value);
std::string value_text(const std::vector<GemmPoint>& value);
template <int S, int B, int F, int J>
std::string value_text(Quantity<S, B, F, J> value) {
    return exact_text(value);
}
template <HasNames Enum>
std::string value_text(Enum value) {
    return std::string(to_string(value));
}
template <Listed T>
std::string value_text(const std::vector<T>& value) {
    std::string text;
    for (const T& one : value)
        text +=
            (text.empty() ? "" : ", ") +
            (std::is_arithmetic_v<T> ? value_text(one) : quoted_toml(plain_text(value_text(one))));
    return "[" + text + "]";
}
template <class T>
std::string value_text(const std::optional<T>& value) {
    return value ? value_text(*value) : std::string();
}

template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;
// Measured points are rows of values in field order; other rows with fields are tables.
template <class T>
inline constexpr bool is_list_of_tables = false;
template <class Row>
inline constexpr bool is_list_of_tables<std::vector<Row>> =
    std::is_class_v<Row> && !std::is_same_v<Row, std::string> && !std::is_same_v<Row, CurvePoint> &&
    !std::is_same_v<Row, GemmPoint>;

// The keys of a struct, and those of the structs in it as "failures.source".
template <class Table>
std::span<const Key> keys_in();

// Instantiated once, in key_table.cpp: the keys of a large table take a compiler seconds.
extern template std::span<const Key> keys_in<Cluster>();

// A list of tables, one line each, with the fields that differ from their defaults: [{key =
// "kernel.launch", value = "2 us"}, ..].
template <class Row>
requires is_list_of_tables<std::vector<Row>> std::string value_text(const std::vector<Row>& rows) {
    const Row plain;
    std::string text;
    for (const Row& row : rows) text += "\n  {" + row_text(keys_in<Row>(), &row, &plain) + "},";
    return text.empty() ? "[]" : "[" + text + "\n]";
}

template <class T>
constexpr std::string_view kind_of() {
    if constexpr (is_optional<T>) return kind_of<typename T::value_type>();
    if constexpr (std::is_same_v<T, bool>) return "boolean";
    if constexpr (std::is_integral_v<T>) return "integer";
    if constexpr (std::is_same_v<T, double>) return "number";
    if constexpr (std::is_same_v<T, Seconds>) return "time";
    if constexpr (std::is_same_v<T, Bytes>) return "bytes";
    if constexpr (std::is_same_v<T, BucketSize>) return "bytes or weights";
    if constexpr (std::is_same_v<T, BytesPerSecond>) return "bytes per second";
    if constexpr (std::is_same_v<T, FlopsPerSecond>) return "flop per second";
    if constexpr (std::is_same_v<T, Watts>) return "power";
    if constexpr (std::is_same_v<T, std::string>) return "text";
    if constexpr (std::is_enum_v<T>) return "name";
    if constexpr (std::is_same_v<T, std::vector<int>>) return "integers";
    if constexpr (std::is_same_v<T, std::vector<double>>) return "numbers";
    if constexpr (std::is_same_v<T, Curve>) return "curve";
    if constexpr (std::is_same_v<T, std::vector<GemmPoint>>) return "gemm table";
    if constexpr (is_list<T>) return is_list_of_tables<T> ? "kernels" : "names";
}

// An optional field accepts whatever its value type accepts.
template <class T>
struct Stated {
    using type = T;
};
template <class T>
struct Stated<std::optional<T>> : Stated<T> {};
template <class T>
using StatedAs = typename Stated<T>::type;
template <class T>
inline constexpr bool is_word = std::is_same_v<T, std::string> || std::is_enum_v<T>;

// Turns bare or quoted words of the command line into what a file would hold; text fields keep text
// that looks like a number.
std::string unquoted(const std::string& text);
ConfigValue word_of(const std::string& raw);
ConfigValue number_or_word_of(const std::string& raw);
ConfigValue list_of(const std::string& raw);

template <class T>
concept Measurable = (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || requires(T value) {
    value.si();
};

template <class T>
double number_in(const T& value) {
    if constexpr (requires { value.si(); })
        return value.si();
    else if constexpr (std::is_arithmetic_v<T>)
        return static_cast<double>(value);
    else
        return 0;
}

[[noreturn]] void out_of_range(const std::string& value, const std::string& expected);
template <class T>
void check_range(const T& value, double least, double most) {
    if constexpr (is_optional<T>) {
        if (value) check_range(*value, least, most);
    } else if constexpr (Measurable<T>) {
        const double number = number_in(value);
        if (number >= least && number <= most) return;
        if (least == atleast::more_than_0 && number < least)
            out_of_range(value_text(value), "more than 0");
        if constexpr (std::is_arithmetic_v<T>)
            out_of_range(value_text(value), fmt::format("{} to {}", least, most));
        else
            out_of_range(value_text(value), to_string(T(least)) + " to " + to_string(T(most)));
    }
}

// Calls `use` with the key of each field of a struct; `name` is the table that the struct
// represents (keyed.h).
template <class Table>
constexpr void each_key(std::string_view name, const auto& use) {
    each_key_line<Table>(
        [&](auto at) { use(Table::key_at(at, static_cast<Table*>(nullptr), name)); });
}

// Types that one value of a file fills. Other fields are tables, or lists of tables.
template <class T>
concept OneValue = requires(const ConfigValue& found, T& value) {
    read_value(found, value);
};

template <class T>
void assign_field(void* field, const ConfigValue& value, double least, double most) {
    T parsed{};
    read_value(value, parsed);
    check_range(parsed, least, most);
    *static_cast<T*>(field) = std::move(parsed);
}
template <class List>
void* row_of(void* list, std::size_t index) {
    auto& rows = *static_cast<List*>(list);
    if (index >= rows.size()) rows.resize(index + 1);
    return &rows[index];
}

template <class T>
inline constexpr FieldType field_type{
    .kind = kind_of<T>(),
    .quoted = !std::is_arithmetic_v<StatedAs<T>> && !is_list<T>,
    .assign =
        [] {
            if constexpr (OneValue<T>)
                return assign_field<T>;
            else
                return nullptr;
        }(),
    .row_keys =
        [] {
            if constexpr (is_list_of_tables<T>)
                return keys_in<typename T::value_type>;
            else
                return nullptr;
        }(),
    .row =
        [] {
            if constexpr (is_list_of_tables<T>)
                return row_of<T>;
            else
                return nullptr;
        }(),
    .typed = is_list<StatedAs<T>>   ? list_of
             : is_word<StatedAs<T>> ? word_of
                                    : number_or_word_of,
    .text = [](const void* field) { return value_text(*static_cast<const T*>(field)); },
    .number = [](const void* field) { return number_in(*static_cast<const T*>(field)); },
    .copy = [](void* to, const void* from) { *static_cast<T*>(to) = *static_cast<const T*>(from); },
    .names =
        [] {
            if constexpr (HasNames<T>)
                return std::span<const std::string_view>(name_list<T>);
            else
                return std::span<const std::string_view>();
        }(),
};

template <class T>
inline constexpr bool is_per_dtype = false;
template <class T>
inline constexpr bool is_per_dtype<PerDtype<T>> = true;

template <class Table>
const Table& default_of() {
    static const Table any{};
    return any;
}
template <class Table, class Field>
std::size_t offset_of(Field Table::*member) {
    const Table& any = default_of<Table>();
    return as_index(reinterpret_cast<const char*>(&(any.*member)) -
                    reinterpret_cast<const char*>(&any));
}

// The keys of a struct that represents the table `name` (keyed.h).
template <class Table>
std::vector<Key> keys_of_struct(std::string_view name) {
    std::vector<Key> keys;
    const auto add = [&]<auto member>(const Keyed<member>& row) {
        using Field = std::remove_cvref_t<decltype(std::declval<Table&>().*member)>;
        if (!row.meaning && !name.empty()) return;
        const std::size_t offset = offset_of(member);
        if constexpr (OneValue<Field> || is_list<Field>) {
            add_field(keys, row, offset, field_type<Field>);
        } else if constexpr (is_per_dtype<Field>) {
            using Value = typename decltype(Field::values)::value_type;
            add_by_dtype(keys, row, offset, field_type<Value>, sizeof(Value));
        } else {
            add_table(keys, row, offset, keys_of_struct<Field>(name_of_table(row.name)));
        }
    };
    each_key<Table>(name, add);
    return keys;
}

template <class Table>
std::span<const Key> keys_in() {
    static const std::vector<Key> keys = keys_of_struct<Table>("");
    return keys;
}

template <class T>
bool holds(const Key& key) {
    return key.type == &field_type<T>;
}
// Calls `use` with the field if it has one of these types; else returns false.
template <class... Types>
bool use_field(const Key& key, void* holder, auto use) {
    return (... || (holds<Types>(key) && (use(*static_cast<Types*>(key.field(holder))), true)));
}

}  // namespace stepcast
