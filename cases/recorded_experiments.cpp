#include "cases/recorded_experiments.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/files/plain_text.h"
#include "model/keys/toml_reader.h"
#include "model/presets.h"

namespace stepcast {

std::vector<RecordedExperiment> recorded_experiments() {
    std::vector<RecordedExperiment> found;
    for (const std::string& preset : preset_names(PresetKind::experiment)) {
        RecordedExperiment one{preset, {}, {}};
        for (const TomlEntry& entry : read_toml(preset_path(PresetKind::experiment, preset)).entries) {
            const auto* text = std::get_if<std::string>(&entry.value.value);
            if (text && entry.path == "recorded.system") one.systems = words_of(*text);
            if (text && entry.path == "recorded.model") one.model = *text;
        }
        if (!one.model.empty()) found.push_back(std::move(one));
    }
    return found;
}

std::string experiment_of_recorded(const std::string& system, const std::string& model,
                                   const std::vector<RecordedExperiment>& known) {
    if (model.ends_with(".toml") || has_preset(PresetKind::experiment, model)) return model;
    std::string all;
    for (const RecordedExperiment& one : known) {
        const auto& systems = one.systems;
        if (one.model == model && std::find(systems.begin(), systems.end(), system) != systems.end()) return one.preset;
        all += fmt::format("{}{} of {}", all.empty() ? "" : "; ", fmt::join(systems, ", "), one.model);
    }
    throw ConfigError(
        fmt::format("no experiment is recorded for system \"{}\" and model \"{}\"; expected an experiment's name or "
                    "file as model, or "
                    "a preset whose [recorded] table names both (there are: {})",
                    system, model, all.empty() ? "none" : all));
}

}  // namespace stepcast
