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
        case PresetKind::framework: return "frameworks";
        case PresetKind::family: return "families";
    }
    return "";
}
std::string_view noun_of(PresetKind kind) {
    switch (kind) {
        case PresetKind::workload: return "workload";
        case PresetKind::cluster: return "cluster";
        case PresetKind::experiment: return "experiment";
        case PresetKind::framework: return "framework";
        case PresetKind::family: return "family";
    }
    return "";
}

std::string shipped_folder() {
    std::error_code ignored;
    if (fs::is_directory(fs::path(STEPCAST_SOURCE_FOLDER) / "model" / "presets", ignored))
        return STEPCAST_SOURCE_FOLDER;
    const auto binary = fs::read_symlink("/proc/self/exe", ignored);
    return (binary.parent_path() / ".." / "share" / "stepcast").lexically_normal().string();
}

// A home of one's own need not hold frameworks and families: then the shipped ones stay.
fs::path folder(PresetKind kind) {
    const auto in = [&](const std::string& root) { return fs::path(root) / "model" / "presets" / folder_of(kind); };
    const bool shared = kind == PresetKind::framework || kind == PresetKind::family;
    std::error_code ignored;
    const fs::path own = in(home_folder());
    return shared && !fs::is_directory(own, ignored) ? in(shipped_folder()) : own;
}

// How to have one that is not there.
std::string way_to_write(PresetKind kind) {
    if (kind == PresetKind::framework)
        return "; to write one: a TOML file with preset = \"default\" and the keys that differ (stepcast list keys framework)";
    if (kind == PresetKind::family)
        return "; to write one: a TOML file of workload keys in " + folder(kind).string() + " with models = [\"NAME\"]";
    return "";
}

}  // namespace

std::string home_folder() {
    if (const char* home = std::getenv("STEPCAST_HOME"); home && *home) return home;
    return shipped_folder();
}

std::string sources_path() { return (folder(PresetKind::framework).parent_path() / "sources.toml").string(); }

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
    const auto way = way_to_write(kind);
    auto hint = did_you_mean(name, valid);
    if (hint.empty() || !way.empty()) {
        std::string listed;
        for (const auto& v : valid) listed += (listed.empty() ? "; expected one of " : ", ") + v;
        hint += listed + way;
        if (valid.empty()) hint = "; there are none in " + folder(kind).string() + " ($STEPCAST_HOME chooses the root)";
    }
    throw ConfigError("\"" + name + "\" is no preset " + noun + hint);
}

}  // namespace stepcast
