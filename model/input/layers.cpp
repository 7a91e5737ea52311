#include "model/input/layers.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/input/families.h"
#include "model/input/framework_file.h"
#include "model/input/hub_config.h"
#include "model/input/key_table.h"
#include "model/input/older_keys.h"
#include "model/machine/cluster_file.h"

namespace stepcast {

namespace {

bool is_table(const std::string& path) { return !keys_of(path + ".").empty(); }

void check_tables(const TomlFile& file, const std::string& prefix) {
    for (const auto& [path, at] : file.tables) {
        const bool runtime = prefix == "workload." && path.starts_with("runtime");
        if (path.empty() || runtime || is_table(prefix + path) || key_of_row(prefix + path))
            continue;
        if ((prefix + path).starts_with("framework.")) continue;  // its lines are checked
        if (find_key(prefix + path))
            throw ConfigError(at + ": " + path + ": found a table; expected a value");
        bool holds_entries = false;  // then the error of the entry is clearer
        for (const auto& entry : file.entries)
            holds_entries = holds_entries || entry.path.starts_with(path + ".");
        if (!holds_entries) throw ConfigError(at + ": " + path + ": " + unknown_key(path, prefix));
    }
}

// A framework's `tied` is for models that leave it open. A config.json never does: what it omits is
// the default of its library.
void keep_tie(Overlay& overlay) { overlay.stated.emplace_back("workload.tied"); }

// A model may state how its software runs it.
std::string full_path(const std::string& prefix, const std::string& path) {
    return prefix == "workload." && path.starts_with("runtime.") ? path : prefix + path;
}

void note_origin(Layers& layers, const Key& key, Said said) {
    if (!says_nothing(key, layers.experiment))
        layers.said[std::string(canonical(key))] = std::move(said);
}

// A field of a row of a list of tables.
void lay_row(Layers& layers, const Key& list, const std::string& path, const TomlEntry& entry) {
    if (!at_place(entry.value_at + ": " + entry.path,
                  [&] { return assign_row(list, &layers.experiment, path, entry.value); }))
        throw ConfigError(entry.key_at + ": " + entry.path +
                          ": unknown key; `stepcast list keys` names the fields of " +
                          std::string(list.path));
}

}  // namespace

void lay_file(Layers& layers, const TomlFile& file, const std::string& prefix, Origin origin) {
    check_tables(file, prefix);
    // lists that this file states; it replaces their earlier content
    std::set<std::string_view> lists;
    std::vector<TomlEntry> framework_lines;
    for (const auto& entry : file.entries) {
        const auto full = full_path(prefix, entry.path);
        const auto* key = find_key(full);
        if (const auto line = framework_key(full); !key && !line.empty()) {
            framework_lines.push_back(entry);
            framework_lines.back().path = line;
            continue;
        }
        if (const Key* list = key ? nullptr : key_of_row(full)) {
            if (lists.insert(list->path).second)
                assign(*list, layers.experiment, {std::vector<ConfigValue>()});
            lay_row(layers, *list, full, entry);
            layers.said[std::string(list->path)] = {origin, entry.value_at};
            continue;
        }
        const bool preset = key && is_preset(*key);
        if (preset && prefix.empty()) continue;
        if (!key && is_table(full))
            throw ConfigError(entry.value_at + ": " + entry.path +
                              ": found a value; expected a table");
        if (!key || preset)
            throw ConfigError(entry.key_at + ": " + entry.path + ": " +
                              unknown_key(entry.path, prefix));
        at_place(entry.value_at + ": " + entry.path,
                 [&] { assign(*key, layers.experiment, entry.value); });
        note_origin(layers, *key, {origin, entry.value_at});
    }
    take_framework_lines(layers.experiment.framework, framework_lines);
}

void lay_workload(Layers& layers, const std::string& path) {
    layers.files.push_back(path);
    if (path.ends_with(".json")) {
        auto config = read_hub_config(path);
        layers.experiment.workload = std::move(config.workload);
        // latent attention has its own
        if (!is_latent(layers.experiment.workload)) {
            layers.experiment.runtime.attention = config.attention;
            layers.said["runtime.attention"] = {Origin::preset, path};
        }
        layers.notes = std::move(config.notes);
        const Experiment defaults;
        for (const auto& key : keys_of("workload."))
            if (text_of(key, layers.experiment) != text_of(key, defaults))
                layers.said[std::string(key.path)] = {Origin::preset, path};
        keep_tie(layers.experiment.overlay);
        return;
    }
    auto file = read_toml(path);
    if (const auto family = take_start(PresetKind::family, "family", file))
        lay_family(layers, *family);
    lay_file(layers, file, "workload.", Origin::preset);
    if (contains(file.entries, "tied", &TomlEntry::path)) keep_tie(layers.experiment.overlay);
}

std::string start_relative_to(PresetKind kind, const TomlFile& file, const TomlEntry& entry) {
    return at_place(entry.value_at + ": " + entry.path, [&] {
        const auto* name = std::get_if<std::string>(&entry.value.value);
        if (!name) throw ConfigError("found no text; expected a preset's name or a file in quotes");
        const bool path = name->find('/') != std::string::npos || name->ends_with(".toml") ||
                          name->ends_with(".json");
        const auto relative = std::filesystem::path(file.path).parent_path() / *name;
        return preset_path(kind, path ? relative.lexically_normal().string() : *name);
    });
}

std::optional<std::string> take_start(PresetKind kind, std::string_view key, TomlFile& file) {
    const auto start = std::ranges::find(file.entries, key, &TomlEntry::path);
    if (start == file.entries.end()) return std::nullopt;
    auto path = start_relative_to(kind, file, *start);
    file.entries.erase(start);
    return path;
}

std::vector<TomlFile> with_starts(PresetKind kind, std::string_view key, const std::string& path) {
    constexpr std::size_t most = 10;
    std::vector<TomlFile> files;
    for (std::optional<std::string> next = path; next;) {
        TomlFile& file = files.emplace_back(read_toml(*next));
        const auto start = first_with(file.entries, key, &TomlEntry::path);
        if (files.size() == most && start)
            throw ConfigError(start->value_at + ": " + start->path +
                              ": starts from itself; expected another");
        next = take_start(kind, key, file);
    }
    std::ranges::reverse(files);
    return files;
}

std::string stem_of(const std::string& path) { return std::filesystem::path(path).stem().string(); }

void lay_framework(Layers& layers, const std::string& path) {
    Framework& f = layers.experiment.framework;
    for (const TomlFile& file : with_starts(PresetKind::framework, "preset", path)) {
        f.name.clear();
        f.fitted = lay_fitted_file(layers, file, "framework.");
        if (f.name.empty()) f.name = stem_of(file.path);
    }
}

void lay_override(Layers& layers, const Override& override) {
    if (override.key == ranks_key) return;
    const auto at = "--set " + override.key + "=" + override.value;
    const auto* key = find_key(override.key);
    if (const auto line = framework_key(override.key); !key && !line.empty())
        return at_place(at, [&] {
            take_framework_lines(
                layers.experiment.framework,
                {{std::string(line), value_of_line(line, override.value), at, at}});
        });
    if (!key) {
        if (is_table(override.key))
            throw ConfigError(at + ": " + override.key + " is a table; expected one of its keys");
        throw ConfigError(at + ": " + unknown_key(override.key));
    }
    if (is_preset(*key)) return;
    if (holds_rows(*key)) {
        const TomlFile file = parse_toml(override.key + " = " + override.value, at);
        const auto is_of_key = [&](const TomlEntry& entry) {
            return entry.path == key->path || key_of_row(entry.path) == key;
        };
        if (!std::ranges::all_of(file.entries, is_of_key))
            throw ConfigError(at + ": found several values; expected one");
        return lay_file(layers, file, "", Origin::set);
    }
    at_place(at, [&] { assign_text(*key, layers.experiment, override.value); });
    note_origin(layers, *key, {Origin::set, at});
}

}  // namespace stepcast
