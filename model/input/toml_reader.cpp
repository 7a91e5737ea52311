#include "model/input/toml_reader.h"

#include <toml++/toml.h>

#include <algorithm>

#include "model/base/characters.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/base/whole_files.h"

namespace stepcast {
namespace {

std::string position(const std::string& file, const toml::source_position& at) {
    return file + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
}

ConfigValue value_of(const toml::node& node, const std::string& file) {
    if (const auto* v = node.as_boolean()) return {v->get()};
    if (const auto* v = node.as_integer()) return {std::int64_t{v->get()}};
    if (const auto* v = node.as_floating_point()) return {v->get()};
    if (const auto* v = node.as_string()) return {v->get()};
    if (const auto* array = node.as_array()) {
        std::vector<ConfigValue> elements;
        for (const auto& element : *array) elements.push_back(value_of(element, file));
        return {std::move(elements)};
    }
    throw ConfigError(position(file, node.source().begin) + ": found a " +
                      (node.is_table() ? "table inside an array" : "date or time") +
                      "; expected a string, number, boolean or array of them");
}

void flatten(const toml::table& table, const std::string& path, TomlFile& file) {
    file.tables.emplace(
        path, path.empty() ? file.path + ":1:1" : position(file.path, table.source().begin));
    // toml++ sorts keys by name, but the first of several errors must be the first in the file.
    const auto begin_of = [](const auto& one) { return one->source().begin; };
    std::vector<std::pair<const toml::key*, const toml::node*>> items;
    for (const auto& [key, node] : table) items.emplace_back(&key, &node);
    std::ranges::sort(items, {}, [&](const auto& item) { return begin_of(item.second); });
    std::vector<std::pair<std::string, const toml::table*>> below;
    for (const auto& [key, node] : items) {
        const auto full = (path.empty() ? "" : path + ".") + std::string(key->str());
        if (const auto* child = node->as_table()) {
            below.emplace_back(full, child);
        } else if (const auto* array = node->as_array(); array && array->is_array_of_tables()) {
            for (std::size_t i = 0; i < array->size(); ++i)
                below.emplace_back(full + "." + std::to_string(i), (*array)[i].as_table());
        } else {
            file.entries.push_back({full, value_of(*node, file.path),
                                    position(file.path, begin_of(key)),
                                    position(file.path, begin_of(node))});
        }
    }
    for (const auto& [child_path, child] : below) flatten(*child, child_path, file);
}

// Behind the string that begins at `at`; one of a single line ends with it at the latest.
std::size_t end_of_string(std::string_view text, std::size_t at) {
    const char quote = text[at];
    const bool longer = text.substr(at, 3) == std::string(3, quote);
    const std::string_view end = text.substr(at, longer ? 3 : 1);
    std::size_t i = at + end.size();
    for (; i < text.size() && text.substr(i, end.size()) != end; ++i) {
        if (text[i] == '\n' && !longer) break;
        if (text[i] == '\\' && quote == '"') ++i;
    }
    return i + end.size();
}

bool is_of_key(char c) {
    return is_letter_or_digit(c) || c == '_' || c == '-' || c == ' ' || c == '\t';
}

// toml++ bounds the nesting of values but not of keys, and its tables and flatten() recurse. Counts
// the dots of each key.
void check_nesting(std::string_view text, const std::string& file) {
    constexpr int most_dots = 32;
    std::size_t line = 1;
    int dots = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '"' || c == '\'') {
            const std::string_view string = text.substr(i, end_of_string(text, i) - i);
            line += as_index(std::ranges::count(string, '\n'));
            i += string.size() - 1;
        } else if (c == '#') {
            i = std::min(text.find('\n', i), text.size()) - 1;
        } else if (c == '.') {
            if (++dots > most_dots)
                throw ConfigError(file + ":" + std::to_string(line) + ": a key of more than " +
                                  std::to_string(most_dots) +
                                  " parts; expected one of `stepcast list keys`");
        } else if (!is_of_key(c)) {
            dots = 0;
        }
        if (c == '\n') ++line;
    }
}

toml::table parse(const std::string& text, const std::string& file) {
    check_nesting(text, file);
    try {
        return toml::parse(std::string_view(text), std::string_view(file));
    } catch (const toml::parse_error& e) {
        std::string what(e.description());
        if (!what.empty()) what[0] = lower_case(what[0]);
        throw ConfigError(position(file, e.source().begin) + ": " + what);
    }
}

}  // namespace

TomlFile read_toml(const std::string& path) {
    return parse_toml(read_text(path, "a TOML file"), path);
}

TomlFile parse_toml(const std::string& text, const std::string& path) {
    TomlFile file{path, {}, {}};
    flatten(parse(text, path), "", file);
    return file;
}

ConfigValue parse_toml_value(const std::string& text) {
    const auto table = parse("value = " + text, "value");
    if (table.size() != 1) throw ConfigError("found several values; expected one");
    return value_of(*table.get("value"), "value");
}

}  // namespace stepcast
