#include "model/presets.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "model/errors.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

std::string_view folder_of(PresetKind kind) {
    switch (kind) {
        case PresetKind::workload: return "workloads";
        case PresetKind::cluster: return "clusters";
        case PresetKind::experiment: return "experiments";
    }
    return "";
}
std::string_view noun_of(PresetKind kind) {
    switch (kind) {
        case PresetKind::workload: return "workload";
        case PresetKind::cluster: return "cluster";
        case PresetKind::experiment: return "experiment";
    }
    return "";
}

fs::path folder(PresetKind kind) { return fs::path(home_folder()) / "model" / "presets" / folder_of(kind); }

}  // namespace

std::string home_folder() {
    if (const char* home = std::getenv("STEPCAST_HOME"); home && *home) return home;
    std::error_code ignored;
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
    const fs::path built = fs::path(STEPCAST_BUILD_FOLDER) / "";
    if (program.string().starts_with(built.string())) return STEPCAST_SOURCE_FOLDER;
    return (program.parent_path() / ".." / "share" / "stepcast").lexically_normal().string();
}

std::vector<std::string> preset_names(PresetKind kind) {
    std::vector<std::string> names;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder(kind), missing))
        if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
    std::sort(names.begin(), names.end());
    return names;
}

std::string preset_path(PresetKind kind, const std::string& name) {
    const std::string noun(noun_of(kind));
    std::error_code ignored;
    const bool hub_config = kind == PresetKind::workload && name.ends_with(".json");
    if (name.find('/') != std::string::npos || name.ends_with(".toml") || hub_config) {
        if (fs::is_regular_file(name, ignored)) return name;
        throw ConfigError(name + ": no such file; expected a TOML file" +
                          (kind == PresetKind::workload ? ", a model's config.json" : "") +
                          " or the name of a preset " + noun);
    }
    const auto path = folder(kind) / (name + ".toml");
    if (!name.empty() && fs::is_regular_file(path, ignored)) return path.string();
    const auto valid = preset_names(kind);
    auto hint = did_you_mean(name, valid);
    if (hint.empty()) {
        for (const auto& v : valid) hint += (hint.empty() ? "; expected one of " : ", ") + v;
        if (valid.empty()) hint = "; there are none in " + folder(kind).string() + " ($STEPCAST_HOME chooses the root)";
    }
    throw ConfigError("\"" + name + "\" is no preset " + noun + hint);
}

}  // namespace stepcast
