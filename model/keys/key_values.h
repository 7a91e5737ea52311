// Values of keys by type: reads them from a file's value and writes them as text. Internal to model/.
#pragma once

#include <fmt/format.h>

#include <charconv>

#include "model/keys/keys.h"

namespace stepcast {

// Each throws ConfigError with what was found and what was expected.
void read_value(const ConfigValue& found, int& out);
void read_value(const ConfigValue& found, long& out);
void read_value(const ConfigValue& found, bool& out);
void read_value(const ConfigValue& found, double& out);
void read_value(const ConfigValue& found, std::uint64_t& out);
void read_value(const ConfigValue& found, std::string& out);
void read_value(const ConfigValue& found, Curve& out);                    // [["4 KiB", "3.1 us"], ..]
void read_value(const ConfigValue& found, std::vector<GemmPoint>& out);  // [[m, n, k, "fp32", "12 us"], ..]
void read_value(const ConfigValue& found, std::vector<AttentionKernel>& out);  // rows without field names, as in older files
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
    constexpr std::string_view of = std::is_integral_v<T> ? "integers" : std::is_floating_point_v<T> ? "numbers" : HasNames<T> ? "names" : "texts";
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
    requires std::is_arithmetic_v<Number>
std::string value_text(Number value) {
    return fmt::format("{}", value);
}
inline std::string value_text(const std::string& value) { return value; }
std::string value_text(const Curve& value);
std::string value_text(const std::vector<AttentionKernel>& value);
std::string value_text(const std::vector<ExpertKernel>& value);
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
    for (const T& one : value) text += (text.empty() ? "" : ", ") + (std::is_arithmetic_v<T> ? value_text(one) : quoted_toml(value_text(one)));
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

template <class T>
constexpr std::string_view kind_of() {
    if constexpr (is_optional<T>) return kind_of<typename T::value_type>();
    if constexpr (std::is_same_v<T, bool>) return "boolean";
    if constexpr (std::is_integral_v<T>) return "integer";
    if constexpr (std::is_same_v<T, double>) return "number";
    if constexpr (std::is_same_v<T, Seconds>) return "time";
    if constexpr (std::is_same_v<T, Bytes>) return "bytes";
    if constexpr (std::is_same_v<T, BytesPerSecond>) return "bytes per second";
    if constexpr (std::is_same_v<T, FlopsPerSecond>) return "flop per second";
    if constexpr (std::is_same_v<T, std::string>) return "text";
    if constexpr (std::is_enum_v<T>) return "name";
    if constexpr (std::is_same_v<T, std::vector<int>>) return "integers";
    if constexpr (std::is_same_v<T, std::vector<double>>) return "numbers";
    if constexpr (std::is_same_v<T, Curve>) return "curve";
    if constexpr (std::is_same_v<T, std::vector<GemmPoint>>) return "gemm table";
    if constexpr (is_list<T>) return std::is_class_v<typename T::value_type> && !std::is_same_v<T, std::vector<std::string>> ? "kernels" : "names";
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

// Turns bare or quoted words of the command line into what a file would hold; text fields keep text that looks like a number.
std::string unquoted(const std::string& text);
ConfigValue word_of(const std::string& raw);
ConfigValue number_or_word_of(const std::string& raw);
ConfigValue list_of(const std::string& raw);

template <class T>
concept Measurable = (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || requires(T value) { value.si(); };

template <class T>
double number_in(const T& value) {
    if constexpr (requires { value.si(); }) return value.si();
    else if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(value);
    else return 0;
}

[[noreturn]] void out_of_range(const std::string& value, const std::string& expected);
template <class T>
void check_range(const T& value, double least, double most) {
    if constexpr (is_optional<T>) {
        if (value) check_range(*value, least, most);
    } else if constexpr (Measurable<T>) {
        const double number = number_in(value);
        if (number >= least && number <= most) return;
        if (least == atleast::more_than_0 && number < least) out_of_range(value_text(value), "more than 0");
        if constexpr (std::is_arithmetic_v<T>) out_of_range(value_text(value), fmt::format("{} to {}", least, most));
        else out_of_range(value_text(value), to_string(T(least)) + " to " + to_string(T(most)));
    }
}

// Calls `use` with the key of each field of a struct; `name` is the table that the struct represents (keyed.h).
template <class Table>
constexpr void each_key(std::string_view name, const auto& use) {
    const auto use_line = [&]<int line>(KeyLine<line> at) {
        if constexpr (requires(Table* of) { Table::key_at(at, of, name); })
            use(Table::key_at(at, static_cast<Table*>(nullptr), name));
    };
    [&]<int... line>(std::integer_sequence<int, line...>) { (use_line(KeyLine<line>()), ...); }(std::make_integer_sequence<int, most_lines>());
}

template <class T>
consteval bool has_keys() {
    bool any = false;
    if constexpr (std::is_class_v<T>) each_key<T>("", [&](const auto&) { any = true; });
    return any;
}

// The field reached through members or dtype indices: field<&Experiment::workload, &Workload::hidden>.
template <auto member, auto... further>
auto& reach(auto& from) {
    auto& next = [&]() -> auto& {
        if constexpr (std::is_same_v<std::remove_const_t<decltype(member)>, Dtype>) return from[member];
        else return from.*member;
    }();
    if constexpr (sizeof...(further) > 0) return reach<further...>(next);
    else return next;
}
// Types that one value of a file fills. Other fields are tables, or lists of tables.
template <class T>
concept OneValue = requires(const ConfigValue& found, T& value) { read_value(found, value); };

// For "2.field" in [[rows]]: returns the third row and sets `path` to "field"; nullptr if the path does not belong to the list.
template <class Row>
Row* row_of(std::vector<Row>& rows, std::string_view& path) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), index);
    if (error != std::errc() || end == path.data() + path.size() || *end != '.' || index > 10'000) return nullptr;
    if (index >= rows.size()) rows.resize(index + 1);
    path.remove_prefix(static_cast<std::size_t>(end - path.data()) + 1);
    return &rows[index];
}

// Reads "failures.source", or "gpu.2.name" of [[gpu]], into its field; false if there is no such field.
template <class Table>
bool read_field(std::string_view path, const ConfigValue& value, Table& table) {
    bool known = false;
    const auto read = [&]<auto... member>(const Keyed<member...>& row) {
        auto& field = reach<member...>(table);
        using Field = std::remove_cvref_t<decltype(field)>;
        if (known || !path.starts_with(row.name)) return;
        std::string_view below = path.substr(row.name.size());
        if constexpr (OneValue<Field>) {
            if (known = below.empty(); !known) return;
            read_value(value, field);
            check_range(field, row.least, row.most);
        } else if (below.starts_with('.')) {
            below.remove_prefix(1);
            if constexpr (is_list<Field>) {
                auto* const one = row_of(field, below);
                known = one && read_field(below, value, *one);
            } else {
                known = read_field(below, value, field);
            }
        }
    };
    each_key<Table>("", read);
    return known;
}

// Measured points are rows of values in field order; other rows with fields are tables.
template <class T>
inline constexpr bool is_list_of_tables = false;
template <class Row>
inline constexpr bool is_list_of_tables<std::vector<Row>> =
    has_keys<Row>() && !std::is_same_v<Row, CurvePoint> && !std::is_same_v<Row, GemmPoint>;

template <class T>
bool read_row_field(void* field, std::string_view path, const ConfigValue& value) {
    if constexpr (is_list_of_tables<T>) {
        auto* const row = row_of(*static_cast<T*>(field), path);
        return row && read_field(path, value, *row);
    }
    return false;
}

template <class T>
inline constexpr FieldType field_type{
    .kind = kind_of<T>(),
    .quoted = !std::is_arithmetic_v<StatedAs<T>> && !is_list<T>,
    .assign =
        [](void* field, const ConfigValue& value, double least, double most) {
            T parsed{};
            read_value(value, parsed);
            check_range(parsed, least, most);
            *static_cast<T*>(field) = std::move(parsed);
        },
    .assign_row = is_list_of_tables<T> ? read_row_field<T> : nullptr,
    .typed = is_list<StatedAs<T>> ? list_of : is_word<StatedAs<T>> ? word_of : number_or_word_of,
    .text = [](const void* field) { return value_text(*static_cast<const T*>(field)); },
    .number = [](const void* field) { return number_in(*static_cast<const T*>(field)); },
    .names = [] {
        if constexpr (HasNames<T>) return std::span<const std::string_view>(name_list<T>);
        else return std::span<const std::string_view>();
    }(),
};

template <auto... members>
using FieldOf = std::remove_cvref_t<decltype(reach<members...>(std::declval<Experiment&>()))>;

template <class T>
bool holds(const Key& key) {
    return key.type == &field_type<T>;
}
// The field of a key, which must have this type.
template <class T>
T& field_in(const Key& key, Experiment& experiment) {
    return *static_cast<T*>(key.field(experiment));
}
// Calls `use` with the field if it has one of these types; else returns false.
template <class... Types>
bool use_field(const Key& key, Experiment& experiment, auto use) {
    return (... || (holds<Types>(key) && (use(field_in<Types>(key, experiment)), true)));
}

}  // namespace stepcast
