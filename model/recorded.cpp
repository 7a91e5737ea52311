#include "model/recorded.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/presets.h"
#include "model/toml_reader.h"

namespace stepcast {

std::vector<std::string> words_of(const std::string& list) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at <= list.size();) {
        const std::size_t end = std::min(list.find(',', at), list.size());
        const std::size_t first = list.find_first_not_of(' ', at);
        if (first < end) words.push_back(list.substr(first, list.find_last_not_of(' ', end - 1) + 1 - first));
        at = end + 1;
    }
    return words;
}

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
    const auto names = preset_names(PresetKind::experiment);
    if (model.ends_with(".toml") || std::find(names.begin(), names.end(), model) != names.end()) return model;
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
