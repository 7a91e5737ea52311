#include "model/input/key_values.h"
#include "model/base/joined.h"

#include <algorithm>
#include <limits>

#include "model/base/characters.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/input/fields.h"

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
                return value_text(v) +
                       (value_text(v).find_first_of(".einf") == std::string::npos ? ".0" : "");
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
    refuse("{} is {}; expected {}", shown(found), is, expected);
}

std::int64_t integer_of(const ConfigValue& found) {
    constexpr std::string_view expected = "an integer, for example 4";
    if (const auto* v = as<std::int64_t>(found)) return *v;
    if (as<std::vector<ConfigValue>>(found)) refuse("found an array; expected {}", expected);
    wrong(found, "not an integer", expected);
}

using Values = std::vector<ConfigValue>;

// Field names of a row's values, in order; "" marks a value that is no longer used.
std::vector<std::string_view> fields_in(const Values&, const Curve&) { return {"bytes", "time"}; }
std::vector<std::string_view> fields_in(const Values&, const std::vector<GemmPoint>&) {
    return {"m", "n", "k", "dtype", "time"};
}

// Until November 2026, rows of kernels had no field names. The oldest lack `cache` (then
// `traffic`), `token`, `odd` and `slides`, later ones `token_block` and `fp8_traffic`. The place of
// `fp8_launch` held the fp8 width whose products take as long as its exponentials.
std::vector<std::string_view> fields_in(const Values& row, const std::vector<AttentionKernel>&) {
    if (row.size() == 10)
        return {"kernel", "launch",  "efficiency", "width", "fill",
                "corner", "traffic", "fp8",        "",      "tile"};
    const bool launches = row.size() > 11 && as<std::string>(row[11]);
    std::vector<std::string_view> names{
        "kernel",  "launch", "efficiency",  "width",      "fill", "corner",
        "traffic", "cache",  "token",       "odd",        "fp8",  launches ? "fp8_launch" : "",
        "tile",    "slides", "token_block", "fp8_traffic"};
    if (row.size() == 14) names.resize(14);
    return names;
}
// The oldest rows had a token's time third, and the tile was the fastest; later rows still lacked
// `reloads`.
std::vector<std::string_view> fields_in(const Values& row, const std::vector<ExpertKernel>&) {
    std::vector<std::string_view> names{"kernel",  "launch", "efficiency", "k0",     "tile_reuse",
                                        "traffic", "passes", "tabled",     "reloads"};
    if (row.size() != 8) return names;
    if (as<std::string>(row[2])) names.insert(names.begin() + 2, "");
    names.resize(8);
    return names;
}

struct Expected {
    std::string_view list, row, example;
};
// Reads an array of arrays; errors name the row. `check` runs after each row and sees all rows so
// far.
template <class Row>
void read_rows(const ConfigValue& found, const Expected& expected, std::vector<Row>& out,
               const auto& check) {
    const auto* rows = as<Values>(found);
    if (!rows)
        refuse("found {}; expected an array of {}, for example {}", shown(found), expected.list,
               expected.example);
    for (const ConfigValue& value : *rows)
        at_place(fmt::format("point {}", out.size() + 1), [&] {
            const auto* row = as<Values>(value);
            const auto names = fields_in(row ? *row : Values(), out);
            if (!row || row->size() != names.size())
                refuse("found {}; expected {}, for example {}",
                       row ? fmt::format("{} values", row->size()) : shown(value), expected.row,
                       expected.example);
            out.emplace_back();
            for (const std::size_t i : indices_of(names))
                if (!names[i].empty()) read_field(names[i], (*row)[i], out.back());
            check(*row);
        });
}

template <class Point>
std::string text_of_points(const std::vector<Point>& points) {
    std::string text;
    for (const Point& point : points) {
        std::string fields;
        for (const Key& key : keys_in<Point>())
            fields += (fields.empty() ? "" : ", ") + toml_text_of(key, &point);
        text += (text.empty() ? "[" : ", [") + fields + "]";
    }
    return "[" + text + "]";
}

}  // namespace

void read_value(const ConfigValue& found, int& out) {
    long value = 0;
    read_value(found, value);
    out = as_int(value);
}
// Counts are converted to int later, so the value must fit an int.
void read_value(const ConfigValue& found, long& out) {
    out = integer_of(found);
    using Limits = std::numeric_limits<int>;
    if (out < Limits::min() || out > Limits::max())
        refuse("{} is out of range; expected at most {}", out, Limits::max());
}
void read_value(const ConfigValue& found, std::uint64_t& out) {
    const auto value = integer_of(found);
    if (value < 0) refuse("{} is out of range; expected at least 0", value);
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
        out = real(*i);
    else
        wrong(found, "not a number", "a number without unit, for example 0.85");
}
void read_value(const ConfigValue& found, std::string& out) {
    const auto* v = as<std::string>(found);
    if (!v) wrong(found, "not text", "text in quotes");
    if (plain_text(*v) != *v)
        refuse("\"{}\" holds control characters; expected a line of text", plain_text(*v));
    out = *v;
}

// A quantity is text with a unit. A bare number gets the error of a text without unit, but without
// quotes, as the file has none.
double si_in(const ConfigValue& found, const Exponents& of) {
    if (const auto* v = as<std::string>(found)) return parse_si(*v, of);
    const bool number = as<std::int64_t>(found) || as<double>(found);
    try {
        return parse_si(number ? shown(found) : "", of);
    } catch (const ConfigError& e) {
        const std::string what = e.what();
        throw ConfigError(number ? shown(found) + what.substr(what.find('"', 1) + 1)
                                 : "found " + shown(found) + what.substr(what.find(';')));
    }
}
const std::string& name_in(const ConfigValue& found) {
    if (const auto* v = as<std::string>(found)) return *v;
    if (as<std::vector<ConfigValue>>(found))
        throw ConfigError("found an array; expected a name in quotes");
    wrong(found, "not a name", "a name in quotes");
}
const std::vector<ConfigValue>& list_in(const ConfigValue& found, std::string_view of) {
    if (const auto* values = as<std::vector<ConfigValue>>(found)) return *values;
    refuse("found {}; expected an array of {}", shown(found), of);
}
void read_value(const ConfigValue& found, BucketSize& out) {
    constexpr double least = 1, most = 1e15;
    const auto* const text = as<std::string>(found);
    const std::string_view word = text ? trimmed(*text) : "";
    constexpr std::string_view unit = " weights";
    if (word == "one") {
        out = BucketSize::one();
    } else if (word.ends_with(unit)) {
        const auto weights = as_number<double>(word.substr(0, word.size() - unit.size()));
        if (!weights || !(*weights >= least && *weights <= most))
            wrong(found, "no number of weights", "for example \"40e6 weights\"");
        out = BucketSize::of_weights(*weights);
    } else {
        Bytes bytes;
        read_value(found, bytes);
        check_range(bytes, least, most);
        out = BucketSize(bytes);
    }
}
std::string value_text(const BucketSize& value) {
    if (value == BucketSize::one()) return "one";
    return value.weights() > 0 ? fmt::format("{} weights", value.weights())
                               : value_text(value.bytes(Bytes(1)));
}

void read_value(const ConfigValue& found, Curve& out) {
    read_rows(found, {"points", "2 values", R"([["4 KiB", "3.1 us"]])"}, out,
              [&](const Values& row) {
                  if (out.size() > 1 && out.back().bytes <= out[out.size() - 2].bytes)
                      throw ConfigError(shown(row[0]) +
                                        " is not above the point before; expected ascending bytes");
              });
}
void read_value(const ConfigValue& found, std::vector<GemmPoint>& out) {
    read_rows(found, {"points", "5 values", R"([[64, 64, 64, "fp32", "12 us"]])"}, out,
              [](const Values&) {});
}
void read_value(const ConfigValue& found, std::vector<AttentionKernel>& out) {
    read_rows(found,
              {"kernels", "fields by name",
               R"([{kernel = "FlashAttention-3", launch = "10 us", tile = 128}])"},
              out, [&](const Values& row) {
                  if (row.size() == 10) out.back().cache = out.back().traffic;
              });
}
void read_value(const ConfigValue& found, std::vector<ExpertKernel>& out) {
    read_rows(found,
              {"kernels", "fields by name",
               R"([{kernel = "bf16 CUTLASS", launch = "20 us", passes = 1.5}])"},
              out, [](const Values&) {});
}

std::string value_text(const Curve& value) { return text_of_points(value); }
std::string value_text(const std::vector<GemmPoint>& value) { return text_of_points(value); }

std::string unquoted(const std::string& text) {
    const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                        text.back() == text.front();
    return quoted ? text.substr(1, text.size() - 2) : text;
}

ConfigValue word_of(const std::string& raw) { return {unquoted(raw)}; }

namespace {

bool is_name(std::string_view word) {
    return word != "true" && word != "false" && !word.empty() && is_letter(word.front()) &&
           std::ranges::all_of(word, is_name_character);
}
// Names in a list may stand without quotes.
ConfigValue bracketed(const std::string& text) {
    const auto open = text.find('['), close = text.rfind(']');
    const auto names = close == std::string::npos
                           ? std::vector<std::string>{}
                           : words_of(text.substr(open + 1, close - open - 1));
    if (names.empty() || !std::ranges::all_of(names, is_name)) return parse_toml_value(text);
    return parse_toml_value(fmt::format("[\"{}\"]", joined(names, "\", \"")));
}

}  // namespace

ConfigValue list_of(const std::string& raw) {
    const std::string text = unquoted(raw);
    const auto first = text.find_first_not_of(" \t");
    if (first != std::string::npos && text[first] == '[') return bracketed(text);
    const auto words = words_of(text);
    // the reader of the list reports what it expects
    if (words.size() < 2) return number_or_word_of(raw);
    std::vector<std::string> elements;
    for (const auto& word : words)
        elements.push_back(as_number<double>(word) ? word : quoted_toml(unquoted(word)));
    refuse("found {}; expected [{}]", text, joined(elements, ", "));
}
ConfigValue number_or_word_of(const std::string& raw) {
    const std::string text = unquoted(raw);
    if (text == "true" || text == "false") return {text == "true"};
    if (const auto integer = as_number<std::int64_t>(text)) return {*integer};
    if (const auto number = as_number<double>(text)) return {*number};
    return {text};
}

void out_of_range(const std::string& value, const std::string& expected) {
    refuse("{} is out of range; expected {}", value, expected);
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
