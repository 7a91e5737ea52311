#include "model/machine/cluster_file.h"

#include <algorithm>
#include <ranges>

#include "model/base/lists.h"
#include "model/cluster.h"
#include "model/input/fields.h"
#include "model/input/framework_file.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "model/input/layers.h"
#include "model/machine/nameplate.h"
#include "model/records/provenance.h"

namespace stepcast {
namespace {

bool is_fitted(const std::string& path) { return path == "fitted" || path.starts_with("fitted."); }

bool read_fitted_entry(const TomlEntry& entry, Fitted& fitted) {
    if (entry.path == "fitted") return false;  // a plain value in place of the table
    if (entry.path != "fitted.rows.hashes")
        return read_field(entry.path.substr(std::string_view("fitted.").size()), entry.value,
                          fitted);
    std::vector<std::string> lines;
    read_value(entry.value, lines);
    for (const auto& line : lines)
        fitted.rows = joined(std::move(fitted.rows), read_hash_line(line));
    return true;
}

// `at` gives the position of a field of the parameter. The prior is only checked, because the
// nameplate already holds it.
template <class Where>
void lay_parameter(Layers& layers, const std::string& prefix, const FittedParameter& p, Where at) {
    if (prefix == "framework." && is_framework_line(p.key)) {
        const auto take = [&](const std::string& name, const std::string& text, Framework& of) {
            at_place(at(name) + ": " + p.key, [&] {
                take_framework_lines(of, {{p.key, value_of_line(p.key, text), at(name), at(name)}});
            });
        };
        Framework scratch;
        if (!p.prior.empty()) take("prior", p.prior, scratch);
        return take("value", p.value, layers.experiment.framework);
    }
    const auto* key = find_key(prefix + p.key);
    if (!key || is_preset(*key))
        throw ConfigError(at("key") + ": fitted.parameters: \"" + p.key +
                          "\": " + unknown_key(p.key, prefix));
    const auto assign_at = [&](const std::string& name, const std::string& text,
                               Experiment& experiment) {
        at_place(at(name) + ": " + p.key, [&] { assign_text(*key, experiment, text); });
    };
    Experiment scratch;
    if (!p.prior.empty()) assign_at("prior", p.prior, scratch);
    assign_at("value", p.value, layers.experiment);
    layers.said[prefix + p.key] = {Origin::fitted, at("value")};
}

Fitted lay_fitted(Layers& layers, const std::string& prefix,
                  const std::vector<TomlEntry>& entries) {
    Fitted fitted;
    std::map<std::string, std::string> value_at;  // path -> position
    each_entry(
        entries, [&](const TomlEntry& entry) { return read_fitted_entry(entry, fitted); },
        [](const TomlEntry& entry) {
            return entry.path + ": unknown key; docs/files.md lists those of [fitted]";
        });
    for (const auto& entry : entries) value_at[entry.path] = entry.value_at;
    for (const std::size_t i : indices_of(fitted.parameters)) {
        const auto row = "fitted.parameters." + std::to_string(i);
        lay_parameter(layers, prefix, fitted.parameters[i], [&](const std::string& name) {
            auto at = value_at.find(row + "." + name);
            // for a missing field, the position of its row
            if (at == value_at.end()) at = value_at.lower_bound(row);
            return at == value_at.end() ? value_at.begin()->second : at->second;
        });
    }
    return fitted;
}

// Keys of the top level first, then each table once, in the order of the key table.
std::string nameplate(const Experiment& holder, std::span<const Key> keys,
                      const std::string& prefix) {
    std::vector<std::pair<std::string, std::string>> tables{{"", ""}};  // name, lines
    for (const auto& key : keys) {
        if (is_preset(key) || is_unset(key, holder)) continue;
        const auto path = std::string(key.path.substr(prefix.size()));
        const auto dot = path.find_last_of('.');
        const auto own = dot == std::string::npos ? "" : path.substr(0, dot);
        auto table = std::find_if(tables.begin(), tables.end(),
                                  [&](const auto& t) { return t.first == own; });
        if (table == tables.end()) table = tables.insert(table, {own, "\n[" + own + "]\n"});
        table->second += path.substr(dot == std::string::npos ? 0 : dot + 1) + " = " +
                         toml_text_of(key, holder) + "\n";
    }
    std::string text;
    for (const auto& [name, lines] : tables) text += lines;
    return text;
}

// Restores the values that the nameplate had before the fit.
void lay_nameplate(Experiment& holder, const std::string& prefix, const Fitted& fitted) {
    for (const auto& p : fitted.parameters) {
        if (prefix == "framework." && is_framework_line(p.key)) {
            if (!p.prior.empty())
                take_framework_lines(holder.framework,
                                     {{p.key, value_of_line(p.key, p.prior), "", ""}});
            continue;
        }
        const auto* key = find_key(prefix + p.key);
        if (!key) throw std::logic_error("write: fitted parameter \"" + p.key + "\" is no key");
        if (!p.prior.empty()) assign_text(*key, holder, p.prior);
    }
}

std::string text_of_fit(const Fitted& fitted) {
    std::string text =
        "\n[fitted]\n" + field_lines(fitted, {fitted.measured.empty() ? "measured" : "",
                                              fitted.correlation.empty() ? "correlation" : ""});
    if (fitted.rows.empty()) return text;
    text +=
        "\n# The rows that were fitted, by content: stepcast list rows FILE.csv prints those of a "
        "file.\n[fitted.rows]\nhashes = [\n";
    for (const std::string& line : hash_lines(fitted.rows)) text += "  \"" + line + "\",\n";
    return text + "]\n";
}

}  // namespace

std::optional<Fitted> lay_fitted_file(Layers& layers, TomlFile file, const std::string& prefix) {
    std::vector<TomlEntry> fitted;
    std::erase_if(file.entries, [&](TomlEntry& entry) {
        if (!is_fitted(entry.path)) return false;
        fitted.push_back(std::move(entry));
        return true;
    });
    std::erase_if(file.tables, [](const auto& table) { return is_fitted(table.first); });
    if (fitted.empty() && prefix == "cluster.")
        layers.unmeasured = unmeasured_machine(file, prefix);
    lay_file(layers, file, prefix, Origin::preset);
    if (fitted.empty()) return std::nullopt;
    return lay_fitted(layers, prefix, fitted);
}

std::string file_text(Experiment holder, const std::string& prefix,
                      const std::optional<Fitted>& fitted) {
    if (fitted) lay_nameplate(holder, prefix, *fitted);
    const std::string rules = prefix == "framework." ? rules_text(holder.framework) : "";
    return rules + nameplate(holder, keys_of(prefix), prefix) +
           (fitted ? text_of_fit(*fitted) : "");
}

// A cluster that starts from another one states only the keys that differ, and keeps the other's
// constants. It also keeps what they were fitted on, unless its device differs: then the constants
// count as copied.
void lay_cluster(Layers& layers, const std::string& path) {
    const auto files = with_starts(PresetKind::cluster, "preset", path);
    for (const TomlFile& file : files | std::views::reverse) layers.files.push_back(file.path);
    Cluster& cluster = layers.experiment.cluster;
    if (auto fitted = lay_fitted_file(layers, files.front(), "cluster."))
        cluster.fitted = std::move(fitted);
    for (std::size_t i = 1; i < files.size(); ++i) {
        const auto device = cluster.gpu.name;
        cluster.name = stem_of(files[i].path);
        lay_file(layers, files[i], "cluster.", Origin::preset);
        if (cluster.gpu.name == device || !cluster.fitted) continue;
        cluster.fitted.reset();
        cluster.inherits = files[i - 1].path;
    }
}

std::string write_cluster(const Cluster& cluster) {
    Experiment holder;
    holder.cluster = cluster;
    return file_text(holder, "cluster.", cluster.fitted);
}

std::string write_nameplate(const Cluster& cluster) {
    std::vector<Key> keys;
    for (const Key& key : keys_of("cluster."))
        if (is_nameplate(key.path) && !key.path.starts_with("cluster.kernel.")) keys.push_back(key);
    Experiment holder;
    holder.cluster = cluster;
    return nameplate(holder, keys, "cluster.");
}

std::string fitted_text(const Cluster& cluster) {
    return cluster.fitted ? text_of_fit(*cluster.fitted) : "";
}

}  // namespace stepcast
