#include "translate/document.h"

#include <yaml-cpp/yaml.h>

#include <cmath>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/files/plain_text.h"
#include "model/keys/toml_reader.h"

namespace stepcast {
namespace {

constexpr std::size_t most_values = 100'000;  // aliases of YAML repeat what they name
constexpr int deepest = 100;

std::string value_of(const YAML::Node& scalar) { return std::string(trimmed(scalar.Scalar(), " \t\r\n")); }

std::string place(const std::string& path, const YAML::Mark& mark) { return fmt::format("{}:{}", path, mark.line + 1); }

// One value of a list. Aliases may repeat a list of lists again and again: the text ends where it is long enough.
void append_list(const YAML::Node& list, int depth, std::string& text) {
    constexpr std::size_t longest = std::size_t{1} << 16;
    text += "[";
    bool first = true;
    for (const auto& element : list) {
        text += first ? "" : ", ";
        first = false;
        if (text.size() > longest || depth > deepest) {
            text += "..";
            break;
        }
        if (element.IsScalar())
            text += element.Scalar();
        else if (element.IsSequence())
            append_list(element, depth + 1, text);
        else
            text += "..";
    }
    text += "]";
}

void flatten(const YAML::Node& node, const std::string& name, int depth, Document& into, std::size_t& visited) {
    const auto at = place(into.path, node.Mark());
    if (++visited > 2 * most_values) throw ConfigError(at + ": aliases repeat more than " + std::to_string(2 * most_values) + " nodes; expected a configuration");
    if (depth > deepest) throw ConfigError(at + ": nested deeper than " + std::to_string(deepest) + " levels");
    if (into.values.size() > most_values)
        throw ConfigError(at + ": more than " + std::to_string(most_values) + " values; expected a configuration");
    if (node.IsMap()) {
        for (const auto& entry : node)
            flatten(entry.second,
                    (name.empty() ? "" : name + ".") + (entry.first.IsScalar() ? value_of(entry.first) : "?"),
                    depth + 1, into, visited);
    } else if (node.IsNull()) {
        into.values.push_back({name, "", at, true});
    } else if (node.IsScalar()) {
        into.add(name, value_of(node), at);
    } else if (node.IsSequence()) {
        std::string text;
        append_list(node, depth, text);
        into.add(name, text, at);
    }
}

std::string value_text(const ConfigValue& value) {
    return std::visit(
        []<class T>(const T& v) -> std::string {
            if constexpr (std::is_same_v<T, std::string>) {
                return v;
            } else if constexpr (std::is_same_v<T, std::vector<ConfigValue>>) {
                std::string text = "[";
                for (const auto& element : v) text += (text.size() > 1 ? ", " : "") + value_text(element);
                return text + "]";
            } else {
                return fmt::format("{}", v);
            }
        },
        value.value);
}

}  // namespace

void wrong(const NamedValue& value, const std::string& expected) {
    throw ConfigError(value.at + ": " + value.name + ": found \"" + value.value.substr(0, 60) + "\"; expected " +
                      expected);
}

double number_in(const NamedValue& value) {
    const auto number = as_number<double>(value.value);
    if (!number || !std::isfinite(*number)) wrong(value, "a number");
    return *number;
}

long integer_in(const NamedValue& value) {
    std::string digits;
    for (const char c : value.value)
        if (c != '_' && c != ',') digits += c;
    const auto number = as_number<double>(digits);  // 5e8 is how many files write a count
    if (!number || *number != std::floor(*number) || std::abs(*number) > 1e15) wrong(value, "a whole number");
    return static_cast<long>(*number);
}

long count_in(const NamedValue& value) {
    const long number = integer_in(value);
    if (number < 1 || number > 1'000'000'000) wrong(value, "a count from 1 to 10^9");
    return number;
}

bool flag_in(const NamedValue& value) {
    const std::string text = lower_case(value.value);
    if (text == "true" || text == "yes" || text == "on" || text == "1") return true;
    if (text == "false" || text == "no" || text == "off" || text == "0" || text == "none") return false;
    wrong(value, "true or false");
}

std::string truth(bool value) { return value ? "true" : "false"; }
std::string integer_text(const NamedValue& value) { return std::to_string(integer_in(value)); }
std::string flag_text(const NamedValue& value) { return truth(flag_in(value)); }
std::string stated_text(const NamedValue& value) { return value.value; }

const NamedValue* Document::find(std::string_view name) {
    NamedValue* last = nullptr;
    for (auto& value : values) {
        if (value.name != name) continue;
        value.used = true;
        last = &value;
    }
    return last && !last->null ? last : nullptr;
}

const NamedValue* Document::on(std::string_view name) {
    const auto* value = find(name);
    return value && flag_in(*value) ? value : nullptr;
}

const NamedValue* Document::find_any(std::initializer_list<std::string_view> names) {
    const NamedValue* found = nullptr;
    for (const auto name : names)
        if (const auto* value = find(name); value && !found) found = value;
    return found;
}

std::string Document::text(std::string_view name, const std::string& otherwise) {
    const auto* value = find(name);
    return value ? value->value : otherwise;
}

void drop_sections(Document& document, std::initializer_list<std::string_view> sections) {
    for (auto& value : document.values)
        for (const auto section : sections)
            if (value.name.starts_with(section)) {
                value.name.erase(0, section.size());
                break;
            }
}

Document read_yaml(const std::string& text, const std::string& path) {
    Document document{path, {}};
    try {
        std::size_t visited = 0;
        flatten(YAML::Load(text), "", 0, document, visited);
    } catch (const YAML::Exception& error) {
        throw ConfigError(fmt::format("{}:{}:{}: {}", path, error.mark.line + 1, error.mark.column + 1, error.msg));
    }
    return document;
}

Document read_toml_values(const std::string& text, const std::string& path) {
    Document document{path, {}};
    for (const auto& entry : parse_toml(text, path).entries) {
        auto at = entry.value_at;
        if (const auto colon = at.find_last_of(':'); colon != std::string::npos) at = at.substr(0, colon);
        document.add(entry.path, value_text(entry.value), at);
    }
    return document;
}

}  // namespace stepcast
