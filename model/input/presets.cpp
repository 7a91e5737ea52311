#include "model/input/presets.h"
#include "model/base/joined.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <tuple>

#include <dlfcn.h>
#include <link.h>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/base/whole_files.h"
#include "model/input/toml_reader.h"
#include "model/records/measurements.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

// The file that this code was loaded from: the program, or a library (the Python module).
struct LoadedFrom {
    fs::path file;
    bool program;
};
LoadedFrom loaded_from() {
    std::error_code ignored;
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
    Dl_info info{};
    link_map* map = nullptr;
    const bool found = dladdr1(reinterpret_cast<void*>(&loaded_from), &info,
                               reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
    // l_name is empty for the program
    const bool library = found && map != nullptr && map->l_name != nullptr && *map->l_name != '\0';
    return library ? LoadedFrom{fs::absolute(map->l_name, ignored), false}
                   : LoadedFrom{program, true};
}

bool holds_presets(const fs::path& folder) {
    std::error_code ignored;
    return fs::is_directory(folder / "model" / "presets" / "frameworks", ignored);
}

// The source tree that a file of a build folder belongs to, where both lie now: they may have been
// moved together since they were built.
std::optional<std::string> source_tree_of(const fs::path& file) {
    const fs::path to_sources =
        fs::path(STEPCAST_SOURCE_FOLDER).lexically_relative(STEPCAST_BUILD_FOLDER);
    for (fs::path at = file.parent_path(); at.has_relative_path(); at = at.parent_path())
        for (const fs::path& folder : {at, (at / to_sources).lexically_normal()})
            if (holds_presets(folder)) return (folder / "").parent_path().string();
    return std::nullopt;
}

std::string shipped_folder() {
    const auto [file, program] = loaded_from();
    const fs::path built = fs::path(STEPCAST_BUILD_FOLDER) / "";
    if (file.string().starts_with(built.string()) && holds_presets(STEPCAST_SOURCE_FOLDER))
        return STEPCAST_SOURCE_FOLDER;
    const fs::path installed =
        (file.parent_path() / (program ? "../share/stepcast" : "share")).lexically_normal();
    if (holds_presets(installed)) return installed.string();
    return source_tree_of(file).value_or(installed.string());
}

// $STEPCAST_HOME need not hold the files that every model and script needs; the shipped ones are
// used instead.
fs::path shared_path(const std::string& name) {
    std::error_code ignored;
    const fs::path below = fs::path("model") / "presets" / name, own = home_folder() / below;
    return fs::exists(own, ignored) ? own : shipped_folder() / below;
}

fs::path folder(PresetKind kind) {
    const bool shared = kind == PresetKind::framework || kind == PresetKind::family;
    const std::string name =
        kind == PresetKind::family ? "families" : std::string(to_string(kind)) + "s";
    return shared ? shared_path(name) : fs::path(home_folder()) / "model" / "presets" / name;
}

// What is left of a GPU's name without capitals and separators: "A100 SXM4 40GB", "a100-sxm4-40gb"
// and "A100_SXM4_40GB" are one name.
std::string squeezed(const std::string& name) {
    std::string text = lower_case(name);
    std::erase_if(text, [](unsigned char c) { return c == ' ' || c == '-' || c == '_'; });
    return text;
}

// "H100" -> dgx-h100: the preset whose GPU has that name or alias. In order of priority: machines
// with several GPUs, a name rather than an alias, the larger machine.
std::optional<std::string> preset_of_gpu(const std::string& name, PresetKind kind) {
    std::optional<std::string> found;
    std::tuple<bool, bool, std::int64_t> best;
    for (const auto& preset : preset_names(kind)) {
        const auto path = (folder(kind) / (preset + ".toml")).string();
        std::vector<std::string> names;
        std::int64_t ranks = 1;
        bool exact = false;
        for (const auto& entry : read_toml(path).entries) {
            const auto* text = std::get_if<std::string>(&entry.value.value);
            const auto* count = std::get_if<std::int64_t>(&entry.value.value);
            if (text && (entry.path == "gpu.name" || entry.path == "gpu.aliases"))
                for (const std::string& word : words_of(*text)) names.push_back(squeezed(word));
            exact =
                exact || (text && entry.path == "gpu.name" && squeezed(*text) == squeezed(name));
            if (count && entry.path == "gpus_per_node") ranks = *count;
        }
        if (!contains(names, squeezed(name))) continue;
        if (const std::tuple now(ranks > 1, exact, ranks); now > best) found = path, best = now;
    }
    return found;
}

std::optional<std::string> found_preset(PresetKind kind, const std::string& name) {
    if (name.empty()) return std::nullopt;  // a cluster without a GPU has an empty name as well
    std::error_code ignored;
    const auto path = folder(kind) / (name + ".toml");
    if (!has(name, '/') && fs::is_regular_file(path, ignored)) return path.string();
    if (kind != PresetKind::cluster && kind != PresetKind::nameplate) return std::nullopt;
    const auto found = preset_of_gpu(name, kind);
    return found || kind == PresetKind::nameplate ? found
                                                  : found_preset(PresetKind::nameplate, name);
}

// How an experiment or a command names a preset of this kind.
std::string way_to_name(PresetKind kind, const std::string& name) {
    switch (kind) {
        case PresetKind::experiment: return "an experiment: stepcast simulate " + name;
        case PresetKind::workload:
            return "a workload: workload.preset=" + name + ", or " + name +
                   " --cluster dgx-h100 --gpus 64";
        case PresetKind::cluster: return "a cluster: --cluster " + name;
        case PresetKind::nameplate: return "a cluster of a datasheet: --cluster " + name;
        case PresetKind::framework: return "a framework: --framework " + name;
        case PresetKind::family: return "a family of models: workload.family=" + name;
    }
    return "";
}

std::vector<std::string> names_of_gpus(PresetKind kind) {
    std::vector<std::string> names;
    for (const auto& preset : preset_names(kind))
        for (const auto& entry : read_toml((folder(kind) / (preset + ".toml")).string()).entries)
            if (const auto* text = std::get_if<std::string>(&entry.value.value);
                text && (entry.path == "gpu.name" || entry.path == "gpu.aliases"))
                append(names, words_of(*text));
    return names;
}

// Names that may stand for a preset of this kind: its file's, and for clusters those of their GPUs.
std::vector<std::string> all_names(PresetKind kind) {
    auto names = preset_names(kind);
    if (kind == PresetKind::cluster || kind == PresetKind::nameplate)
        append(names, names_of_gpus(kind));
    return names;
}

// True if the names differ in nothing but capitals, separators and the end of one.
bool alike(const std::string& a, const std::string& b) {
    const std::string one = squeezed(a), other = squeezed(b);
    return one.starts_with(other) || other.starts_with(one);
}

// names_near(), else the longest name that `name` begins with: "mixtral-8x7b" of
// "Mixtral-8x7B-instruct".
std::vector<std::string> names_like(const std::string& name,
                                    const std::vector<std::string>& valid) {
    auto near = names_near(name, valid);
    const std::string* longest = nullptr;
    for (const std::string& one : valid)
        if (one.size() >= 3 && squeezed(name).starts_with(squeezed(one)) &&
            (!longest || one.size() > longest->size()))
            longest = &one;
    if (longest && (near.empty() || !alike(near.front(), name))) near = {*longest};
    return near;
}

// How a preset of another kind is named whose name is alike, best the same. "" if there is none.
std::string of_another_kind(PresetKind kind, const std::string& name) {
    std::string found;
    for (const PresetKind other :
         {PresetKind::workload, PresetKind::experiment, PresetKind::framework, PresetKind::cluster,
          PresetKind::nameplate, PresetKind::family}) {
        if (other == kind || (kind == PresetKind::cluster && other == PresetKind::nameplate))
            continue;
        const auto near = names_like(name, all_names(other));
        if (near.empty() || !alike(near.front(), name)) continue;
        const std::string text =
            "; \"" + near.front() + "\" is " + way_to_name(other, near.front());
        if (squeezed(near.front()) == squeezed(name)) return text;
        if (found.empty()) found = text;
    }
    return found;
}

// Help on how to write a preset that does not exist.
std::string way_to_write(PresetKind kind) {
    if (kind == PresetKind::framework)
        return "; to write one: a TOML file with preset = \"default\" and the keys that differ "
               "(stepcast list keys framework)";
    if (kind == PresetKind::family)
        return "; to write one: a TOML file of workload keys in " + folder(kind).string() +
               " with models = [\"NAME\"]";
    return "";
}

}  // namespace

std::string home_folder() {
    if (const char* home = std::getenv("STEPCAST_HOME"); home && *home) return home;
    return shipped_folder();
}

std::string sources_path() { return shared_path("sources.toml").string(); }
std::string table_words_path() { return shared_path("table_words.toml").string(); }
std::string hub_path() { return shared_path("hub.toml").string(); }
std::string lacks_path() { return shared_path("lacks.toml").string(); }
std::string libraries_path() { return shared_path("libraries.toml").string(); }
std::string nemo_programs_path() { return shared_path("nemo_programs.toml").string(); }
std::string nemo_recipes_path() { return shared_path("nemo_recipes.toml").string(); }
std::string launch_flags_path() { return shared_path("launch_flags.toml").string(); }

std::vector<std::string> preset_names(PresetKind kind) {
    std::vector<std::string> names;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder(kind), missing))
        if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
    std::sort(names.begin(), names.end());
    return names;
}

bool has_preset(PresetKind kind, const std::string& name) {
    return found_preset(kind, name).has_value();
}

namespace {

// Clusters are also named by their datasheets.
std::vector<std::string> names_with_nameplates(PresetKind kind,
                                               std::vector<std::string> (*names)(PresetKind)) {
    auto all = names(kind);
    if (kind == PresetKind::cluster) append(all, names(PresetKind::nameplate));
    return all;
}

// A table, or a log by its name.
bool is_of_measurements(const std::string& name) {
    return has_name_of_log(name) || name.ends_with(".csv");
}

[[noreturn]] void refuse_file(const std::string& name, const std::string& noun) {
    refuse(
        "{}: is a file that says no {}; expected FILE.toml or the name of a preset {} (steps of "
        "logs, profiles and tables stand beside a forecast by stepcast compare or diagnose, with "
        "--model EXPERIMENT where they do not say what ran)",
        name, noun, noun);
}

// What a name that is no preset may have meant, or what there is.
std::string hint_for(PresetKind kind, const std::string& name,
                     const std::vector<std::string>& names) {
    auto hint = did_you_mean(name, names);
    const auto way = way_to_write(kind);
    if (!hint.empty() && way.empty()) return hint;
    const auto valid = names_with_nameplates(kind, preset_names);
    if (valid.empty())
        return "; there are none in " + folder(kind).string() +
               " ($STEPCAST_HOME chooses the root)";
    hint += fmt::format("; expected one of {}{}", joined(valid, ", "), way);
    if (kind == PresetKind::cluster)
        hint += "; to write one: a datasheet as in " + folder(PresetKind::nameplate).string();
    return hint;
}

}  // namespace

std::string preset_path(PresetKind kind, const std::string& name) {
    const std::string noun(to_string(kind));
    std::error_code ignored;
    if (is_standard_input(name)) return name;
    const bool hub_config = kind == PresetKind::workload && name.ends_with(".json");
    if (has(name, '/') || name.ends_with(".toml") || hub_config) {
        if (!fs::is_regular_file(name, ignored))
            throw ConfigError(name + ": no such file; expected a TOML file" +
                              (kind == PresetKind::workload ? ", a model's config.json" : "") +
                              " or the name of a preset " + noun);
        if (kind == PresetKind::experiment && is_of_measurements(name)) refuse_file(name, noun);
        return name;
    }
    if (const auto found = found_preset(kind, name)) return *found;
    const auto names = names_with_nameplates(kind, all_names);
    if (const auto near = names_near(name, names); near.empty() || !alike(near.front(), name))
        if (const auto other = of_another_kind(kind, name); !other.empty())
            throw ConfigError("\"" + name + "\" is no preset " + noun + other);
    if (fs::is_regular_file(name, ignored)) refuse_file(name, noun);
    throw ConfigError("\"" + name + "\" is no preset " + noun + hint_for(kind, name, names));
}

}  // namespace stepcast
