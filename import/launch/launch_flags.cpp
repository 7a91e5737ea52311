#include "import/launch/launch_flags.h"

#include <algorithm>
#include <array>

#include "import/launch/translate.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "model/base/text_search.h"
#include "model/input/presets.h"
#include "model/input/toml_reader.h"

namespace stepcast {
namespace {

std::vector<std::string> names_in(const TomlEntry& entry) {
    const auto* list = std::get_if<std::vector<ConfigValue>>(&entry.value.value);
    if (!list) throw ConfigError(entry.value_at + ": " + entry.path + ": expected a list of names");
    std::vector<std::string> names;
    for (const ConfigValue& element : *list) names.push_back(std::get<std::string>(element.value));
    return names;
}

// One table [[problem]], filled key by key.
void add_problems(const std::vector<TomlEntry>& entries, const std::string& group,
                  LaunchFlags& flags) {
    UnmodelledFlag common;
    std::vector<std::string> names;
    for (const TomlEntry& entry : entries) {
        if (!entry.path.starts_with(group)) continue;
        if (const auto* text = std::get_if<std::string>(&entry.value.value))
            common.instead = *text;
        else if (const auto* flag = std::get_if<bool>(&entry.value.value))
            (entry.path.ends_with(".unless_taken") ? common.unless_taken : common.everywhere) =
                *flag;
        else
            names = names_in(entry);
    }
    for (const std::string& name : names) {
        const auto equals = std::min(name.find('='), name.size());
        UnmodelledFlag flag = common;
        flag.usual = name.substr(std::min(equals + 1, name.size()));
        flags.problems[name.substr(0, equals)] = flag;
    }
}

LaunchFlags read_flags() {
    const TomlFile file = read_toml(launch_flags_path());
    LaunchFlags flags;
    for (const TomlEntry& entry : file.entries) {
        if (entry.path == "speaks") flags.speaks = names_in(entry);
        if (entry.path == "taken") flags.taken = names_in(entry);
        if (entry.path == "deepspeed_only")
            for (auto& name : names_in(entry)) flags.of_deepspeed.insert(name);
        const bool quiet =
            entry.path == "taken" || entry.path == "checked" ||
            (entry.path.starts_with("without_effect.") && entry.path.ends_with(".names"));
        if (quiet)
            for (auto& name : names_in(entry)) flags.quiet.insert(name);
        if (entry.path.starts_with("problem.") && entry.path.ends_with(".names"))
            add_problems(file.entries,
                         entry.path.substr(0, entry.path.size() - std::string_view("names").size()),
                         flags);
    }
    return flags;
}

// A flag of a command line: other names are of tables in YAML files or of variables.
bool is_flag_name(const std::string& name) {
    return !name.starts_with("sbatch_") && std::ranges::all_of(name, [](unsigned char c) {
        return std::islower(c) || std::isdigit(c) || c == '_';
    });
}

}  // namespace

bool LaunchFlags::speaks_of_step(const std::string& name) const {
    return is_flag_name(name) &&
           std::ranges::any_of(speaks, [&](const std::string& word) { return has(name, word); });
}

const LaunchFlags& launch_flags() {
    static const LaunchFlags flags = read_flags();
    return flags;
}

bool changes_nothing(const std::string& value, const std::string& usual) {
    static constexpr std::array plain{"",     "false", "no",      "off",           "none",
                                      "null", "fp32",  "float32", "torch.float32", "[]"};
    const auto number = as_number<double>(value);
    const auto same = [&](const std::string& other) {
        return lower_case(value) == other || lower_case(value) == "[" + other + "]";
    };
    if (!usual.empty() && (same(usual) || (number && number == as_number<double>(usual))))
        return true;
    return number ? *number == 0 : contains(plain, lower_case(value));
}

namespace {

std::string said_instead(const UnmodelledFlag& flag, const std::string& value) {
    return value == "true" ? flag.instead : value + "; " + flag.instead;
}

}  // namespace

void judge_flags(Document& d, Translation& t, bool dump) {
    const LaunchFlags& flags = launch_flags();
    std::set<std::string> seen;
    std::vector<std::string> unknown;
    for (const NamedValue& value : d.values) {
        if (!seen.insert(value.name).second) continue;
        const bool used = value.used;
        const NamedValue* const last = d.find(value.name);
        if (const auto found = value_in(flags.problems, value.name)) {
            const UnmodelledFlag& flag = *found;
            const bool read = used && flag.unless_taken;
            if (last && !read && !changes_nothing(last->value, flag.usual))
                t.problem(*last, said_instead(flag, last->value));
            else if (!used)
                t.ignored.push_back(value.name);
        } else if (used) {
            continue;
        } else if (!flags.concerns_step(value.name) || !last || changes_nothing(last->value)) {
            t.ignored.push_back(value.name);
        } else if (dump) {
            add_line(unknown, "{} = {}", value.name, last->value);
        } else {
            t.problem(*last, last->value +
                                 "; no flag that is known here, and its name is of what changes a "
                                 "step: the forecast is without it");
        }
    }
    if (!unknown.empty())
        add_line(t.open, "arguments that are not known here and may change a step: {}",
                 joined(unknown, ", "));
}

}  // namespace stepcast
