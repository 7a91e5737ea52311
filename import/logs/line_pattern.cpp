#include "import/logs/line_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "model/base/characters.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/input/fields.h"
#include "model/input/presets.h"

namespace stepcast {
namespace {

constexpr LogUnit units[] = {{"us", "s", 1, 1e6},        {"ms", "s", 1, 1e3},
                             {"s", "s", 1, 1},           {"B", "B", 1, 1},
                             {"KB", "B", 1e3, 1},        {"MB", "B", 1e6, 1},
                             {"GB", "B", 1e9, 1},        {"KiB", "B", 1024, 1},
                             {"MiB", "B", 1048576, 1},   {"GiB", "B", 1073741824, 1},
                             {"1", "1", 1, 1},           {"tokens/s", "tokens/s", 1, 1},
                             {"%", "1", 1, 100},         {"steps/s", "s", 1, 1, true},
                             {"clock", "s", 1, 1, false}};

const LogUnit& unit_of(const std::string& name) {
    for (const LogUnit& unit : units)
        if (unit.name == name) return unit;
    throw ConfigError("\"" + name +
                      "\" is no unit here; expected us, ms, s, steps/s, B, KB, MB, GB, KiB, MiB, "
                      "GiB, 1, %, tokens/s or clock");
}

bool begins_with_letter(std::string_view text) { return !text.empty() && is_letter(text[0]); }

// "ms" for " ms, peak", "tokens/s" for "tokens/s |".
std::string_view first_word(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    std::size_t end = 0;
    while (end < text.size() && (is_letter(text[end]) || text[end] == '/')) ++end;
    return text.substr(0, end);
}

std::string number_text(double value) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// Taken as they are, without checking for printable text: lines of a log may hold any bytes.
std::vector<std::string> texts_in(const ConfigValue& found) {
    std::vector<std::string> texts;
    for (const ConfigValue& value : list_in(found, "texts")) {
        const auto* text = std::get_if<std::string>(&value.value);
        if (!text) throw ConfigError("expected an array of texts");
        texts.push_back(*text);
    }
    return texts;
}

bool read_entry(const TomlEntry& entry, LogPattern& pattern) {
    if (entry.path == "lines") {
        for (const std::string& text : texts_in(entry.value))
            at_place("\"" + text + "\"", [&] { pattern.lines.emplace_back(text); });
        return true;
    }
    if (entry.path != "ignore" && entry.path != "recognise")
        return read_field(entry.path, entry.value, pattern);
    std::vector<std::string>& texts = entry.path == "ignore" ? pattern.ignore : pattern.recognise;
    const auto* one =
        entry.path == "recognise" ? std::get_if<std::string>(&entry.value.value) : nullptr;
    texts = one ? std::vector<std::string>{*one} : texts_in(entry.value);
    if (contains(texts, ""))
        throw ConfigError("an empty text stands in every line; expected what only such lines hold");
    return true;
}

std::string no_such_key(const TomlEntry& entry) {
    std::vector<std::string> valid = names_of_fields(keys_in<LogPattern>());
    valid.insert(valid.end(), {"lines", "ignore", "recognise"});
    return entry.path + ": is no key of a pattern file" + did_you_mean(entry.path, valid);
}

}  // namespace

void LinePattern::add_field(const std::string& text) {
    Token token;
    if (!tokens_.empty() && tokens_.back().gap)
        throw ConfigError("{} is followed by a field; expected literal text that ends it");
    if (text.empty()) {
        token.gap = true;
    } else {
        const std::size_t colon = text.find(':');
        if (text != "#" && (colon == std::string::npos || colon == 0))
            throw ConfigError("{" + text + "}: expected {name:unit}, {#} or {}");
        token.suffixed = text.ends_with('*');
        token.unit = &unit_of(text == "#" ? "1"
                                          : text.substr(colon + 1, text.size() - colon - 1 -
                                                                       (token.suffixed ? 1 : 0)));
        token.field = as_int(fields_.size());
        fields_.push_back({text.substr(0, colon), std::string(token.unit->si)});
    }
    tokens_.push_back(std::move(token));
}

LinePattern::LinePattern(const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t open = std::min(text.find('{', at), text.size());
        if (const auto literal = trimmed(std::string_view(text).substr(at, open - at));
            !literal.empty())
            tokens_.emplace_back().literal = literal;
        if (open == text.size()) break;
        const std::size_t close = text.find('}', open);
        if (close == std::string::npos) throw ConfigError("a { is not closed");
        add_field(text.substr(open + 1, close - open - 1));
        at = close + 1;
    }
    if (tokens_.empty() || tokens_.front().literal.empty())
        throw ConfigError("expected literal text first, by which the line is found");
    if (fields_.empty()) throw ConfigError("expected a field, as in {step:ms}");
}

bool LinePattern::counts_steps() const {
    return std::ranges::any_of(fields_, [](const Field& f) { return f.name == "#"; });
}

// K, M, B or G, T or P directly behind a number whose pattern allows it.
double LinePattern::suffix_scale(const Token& field, LineCursor& cursor) {
    constexpr std::pair<char, double> suffixes[] = {{'k', 1e3}, {'K', 1e3},  {'m', 1e6},
                                                    {'M', 1e6}, {'b', 1e9},  {'B', 1e9},
                                                    {'G', 1e9}, {'T', 1e12}, {'P', 1e15}};
    if (!field.suffixed || cursor.rest().empty()) return 1;
    for (const auto& [letter, scale] : suffixes)
        if (letter == 'B' && field.unit->si == "B")
            continue;  // bytes
        else if (cursor.rest().front() == letter && !begins_with_letter(cursor.rest().substr(1))) {
            cursor.word(std::string_view(&letter, 1));
            return scale;
        }
    return 1;
}

// The message if the number before `rest` would be cut short, else "": by more digits after a
// separator, a suffix, or another unit.
std::string LinePattern::cut_text(const Token& field, double value, std::string_view rest) const {
    const bool more_digits =
        rest.size() > 1 && (rest[0] == ',' || rest[0] == '.') && rest[1] >= '0' && rest[1] <= '9';
    const bool adjoins = begins_with_letter(rest);
    const auto word = first_word(rest);
    const bool other_unit =
        word != field.unit->name &&
        std::ranges::any_of(units, [&](const LogUnit& u) { return u.name == word; });
    if (!more_digits && !other_unit && !(adjoins && word != field.unit->name)) return "";
    const std::string& name = fields_[as_index(field.field)].name;
    const std::string number = quoted_piece(number_text(value) + std::string(rest.substr(0, 12)));
    const std::string suffix =
        adjoins && word.size() == 1
            ? fmt::format(", or {{{}:{}*}} for a suffix of thousands", name, field.unit->name)
            : "";
    return fmt::format("number {} is cut by {{{}:{}}}; expected a pattern with its unit{}", number,
                       name, field.unit->name, suffix);
}

// "1:02:03", "1 day, 0:00:05" (Python's timedelta), "1h 2m 3s" or "62s", in seconds.
static std::optional<double> clock_in(LineCursor& cursor) {
    double seconds = 0;
    auto part = cursor.integer();
    if (!part || *part < 0) return std::nullopt;
    if (cursor.word("days,") || cursor.word("day,")) {
        seconds = 86400.0 * *part;
        part = cursor.integer();
        if (!part) return std::nullopt;
    }
    if (cursor.word(":")) {
        const auto minutes = cursor.integer();
        const auto rest = cursor.word(":") ? cursor.number() : std::nullopt;
        if (!minutes || !rest) return std::nullopt;
        return seconds + 3600.0 * *part + 60.0 * *minutes + *rest;
    }
    for (const auto& [letter, each] :
         {std::pair{"d", 86400.0}, {"h", 3600.0}, {"m", 60.0}, {"s", 1.0}}) {
        if (!part || !cursor.word(letter)) continue;
        seconds += each * *part;
        if (each == 1) return seconds;
        part = cursor.integer();
    }
    return std::nullopt;
}

// `cut`: what to say where the number is cut off by what follows it; empty: it may be.
bool LinePattern::read_value(const Token& token, LineCursor& cursor, double& value,
                             std::string& cut) const {
    const bool clock = token.unit->name == "clock";
    const auto number = clock ? clock_in(cursor) : cursor.grouped_number();
    if (!number) return false;
    const double scaled =
        *number * suffix_scale(token, cursor) * token.unit->scale / token.unit->divisor;
    value = token.unit->inverse ? 1 / scaled : scaled;
    cut = clock ? "" : cut_text(token, *number, cursor.rest());
    return true;
}

bool LinePattern::match(std::string_view line, std::vector<double>& values) const {
    LineCursor cursor(line);
    values.resize(fields_.size());
    bool gap = true;
    std::string cut, pending;  // pending: counts unless the next literal follows directly
    for (const Token& token : tokens_) {
        if (token.gap) {
            gap = true;
            continue;
        }
        if (token.field < 0) {
            if (!gap && cursor.word(token.literal))
                pending.clear();
            else if (!gap || !cursor.find(token.literal))
                return false;
        } else if (!read_value(token, cursor, values[as_index(token.field)], pending)) {
            return false;
        }
        gap = false;
        if (&token + 1 == tokens_.data() + tokens_.size() || (&token)[1].gap) {
            if (cut.empty()) cut = pending;
            pending.clear();
        }
    }
    if (!cut.empty()) throw ConfigError(cut);
    return true;
}

LogPattern read_log_pattern(const std::string& path) {
    LogPattern pattern;
    pattern.path = path;
    pattern.name = std::filesystem::path(path).stem().string();
    each_entry(
        read_toml(path).entries, [&](const TomlEntry& entry) { return read_entry(entry, pattern); },
        no_such_key);
    if (pattern.system.empty()) pattern.system = pattern.name;
    if (std::ranges::none_of(pattern.lines, [](auto& line) { return line.counts_steps(); }))
        throw ConfigError(path +
                          ": no line has {#}; expected in one of `lines` the number of the step");
    return pattern;
}

std::vector<std::string> shipped_patterns() {
    std::set<std::string> paths;
    std::error_code missing;
    const auto folder = std::filesystem::path(home_folder()) / "import" / "patterns";
    for (const auto& entry : std::filesystem::directory_iterator(folder, missing))
        if (entry.path().extension() == ".toml") paths.insert(entry.path().string());
    return {paths.begin(), paths.end()};
}

}  // namespace stepcast
