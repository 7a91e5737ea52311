#include "measured/show.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/whole_files.h"
#include "model/input/framework_file.h"
#include "model/input/key_table.h"
#include "model/input/key_values.h"
#include "model/input/keys.h"
#include "model/input/layers.h"
#include "model/machine/cluster_file.h"

namespace stepcast {
namespace {

bool is_table(const TomlFile& file, std::string_view table) {
    return file.tables.contains(std::string(table));
}

// The kind of a preset by its name, or of a file by its content.
PresetKind kind_of_start(const std::string& name) {
    for (const auto kind : {PresetKind::experiment, PresetKind::workload, PresetKind::cluster,
                            PresetKind::framework, PresetKind::nameplate, PresetKind::family})
        if (has_preset(kind, name)) return kind;
    if (!name.ends_with(".toml") || !std::filesystem::is_regular_file(name))
        return PresetKind::experiment;
    const auto file = read_toml(name);
    if (is_table(file, "gpu")) return PresetKind::cluster;
    const bool tables =
        is_table(file, "workload") || is_table(file, "parallelism") || is_table(file, "cluster");
    return tables || file.entries.empty() ? PresetKind::experiment : PresetKind::workload;
}

std::string origin_of(const Layers& layers, const std::string& key) {
    const auto said = value_in(layers.said, key);
    std::string text(to_string(said ? said->who : Origin::defaulted));
    if (said) text += ": " + said->at;
    std::ranges::replace(text, '\n', ' ');
    return text;
}

// The keys of `table` as lines, with "" as the preset if none is to be named. Keys that are empty
// or off are listed at the end.
std::string table_text(const Layers& layers, const std::string& table, bool named) {
    std::string lines, off;
    for (const auto& key : keys_of(table + ".")) {
        if (is_preset(key)) continue;
        const std::string path(key.path), shown = path.substr(table.size() + 1);
        if (is_unset(key, layers.experiment) && !layers.said.contains(path)) {
            off += (off.empty() ? "" : ", ") + shown;
            continue;
        }
        lines += fmt::format("{:<44}  # {}\n", shown + " = " + toml_text_of(key, layers.experiment),
                             origin_of(layers, path));
    }
    std::string text = named ? "\n[" + table + "]\n" : "";
    if (const auto start = value_in(layers.starts, table))
        text += fmt::format(
            "preset = {}\n",
            quoted_toml(is_standard_input(*start) ? *start
                                                  : std::filesystem::absolute(*start).string()));
    text += lines;
    if (table == "framework") text += rules_text(layers.experiment.framework, true);
    if (!off.empty()) text += "# empty, 0 or off by default: " + off + "\n";
    return text;
}

// The lines of [runtime] that a workload's file says.
std::string runtime_text(const Layers& layers) {
    std::string lines;
    for (const Key& key : keys_of("runtime."))
        if (const std::string path(key.path); layers.said.contains(path))
            lines +=
                fmt::format("{:<44}  # {}\n", path + " = " + toml_text_of(key, layers.experiment),
                            origin_of(layers, path));
    return lines;
}

std::string experiment_text(const Layers& layers) {
    std::string text = fmt::format("# {}: every key that has a value, and who said it last\n",
                                   layers.experiment.name);
    for (const char* table : {"workload", "parallelism", "runtime", "cluster", "framework",
                              "routing", "run", "recorded"})
        if (table != std::string_view("framework") || !layers.experiment.framework.name.empty())
            text += table_text(layers, table, true);
    return text;
}

std::string show_part(PresetKind kind, const std::string& name) {
    Layers layers;
    if (kind == PresetKind::framework) return write_framework(read_framework(name));
    const auto path = preset_path(kind, name);
    if (kind == PresetKind::family) return read_text(path, "a family");
    if (kind == PresetKind::workload) {
        lay_workload(layers, path);
        return runtime_text(layers) + table_text(layers, "workload", false);
    }
    layers = whole_cluster(path);
    return table_text(layers, "cluster", false) + fitted_text(layers.experiment.cluster);
}

}  // namespace

std::string show(const ExperimentSource& source, std::span<const Override> overrides) {
    const std::string& name = source.name;
    const auto kind = source.text ? PresetKind::experiment : kind_of_start(name);
    if (kind == PresetKind::experiment || (kind == PresetKind::workload && !overrides.empty()))
        return experiment_text(whole_experiment(source, overrides));
    if (!overrides.empty())
        throw ConfigError(name + ": is a " + std::string(to_string(kind)) +
                          "; --set changes experiments, expected one of those");
    return show_part(kind, name);
}

}  // namespace stepcast
