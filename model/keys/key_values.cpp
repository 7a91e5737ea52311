#include "model/keys/key_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "model/errors.h"
#include "model/files/plain_text.h"
#include "model/keys/fields.h"

namespace stepcast {
namespace {

std::string shown(const ConfigValue& found) {
    return std::visit(
        []<class T>(const T& v) -> std::string {
            if constexpr (std::is_same_v<T, std::string>)
                return "\"" + v + "\"";
            else if constexpr (std::is_same_v<T, std::vector<ConfigValue>>)
                return "an array";
            else if constexpr (std::is_same_v<T, double>)
                return value_text(v) + (value_text(v).find_first_of(".einf") == std::string::npos ? ".0" : "");
            else
                return fmt::format("{}", v);
        },
        found.value);
}

template <class T>
const T* as(const ConfigValue& found) {
    return std::get_if<T>(&found.value);
}

[[noreturn]] void wrong(const ConfigValue& found, std::string_view is, std::string_view expected) {
    throw ConfigError(fmt::format("{} is {}; expected {}", shown(found), is, expected));
}

std::int64_t integer_of(const ConfigValue& found) {
    constexpr std::string_view expected = "an integer, for example 4";
    if (const auto* v = as<std::int64_t>(found)) return *v;
    if (as<std::vector<ConfigValue>>(found)) throw ConfigError(fmt::format("found an array; expected {}", expected));
    wrong(found, "not an integer", expected);
}

// A quantity: text with a unit. A bare number gets the answer that the text without a unit gets.
template <class T>
T quantity_of(const ConfigValue& found, T (*parse)(std::string_view)) {
    if (const auto* v = as<std::string>(found)) return parse(*v);
    if (as<std::int64_t>(found) || as<double>(found)) {
        try {
            return parse(shown(found));
        } catch (const ConfigError& e) {  // it quotes the number, which the file did not
            const std::string what = e.what();
            const auto closing = what.find('"', 1);
            throw ConfigError(what.substr(1, closing - 1) + what.substr(closing + 1));
        }
    }
    try {
        return parse("");
    } catch (const ConfigError& e) {
        const std::string what = e.what();
        throw ConfigError("found " + shown(found) + what.substr(what.find(';')));
    }
}

template <class T>
T positive(const ConfigValue& found) {
    T value{};
    read_value(found, value);
    if (!(value > T{})) throw ConfigError(fmt::format("{} is out of range; expected more than 0", shown(found)));
    return value;
}

// A number that is more than 0.
template <class T>
struct AboveZero {
    T& field;
};
template <class T, class Value>
concept Of = std::is_same_v<std::remove_const_t<T>, Value>;

// What the rows of a list hold, in the order of the file: of a row to read into or to write.
void pass_fields(auto& pass, Of<CurvePoint> auto& p) { pass(AboveZero{p.bytes}, AboveZero{p.time}); }
void pass_fields(auto& pass, Of<GemmPoint> auto& p) {
    pass(AboveZero{p.m}, AboveZero{p.n}, AboveZero{p.k}, p.dtype, AboveZero{p.time});
}
void pass_fields(auto& pass, Of<AttentionKernel> auto& k) {
    pass(k.name, k.launch, AboveZero{k.efficiency}, k.width, k.fill, k.corner, k.traffic, k.cache, k.token, AboveZero{k.odd},
         AboveZero{k.fp8_efficiency}, k.fp8_launch, AboveZero{k.tile}, k.slides, k.token_block, k.fp8_traffic);
}
void pass_fields(auto& pass, Of<ExpertKernel> auto& k) {
    pass(k.name, k.launch, AboveZero{k.efficiency}, k.k0, k.tile_reuse, AboveZero{k.traffic}, k.passes, k.tabled, k.reloads);
}

class RowReader {
public:
    explicit RowReader(const std::vector<ConfigValue>& row) : row_(row) {}
    void operator()(auto&&... fields) { (read(row_[at_++], fields), ...); }

private:
    static void read(const ConfigValue& found, auto& field) { read_value(found, field); }
    template <class T>
    static void read(const ConfigValue& found, AboveZero<T> of) {
        of.field = positive<std::conditional_t<std::is_integral_v<T>, int, T>>(found);
    }
    const std::vector<ConfigValue>& row_;
    std::size_t at_ = 0;
};

class RowWriter {
public:
    void operator()(const auto&... fields) { (add(fields), ...); }
    std::string text = {};
    std::size_t width = 0;

private:
    void add(const auto& field) {
        if (width++ > 0) text += ", ";
        if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(field)>>) text += fmt::format("{}", field);
        else text += quoted_toml(value_text(field));
    }
    template <class T>
    void add(AboveZero<T> of) {
        add(of.field);
    }
};

// An array of arrays; errors name the row. `check` sees each row behind those before.
struct AnyRow {
    void operator()(const auto&, const auto&) const {}
};
template <class Row, class Check = AnyRow>
void read_rows(const ConfigValue& found, std::string_view example, std::vector<Row>& out, Check check = {}) {
    const auto* rows = as<std::vector<ConfigValue>>(found);
    if (!rows)
        throw ConfigError(fmt::format("found {}; expected an array of points, for example {}", shown(found), example));
    RowWriter fields;
    const Row any;
    pass_fields(fields, any);
    for (std::size_t i = 0; i < rows->size(); ++i) {
        const auto* row = as<std::vector<ConfigValue>>((*rows)[i]);
        if (!row || row->size() != fields.width)
            throw ConfigError(fmt::format("point {}: found {}; expected {} values, for example {}", i + 1,
                                          row ? fmt::format("{} values", row->size()) : shown((*rows)[i]), fields.width,
                                          example));
        at_place(fmt::format("point {}", i + 1), [&] {
            RowReader reader(*row);
            pass_fields(reader, out.emplace_back());
            check(out, *row);
        });
    }
}

template <class Row>
std::string text_of_rows(const std::vector<Row>& rows) {
    std::string text;
    for (const Row& row : rows) {
        RowWriter fields;
        pass_fields(fields, row);
        text += (text.empty() ? "[" : ", [") + fields.text + "]";
    }
    return "[" + text + "]";
}

}  // namespace

void read_value(const ConfigValue& found, int& out) {
    const auto value = integer_of(found);
    using Limits = std::numeric_limits<int>;
    if (value < Limits::min() || value > Limits::max())
        throw ConfigError(fmt::format("{} is out of range; expected at most {}", value, Limits::max()));
    out = static_cast<int>(value);
}
void read_value(const ConfigValue& found, std::uint64_t& out) {
    const auto value = integer_of(found);
    if (value < 0) throw ConfigError(fmt::format("{} is out of range; expected at least 0", value));
    out = static_cast<std::uint64_t>(value);
}
void read_value(const ConfigValue& found, bool& out) {
    const auto* v = as<bool>(found);
    if (!v) wrong(found, "not a boolean", "true or false");
    out = *v;
}
void read_value(const ConfigValue& found, double& out) {
    if (const auto* v = as<double>(found))
        out = *v;
    else if (const auto* i = as<std::int64_t>(found))
        out = static_cast<double>(*i);
    else
        wrong(found, "not a number", "a number without unit, for example 0.85");
}
void read_value(const ConfigValue& found, std::string& out) {
    const auto* v = as<std::string>(found);
    if (!v) wrong(found, "not text", "text in quotes");
    if (plain_text(*v) != *v)
        throw ConfigError(fmt::format("\"{}\" holds control characters; expected a line of text", plain_text(*v)));
    out = *v;
}
void read_value(const ConfigValue& found, Seconds& out) { out = quantity_of(found, parse_seconds); }
void read_value(const ConfigValue& found, Bytes& out) { out = quantity_of(found, parse_bytes); }
void read_value(const ConfigValue& found, BytesPerSecond& out) { out = quantity_of(found, parse_bandwidth); }
void read_value(const ConfigValue& found, FlopsPerSecond& out) { out = quantity_of(found, parse_flop_rate); }
void read_value(const ConfigValue& found, Watts& out) { out = quantity_of(found, parse_power); }

const std::string& name_in(const ConfigValue& found) {
    if (const auto* v = as<std::string>(found)) return *v;
    if (as<std::vector<ConfigValue>>(found)) throw ConfigError("found an array; expected a name in quotes");
    wrong(found, "not a name", "a name in quotes");
}
const std::vector<ConfigValue>& list_in(const ConfigValue& found, std::string_view of) {
    if (const auto* values = as<std::vector<ConfigValue>>(found)) return *values;
    throw ConfigError(fmt::format("found {}; expected an array of {}", shown(found), of));
}
void read_value(const ConfigValue& found, Curve& out) {
    read_rows(found, R"([["4 KiB", "3.1 us"]])", out, [](const Curve& points, const std::vector<ConfigValue>& row) {
        if (points.size() > 1 && points.back().bytes <= points[points.size() - 2].bytes)
            throw ConfigError(shown(row[0]) + " is not above the point before; expected ascending bytes");
    });
}
void read_value(const ConfigValue& found, std::vector<GemmPoint>& out) {
    read_rows(found, R"([[64, 64, 64, "fp32", "12 us"]])", out);
}

// Rows as older files have them, with what came later: of each `change` may alter the fields.
ConfigValue with_all_fields(const ConfigValue& found, auto change) {
    const auto* rows = as<std::vector<ConfigValue>>(found);
    if (!rows) return found;
    std::vector<ConfigValue> all = *rows;
    for (ConfigValue& value : all) {
        const auto* row = as<std::vector<ConfigValue>>(value);
        if (!row) continue;
        std::vector<ConfigValue> fields = *row;
        change(fields);
        value = {std::move(fields)};
    }
    return {std::move(all)};
}
// Until November 2026 without `cache` (it was `traffic`), `token`, `odd` and `slides`, then without `token_block` and `fp8_traffic`. What is
// `fp8_launch` now was the width of a head whose products take as long as its exponentials, of fp8.
void add_cache(std::vector<ConfigValue>& fields) {
    if (fields.size() == 10) {
        const std::vector<ConfigValue> between{fields[6], {std::string("0 s")}, {1.0}};
        fields.insert(fields.begin() + 7, between.begin(), between.end());
        fields.push_back({true});
    }
    if (fields.size() == 14) fields.insert(fields.end(), {{std::int64_t{0}}, {1.0}});
    if (fields.size() == 16 && !as<std::string>(fields[11])) fields[11] = {std::string("0 s")};
}
// Until November 2026 the third was the time of a token, and the tile was the fastest; then without `reloads`.
void drop_token(std::vector<ConfigValue>& fields) {
    if (fields.size() != 8) return;
    if (as<std::string>(fields[2])) {
        fields.erase(fields.begin() + 2);
        fields.push_back({false});
    }
    fields.push_back({false});
}
void read_value(const ConfigValue& found, std::vector<AttentionKernel>& out) {
    read_rows(with_all_fields(found, add_cache), R"([["FlashAttention-3", "10 us", 0.9, 40, 60, 0.5, 1, 1, "0.1 ns", 1, 0.6, "3 us", 128, true, 0, 1]])", out);
}
void read_value(const ConfigValue& found, std::vector<ExpertKernel>& out) {
    read_rows(with_all_fields(found, drop_token), R"([["bf16 CUTLASS", "20 us", 0.8, 300, 25, 0.85, 1.5, false, false]])", out);
}

std::string value_text(int value) { return std::to_string(value); }
std::string value_text(bool value) { return value ? "true" : "false"; }
std::string value_text(std::uint64_t value) { return std::to_string(value); }
std::string value_text(double value) { return fmt::format("{}", value); }  // shortest that reads back
std::string value_text(const std::string& value) { return value; }
std::string value_text(const Curve& value) { return text_of_rows(value); }
std::string value_text(const std::vector<AttentionKernel>& value) { return rows_in_file(value); }
std::string value_text(const std::vector<ExpertKernel>& value) { return rows_in_file(value); }
std::string value_text(const std::vector<GemmPoint>& value) { return text_of_rows(value); }

std::string unquoted(const std::string& text) {
    const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
    return quoted ? text.substr(1, text.size() - 2) : text;
}

ConfigValue word_of(const std::string& raw) { return {unquoted(raw)}; }
ConfigValue list_of(const std::string& raw) {
    const std::string text = unquoted(raw);
    const auto first = text.find_first_not_of(" \t");
    if (first != std::string::npos && text[first] == '[') return parse_toml_value(text);
    const auto words = words_of(text);
    if (words.size() < 2) return number_or_word_of(raw);  // the reader of the list says what it expects
    std::vector<std::string> elements;
    for (const auto& word : words) elements.push_back(as_number<double>(word) ? word : quoted_toml(unquoted(word)));
    throw ConfigError(fmt::format("found {}; expected [{}]", text, fmt::join(elements, ", ")));
}
ConfigValue number_or_word_of(const std::string& raw) {
    const std::string text = unquoted(raw);
    if (text == "true" || text == "false") return {text == "true"};
    if (const auto integer = as_number<std::int64_t>(text)) return {*integer};
    if (const auto number = as_number<double>(text)) return {*number};
    return {text};
}

void out_of_range(const std::string& value, const std::string& least, const std::string& most) {
    throw ConfigError(fmt::format("{} is out of range; expected {} to {}", value, least, most));
}

std::string quoted_toml(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
            result += c;
    }
    return result + "\"";
}

}  // namespace stepcast
