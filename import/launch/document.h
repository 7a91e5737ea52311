// A configuration file of another tool as a flat list of named values with positions, read by all
// readers here. Internal to translate/.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "import/launch/shell_launch.h"

namespace stepcast {

struct NamedValue {
    std::string name;   // "model.tensor_model_parallel_size"
    std::string value;  // "" = stated as null or without a value
    std::string at;     // "train.sh:14"
    bool null = false;
    bool used = false;  // some rule has read it
    bool bare = false;  // a flag without a value, which counts as true
};

// If a name has several values, the last one counts.
class Document {
public:
    std::string path;
    std::vector<NamedValue> values;

    // nullptr if the name is not stated or null.
    const NamedValue* find(std::string_view name);
    // The first of several names that is stated.
    const NamedValue* find_any(std::initializer_list<std::string_view> names);
    bool states(std::string_view name) { return find(name) != nullptr; }
    const NamedValue* on(std::string_view name);  // nullptr also if it is false
    std::string text(std::string_view name, const std::string& otherwise = "");
    void add(std::string name, std::string value, std::string at) {
        values.push_back({std::move(name), std::move(value), std::move(at)});
    }
};

// Each throws ConfigError with the position if the text is not of the kind.
[[noreturn]] void wrong(const NamedValue& value, const std::string& expected);
double number_in(const NamedValue& value);
long integer_in(const NamedValue& value);

// 1 to 10^9, so that it can be divided and multiplied safely
long count_in(const NamedValue& value);
bool flag_in(const NamedValue& value);

// The same values as text for a key.
std::string truth(bool value);
std::string always(bool overlaps);   // "always" or "never"
std::string dispatch_by(bool once);  // "once" or "all_to_all"
std::string integer_text(const NamedValue& value);
std::string flag_text(const NamedValue& value);
std::string always_text(const NamedValue& value);  // of a flag that switches an overlap on
std::string stated_text(const NamedValue& value);

// Removes the first of these sections that a name begins with: "model.num_layers" -> num_layers.
void drop_sections(Document& document, std::initializer_list<std::string_view> sections);

// Reads YAML or JSON, a part of YAML (a bare Infinity is accepted). A list becomes one value "[a,
// b]". Bounded in size and depth. Several documents are one. JSON may be written as hjson reads it:
// with comments, and without commas at the end of lines.
Document read_yaml(const std::string& text, const std::string& path);

Document read_toml_values(const std::string& text, const std::string& path);

// A flag at arguments[i]: "--hidden-size=4096", or without = with the words behind it up to one
// that ends its values; moves i to the last. The name has _ in place of -.
struct StatedFlag {
    std::string name, value;
};
StatedFlag flag_at(const std::vector<ShellArgument>& arguments, std::size_t& i,
                   bool (*ends)(const std::string&));

// Flags of a command line: "--hidden-size 4096" -> hidden_size. A bare flag is true, --no-X is
// false, and the last of several counts. A unique prefix of a flag is that flag, as in argparse.
// "model.tensor_model_parallel_size=4" is read as well.
Document megatron_arguments(const std::vector<ShellArgument>& arguments, const std::string& path);

// The dump that a run prints of its arguments ("  num_layers ............ 32"), with all defaults
// and the world size.
bool is_argument_dump(const std::string& text);

// The dump in a log of any length, behind as many line ends as stand before it; "" = none.
std::string dump_in_log(const std::string& path);
Document dumped_arguments(const std::string& text, const std::string& path);

}  // namespace stepcast
