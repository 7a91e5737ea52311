// A configuration file of another tool as a flat list of named values, each with its place: what every reader here starts
// from. Internal to translate/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

struct NamedValue {
    std::string name;   // "model.tensor_model_parallel_size"
    std::string value;  // "" = stated as null or without a value
    std::string at;     // "train.sh:14"
    bool null = false;
    bool used = false;  // some rule looked at it
};

// The last of several values of one name counts.
class Document {
public:
    std::string path;
    std::vector<NamedValue> values;

    // nullptr where it is not stated, or null.
    const NamedValue* find(std::string_view name);
    // The first of several names that is stated.
    const NamedValue* find_any(std::initializer_list<std::string_view> names);
    bool states(std::string_view name) { return find(name) != nullptr; }
    const NamedValue* on(std::string_view name);  // nullptr too where it is false
    std::string text(std::string_view name, const std::string& otherwise = "");
    void add(std::string name, std::string value, std::string at) {
        values.push_back({std::move(name), std::move(value), std::move(at)});
    }
};

// Throw ConfigError with the place where the text is none of the kind.
[[noreturn]] void wrong(const NamedValue& value, const std::string& expected);
double number_in(const NamedValue& value);
long integer_in(const NamedValue& value);
long count_in(const NamedValue& value);  // 1 to 10^9: may divide, and be multiplied by another
bool flag_in(const NamedValue& value);

// The same as the value of a key.
std::string truth(bool value);
std::string integer_text(const NamedValue& value);
std::string flag_text(const NamedValue& value);
std::string stated_text(const NamedValue& value);

// Names without the first of these sections that they begin with: "model.num_layers" -> num_layers.
void drop_sections(Document& document, std::initializer_list<std::string_view> sections);

// YAML, or JSON, which YAML contains (a bare Infinity too). Lists become one value "[a, b]". Bounded in size and depth.
Document read_yaml(const std::string& text, const std::string& path);
Document read_toml_values(const std::string& text, const std::string& path);

}  // namespace stepcast
