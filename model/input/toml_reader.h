// A TOML file as a flat list of keys with positions, so that no other code depends on the TOML
// library. Internal to model/.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace stepcast {

// A value before its type is known. Dates, and tables inside arrays, have no meaning here and are
// refused while reading.
struct ConfigValue {
    std::variant<bool, std::int64_t, double, std::string, std::vector<ConfigValue>> value;
};

struct TomlEntry {
    // "link.intra.bandwidth"; element 2 of an array of tables [[a.b]]: "a.b.2.key"
    std::string path;
    ConfigValue value;
    std::string key_at, value_at;  // "moe.toml:14:3"
};

struct TomlFile {
    std::string path;
    std::vector<TomlEntry> entries;             // in the order of the file
    std::map<std::string, std::string> tables;  // position of each table; "" is the file itself
};

// throws ConfigError: unreadable, syntax, duplicate key
TomlFile read_toml(const std::string& path);
TomlFile parse_toml(const std::string& text, const std::string& path);  // `path` for messages
// one value, e.g. an array from the command line
ConfigValue parse_toml_value(const std::string& text);

}  // namespace stepcast
