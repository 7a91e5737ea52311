#include "model/keys/key_values.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "model/errors.h"
#include "model/files/plain_text.h"

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

// The rows of an array of arrays of `width` values, each handed to `read`; errors name the row.
template <class Read>
void each_row(const ConfigValue& found, std::size_t width, std::string_view example, Read read) {
    const auto* rows = as<std::vector<ConfigValue>>(found);
    if (!rows)
        throw ConfigError(fmt::format("found {}; expected an array of points, for example {}", shown(found), example));
    for (std::size_t i = 0; i < rows->size(); ++i) {
        const auto* row = as<std::vector<ConfigValue>>((*rows)[i]);
        if (!row || row->size() != width)
            throw ConfigError(fmt::format("point {}: found {}; expected {} values, for example {}", i + 1,
                                          row ? fmt::format("{} values", row->size()) : shown((*rows)[i]), width,
                                          example));
        try {
            read(*row);
        } catch (const ConfigError& e) {
            throw ConfigError(fmt::format("point {}: {}", i + 1, e.what()));
        }
    }
}

template <class T>
T positive(const ConfigValue& found) {
    T value{};
    read_value(found, value);
    if (!(value > T{})) throw ConfigError(fmt::format("{} is out of range; expected more than 0", shown(found)));
    return value;
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
const std::string& name_in(const ConfigValue& found) {
    if (const auto* v = as<std::string>(found)) return *v;
    if (as<std::vector<ConfigValue>>(found)) throw ConfigError("found an array; expected a name in quotes");
    wrong(found, "not a name", "a name in quotes");
}
const std::vector<ConfigValue>& list_in(const ConfigValue& found, std::string_view of) {
    if (const auto* values = as<std::vector<ConfigValue>>(found)) return *values;
    throw ConfigError(fmt::format("found {}; expected an array of {}", shown(found), of));
}
void read_value(const ConfigValue& found, std::vector<int>& out) {
    for (const auto& value : list_in(found, "integers")) read_value(value, out.emplace_back());
}
void read_value(const ConfigValue& found, std::vector<double>& out) {
    for (const auto& value : list_in(found, "numbers")) read_value(value, out.emplace_back());
}
void read_value(const ConfigValue& found, std::vector<std::string>& out) {
    for (const auto& value : list_in(found, "texts")) read_value(value, out.emplace_back());
}

void read_value(const ConfigValue& found, Curve& out) {
    each_row(found, 2, R"([["4 KiB", "3.1 us"]])", [&](const std::vector<ConfigValue>& row) {
        const CurvePoint point{positive<Bytes>(row[0]), positive<Seconds>(row[1])};
        if (!out.empty() && point.bytes <= out.back().bytes)
            throw ConfigError(shown(row[0]) + " is not above the point before; expected ascending bytes");
        out.push_back(point);
    });
}
void read_value(const ConfigValue& found, std::vector<GemmPoint>& out) {
    each_row(found, 5, R"([[64, 64, 64, "fp32", "12 us"]])", [&](const std::vector<ConfigValue>& row) {
        GemmPoint point;
        point.m = positive<int>(row[0]);
        point.n = positive<int>(row[1]);
        point.k = positive<int>(row[2]);
        read_value(row[3], point.dtype);
        point.time = positive<Seconds>(row[4]);
        out.push_back(point);
    });
}

// Files of before November 2026 have rows without `cache` (it was `traffic`), `token`, `odd` and `slides`.
ConfigValue with_all_fields(const ConfigValue& found) {
    const auto* rows = as<std::vector<ConfigValue>>(found);
    if (!rows) return found;
    std::vector<ConfigValue> all = *rows;
    for (ConfigValue& value : all) {
        const auto* row = as<std::vector<ConfigValue>>(value);
        if (!row || row->size() != 10) continue;
        std::vector<ConfigValue> fields = *row;
        const std::vector<ConfigValue> between{fields[6], {std::string("0 s")}, {1.0}};
        fields.insert(fields.begin() + 7, between.begin(), between.end());
        fields.push_back({true});
        value = {std::move(fields)};
    }
    return {std::move(all)};
}
void read_value(const ConfigValue& found, std::vector<AttentionKernel>& out) {
    each_row(with_all_fields(found), 14, R"([["FlashAttention-3", "10 us", 0.9, 40, 60, 0.5, 1, 1, "0.1 ns", 1, 0.6, 60, 128, true]])",
             [&](const std::vector<ConfigValue>& row) {
                 AttentionKernel kernel;
                 read_value(row[0], kernel.name);
                 read_value(row[1], kernel.launch);
                 kernel.efficiency = positive<double>(row[2]);
                 read_value(row[3], kernel.width);
                 read_value(row[4], kernel.fill);
                 read_value(row[5], kernel.corner);
                 read_value(row[6], kernel.traffic);
                 read_value(row[7], kernel.cache);
                 read_value(row[8], kernel.token);
                 kernel.odd = positive<double>(row[9]);
                 kernel.fp8_efficiency = positive<double>(row[10]);
                 read_value(row[11], kernel.fp8_width);
                 kernel.tile = positive<int>(row[12]);
                 read_value(row[13], kernel.slides);
                 out.push_back(kernel);
             });
}
void read_value(const ConfigValue& found, std::vector<ExpertKernel>& out) {
    each_row(found, 8, R"([["bf16 CUTLASS", "20 us", "0.1 us", 0.8, 300, 25, 0.85, 1.5]])",
             [&](const std::vector<ConfigValue>& row) {
                 ExpertKernel kernel;
                 read_value(row[0], kernel.name);
                 read_value(row[1], kernel.launch);
                 read_value(row[2], kernel.token);
                 kernel.efficiency = positive<double>(row[3]);
                 read_value(row[4], kernel.k0);
                 read_value(row[5], kernel.tile_reuse);
                 kernel.traffic = positive<double>(row[6]);
                 read_value(row[7], kernel.passes);
                 out.push_back(kernel);
             });
}

std::string value_text(int value) { return std::to_string(value); }
std::string value_text(bool value) { return value ? "true" : "false"; }
std::string value_text(std::uint64_t value) { return std::to_string(value); }
std::string value_text(double value) { return fmt::format("{}", value); }  // shortest that reads back
std::string value_text(const std::string& value) { return value; }
std::string value_text(const std::vector<int>& value) { return fmt::format("[{}]", fmt::join(value, ", ")); }
std::string value_text(const std::vector<double>& value) { return fmt::format("[{}]", fmt::join(value, ", ")); }
std::string value_text(const Curve& value) {
    std::string text;
    for (const auto& p : value)
        text += fmt::format("{}[\"{}\", \"{}\"]", text.empty() ? "" : ", ", exact_text(p.bytes), exact_text(p.time));
    return "[" + text + "]";
}
std::string value_text(const std::vector<AttentionKernel>& value) {
    std::string text;
    for (const auto& k : value)
        text += fmt::format("{}[{}, \"{}\", {}, {}, {}, {}, {}, {}, \"{}\", {}, {}, {}, {}, {}]", text.empty() ? "" : ", ",
                            quoted_toml(k.name), exact_text(k.launch), k.efficiency, k.width, k.fill, k.corner, k.traffic,
                            k.cache, exact_text(k.token), k.odd, k.fp8_efficiency, k.fp8_width, k.tile, k.slides);
    return "[" + text + "]";
}
std::string value_text(const std::vector<ExpertKernel>& value) {
    std::string text;
    for (const auto& k : value)
        text += fmt::format("{}[{}, \"{}\", \"{}\", {}, {}, {}, {}, {}]", text.empty() ? "" : ", ",
                            quoted_toml(k.name), exact_text(k.launch), exact_text(k.token), k.efficiency, k.k0,
                            k.tile_reuse, k.traffic, k.passes);
    return "[" + text + "]";
}
std::string value_text(const std::vector<GemmPoint>& value) {
    std::string text;
    for (const auto& p : value)
        text += fmt::format("{}[{}, {}, {}, \"{}\", \"{}\"]", text.empty() ? "" : ", ", p.m, p.n, p.k,
                            to_string(p.dtype), exact_text(p.time));
    return "[" + text + "]";
}

static std::string unquoted_word(const std::string& raw) {
    const bool quoted = raw.size() >= 2 && (raw.front() == '"' || raw.front() == '\'') && raw.back() == raw.front();
    return quoted ? raw.substr(1, raw.size() - 2) : raw;
}

ConfigValue word_of(const std::string& raw) { return {unquoted_word(raw)}; }
ConfigValue list_of(const std::string& raw) { return parse_toml_value(unquoted_word(raw)); }
ConfigValue number_or_word_of(const std::string& raw) {
    const std::string text = unquoted_word(raw);
    if (text == "true" || text == "false") return {text == "true"};
    const auto* end = text.data() + text.size();
    std::int64_t integer = 0;
    if (const auto r = std::from_chars(text.data(), end, integer); r.ec == std::errc() && r.ptr == end) return {integer};
    double number = 0;
    if (const auto r = std::from_chars(text.data(), end, number); r.ec == std::errc() && r.ptr == end) return {number};
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
