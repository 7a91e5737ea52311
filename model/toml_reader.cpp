#include "model/toml_reader.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>

#include "model/errors.h"
#include "model/whole_files.h"

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
    file.tables.emplace(path, path.empty() ? file.path + ":1:1" : position(file.path, table.source().begin));
    // toml++ keeps keys by name; the order of the file decides which of several errors is met first.
    struct Item {
        toml::source_position at;
        std::string key;
        const toml::node* node;
        toml::source_position key_at;
    };
    std::vector<Item> items;
    for (const auto& [key, node] : table)
        items.push_back({node.source().begin, std::string(key.str()), &node, key.source().begin});
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.at < b.at; });
    std::vector<std::pair<std::string, const toml::table*>> below;
    for (const auto& [at, key, node, key_at] : items) {
        const auto full = path.empty() ? key : path + "." + key;
        if (const auto* child = node->as_table()) {
            below.emplace_back(full, child);
        } else if (const auto* array = node->as_array(); array && array->is_array_of_tables()) {
            for (std::size_t i = 0; i < array->size(); ++i)
                below.emplace_back(full + "." + std::to_string(i), (*array)[i].as_table());
        } else {
            file.entries.push_back(
                {full, value_of(*node, file.path), position(file.path, key_at), position(file.path, at)});
        }
    }
    for (const auto& [child_path, child] : below) flatten(*child, child_path, file);
}

toml::table parse(const std::string& text, const std::string& file) {
    try {
        return toml::parse(std::string_view(text), std::string_view(file));
    } catch (const toml::parse_error& e) {
        std::string what(e.description());
        if (!what.empty()) what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));
        throw ConfigError(position(file, e.source().begin) + ": " + what);
    }
}

}  // namespace

TomlFile read_toml(const std::string& path) {
    const auto text = read_text(path);
    if (!text) throw ConfigError(path + ": cannot be read; expected a TOML file");
    return parse_toml(*text, path);
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
