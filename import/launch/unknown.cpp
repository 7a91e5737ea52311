#include "import/launch/unknown.h"

#include <algorithm>

#include <fmt/format.h>

#include "import/launch/json_text.h"
#include "import/launch/tool_files.h"
#include "import/launch/trainer.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/text_search.h"
#include "model/base/whole_files.h"

namespace stepcast {
namespace {

// Names of the tools whose configurations are read.
std::string known_tools() {
    std::string names =
        "Megatron-LM, NeMo, Megatron-Bridge, Primus, torchtitan (TOML up to 0.2.2), DeepSpeed";
    for (const Tool& tool : config_files().tools)
        if (tool.refused.empty() && !has(names, tool.name)) names += ", " + tool.name;
    return names;
}

}  // namespace

std::string unknown_configuration(const std::string& path) {
    try {
        constexpr std::size_t largest = 1 << 20;
        const auto text = plain_utf8(read_text(path, "a configuration", largest));
        const bool toml = path.ends_with(".toml");
        const std::string notation = toml                 ? "TOML"
                                     : is_yaml_name(path) ? "YAML"
                                     : is_json(text)      ? "JSON"
                                                          : "";
        if (notation.empty()) return "";
        const Document d = toml ? read_toml_values(text, path) : read_json_or_yaml(text, path);
        std::vector<std::string> names;
        for (const NamedValue& value : d.values)
            if (!value.name.empty()) names.push_back(value.name);
        std::ranges::stable_partition(names, speaks_of_work);
        // JSON of logs and profiles
        if (names.empty() || (notation == "JSON" && !speaks_of_work(names.front()))) return "";
        const auto more = names.size() > 4 ? fmt::format(" and {} more", names.size() - 4) : "";
        names.resize(std::min<std::size_t>(names.size(), 4));
        return fmt::format(
            "{}: {} with {}{}: the configuration of no tool that is known; expected one of {}, a "
            "model's config.json, or a launch script. "
            "--format NAME reads it as one of them; an experiment file says the same in own keys "
            "(stepcast list keys)",
            path, notation, joined(names, ", "), more, known_tools());
    } catch (const ConfigError&) {
        return "";
    }
}

}  // namespace stepcast
