#include "import/launch/document.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "import/launch/launch_flags.h"
#include "import/launch/shell_launch.h"
#include "import/launch/translate.h"
#include "model/base/characters.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/input/key_values.h"
#include "model/input/toml_reader.h"

namespace stepcast {
namespace {

// limits YAML aliases, which can repeat content without end
constexpr std::size_t most_values = 100'000;
constexpr int deepest_document = 100;

std::string value_of(const YAML::Node& scalar) {
    return std::string(trimmed(scalar.Scalar(), " \t\r\n"));
}

std::string place(const std::string& path, const YAML::Mark& mark) {
    return fmt::format("{}:{}", path, mark.line + 1);
}

// Writes a list as one value. Aliases can repeat a list of lists without end, so the text stops at
// a maximal length.
void append_list(const YAML::Node& list, int depth, std::string& text) {
    constexpr std::size_t longest = std::size_t{1} << 16;
    text += "[";
    bool first = true;
    for (const auto& element : list) {
        text += first ? "" : ", ";
        first = false;
        if (text.size() > longest || depth > deepest_document) {
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

void flatten(const YAML::Node& node, const std::string& name, int depth, Document& into,
             std::size_t& visited) {
    const auto at = place(into.path, node.Mark());
    if (++visited > 2 * most_values)
        throw ConfigError(at + ": aliases repeat more than " + std::to_string(2 * most_values) +
                          " nodes; expected a configuration");
    if (depth > deepest_document)
        throw ConfigError(at + ": nested deeper than " + std::to_string(deepest_document) +
                          " levels");
    if (into.values.size() > most_values)
        throw ConfigError(at + ": more than " + std::to_string(most_values) +
                          " values; expected a configuration");
    if (node.IsMap()) {
        for (const auto& entry : node)
            flatten(entry.second,
                    (name.empty() ? "" : name + ".") +
                        (entry.first.IsScalar() ? value_of(entry.first) : "?"),
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
                for (const auto& element : v)
                    text += (text.size() > 1 ? ", " : "") + value_text(element);
                return text + "]";
            } else {
                return fmt::format("{}", v);
            }
        },
        value.value);
}

}  // namespace

void wrong(const NamedValue& value, const std::string& expected) {
    const bool variable = has(value.value, '$');
    throw ConfigError(
        value.at + ": " + value.name + ": found " +
        (value.bare ? "no value" : "\"" + value.value.substr(0, 60) + "\"") + "; expected " +
        expected +
        (variable ? ". It is a variable of the environment: set it with --env NAME=VALUE" : ""));
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
    const auto number = as_number<double>(digits);  // many files write a count as 5e8
    if (!number || *number != std::floor(*number) || std::abs(*number) > 1e15)
        wrong(value, "a whole number");
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
    if (text == "false" || text == "no" || text == "off" || text == "0" || text == "none")
        return false;
    wrong(value, "true or false");
}

std::string truth(bool value) { return value ? "true" : "false"; }
std::string integer_text(const NamedValue& value) { return std::to_string(integer_in(value)); }
std::string flag_text(const NamedValue& value) { return truth(flag_in(value)); }
std::string always(bool overlaps) { return overlaps ? "always" : "never"; }
std::string always_text(const NamedValue& value) { return always(flag_in(value)); }
std::string dispatch_by(bool once) { return once ? "once" : "all_to_all"; }
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
        for (const YAML::Node& part : YAML::LoadAll(text)) flatten(part, "", 0, document, visited);
    } catch (const YAML::Exception& error) {
        refuse("{}:{}:{}: {}", path, error.mark.line + 1, error.mark.column + 1, error.msg);
    }
    return document;
}

Document read_toml_values(const std::string& text, const std::string& path) {
    Document document{path, {}};
    for (const auto& entry : parse_toml(text, path).entries) {
        auto at = entry.value_at;
        if (const auto colon = at.find_last_of(':'); colon != std::string::npos)
            at = at.substr(0, colon);
        document.add(entry.path, value_text(entry.value), at);
    }
    return document;
}

// ---- flags of a command line and the dump of a run's arguments

namespace {

// "tensor_model_parallel" -> "tensor_model_parallel_size"; unchanged if it is a flag, or no flag or
// several begin with it.
std::string completed(const std::string& name) {
    const auto& taken = launch_flags().taken;
    const auto begins = [&](std::string_view flag) { return flag.starts_with(name); };
    if (name.size() < 6 || launch_flags().knows(name) || std::ranges::count_if(taken, begins) != 1)
        return name;
    return *std::ranges::find_if(taken, begins);
}

// For "model.tensor_model_parallel_size=4", also with Hydra's + in front: where the name ends; 0 if
// the text has no such form.
std::size_t dotted_name(const std::string& text) {
    const auto equals = text.find('='), dot = text.find('.');
    if (equals == std::string::npos || dot == std::string::npos || dot > equals ||
        text.starts_with('-'))
        return 0;
    const auto plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '+';
    };
    return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(equals), plain)
               ? equals
               : 0;
}

}  // namespace

namespace {

bool is_flag(const std::string& text) { return text.starts_with("--") && text.size() > 2; }

// Options of launchers in one letter, as "-m", are no values; negative numbers are.
bool ends_values(const std::string& text) {
    return is_flag(text) || (text.size() == 2 && text[0] == '-' && is_letter(text[1])) ||
           text.ends_with(".py") || dotted_name(text) != 0;
}

// A launcher's number of nodes or processes is one word; what stands behind it is its program.
// "2:2" is torchrun's least and most, alike; others are as many as come.
std::string plain_number(const std::string& name, const std::string& value) {
    static constexpr std::array<std::string_view, 4> counts{"nnodes", "nproc_per_node", "num_nodes",
                                                            "num_gpus"};
    if (std::ranges::find(counts, name) == counts.end()) return value;
    const std::string first = value.substr(0, value.find(' '));
    const auto colon = first.find(':');
    if (colon == std::string::npos) return first;
    return first.substr(0, colon) == first.substr(colon + 1) ? first.substr(0, colon) : "auto";
}

}  // namespace

StatedFlag flag_at(const std::vector<ShellArgument>& arguments, std::size_t& i,
                   bool (*ends)(const std::string&)) {
    const std::string& text = arguments[i].text;
    const auto equals = text.find('=');
    StatedFlag flag{text.substr(2, equals == std::string::npos ? equals : equals - 2), ""};
    std::ranges::replace(flag.name, '-', '_');
    if (equals != std::string::npos)
        flag.value = text.substr(equals + 1);
    else
        while (i + 1 < arguments.size() && !ends(arguments[i + 1].text))
            flag.value += (flag.value.empty() ? "" : " ") + arguments[++i].text;
    return flag;
}

Document megatron_arguments(const std::vector<ShellArgument>& arguments, const std::string& path) {
    Document document{path, {}};
    const auto& taken = launch_flags().taken;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto& [text, at] = arguments[i];
        if (const auto end = dotted_name(text)) {
            const auto first = text.find_first_not_of('+');
            document.add(text.substr(first, end - first), unquoted(text.substr(end + 1)), at);
            continue;
        }
        if (!is_flag(text)) continue;
        const StatedFlag flag = flag_at(arguments, i, ends_values);
        const std::string name = completed(flag.name);
        // quotes in a variable, which a second shell takes off (bash -c "$CMD")
        const std::string value = plain_number(name, unquoted(flag.value));
        // --no-X switches off a boolean that is true by default. Flags whose own name in Megatron
        // begins with "no" stay.
        if (value.empty() && name.starts_with("no_") && contains(taken, name.substr(3)))
            document.add(name.substr(3), "false", at);
        else
            document.values.push_back(
                {name, value.empty() ? "true" : value, at, false, false, value.empty()});
    }
    return document;
}

bool is_argument_dump(const std::string& text) {
    const auto begin = text.find("--- arguments ---");
    return begin != std::string::npos && text.find("num_layers ...", begin) != std::string::npos;
}

std::string dump_in_log(const std::string& path) {
    constexpr std::string_view head = "--- arguments ---";
    constexpr std::size_t step = std::size_t{1} << 20;  // a dump is shorter
    std::ifstream in(path, std::ios::binary);
    std::string text, next(step, '\0');
    long before = 0;
    while (in.read(next.data(), static_cast<std::streamsize>(step)) || in.gcount() > 0) {
        text.append(next, 0, as_index(in.gcount()));
        // a trace, or no text
        if (before == 0 && (text[0] == '{' || text[0] == '[' || text.find('\0') != text.npos))
            return "";
        const auto at = text.find(head);
        const auto kept = at != text.npos ? at : text.size() - std::min(text.size(), head.size());
        before += std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(kept), '\n');
        text.erase(0, kept);
        if (at == text.npos) continue;
        in.read(next.data(), static_cast<std::streamsize>(step));
        return std::string(as_index(before), '\n') + text + next.substr(0, as_index(in.gcount()));
    }
    return "";
}

// Reads lines like "[default0]:  hidden_size ..................... 4096", with any prefix of a
// launcher.
Document dumped_arguments(const std::string& text, const std::string& path) {
    Document document{path, {}};
    std::istringstream lines(text.substr(text.find("--- arguments ---")));
    long number =
        1 + std::count(text.begin(),
                       text.begin() + static_cast<std::ptrdiff_t>(text.find("--- arguments ---")),
                       '\n');
    for (std::string line; std::getline(lines, line); ++number) {
        if (has(line, "end of arguments")) break;
        const auto dots = line.find(" ...");
        if (dots == std::string::npos) continue;
        const auto begin = line.find_last_of(" :", dots - 1) + 1;
        const auto behind = line.find_first_not_of('.', dots + 1);
        auto value =
            behind == std::string::npos ? "" : line.substr(std::min(line.size(), behind + 1));
        while (!value.empty() && (value.back() == ' ' || value.back() == '\r')) value.pop_back();
        const bool null = value == "None" || value.empty();
        document.values.push_back({line.substr(begin, dots - begin), null ? "" : value,
                                   path + ":" + std::to_string(number), null});
    }
    return document;
}

}  // namespace stepcast
