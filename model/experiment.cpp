#include "model/experiment.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <stdexcept>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/input/check_cluster.h"
#include "model/input/check_experiment.h"
#include "model/input/families.h"
#include "model/input/framework_file.h"
#include "model/input/key_table.h"
#include "model/input/key_values.h"
#include "model/input/layers.h"
#include "model/input/older_keys.h"
#include "model/machine/cluster_file.h"
#include "model/machine/measured_tables.h"
#include "model/machine/nameplate.h"
#include "model/routing_file.h"

namespace stepcast {

Experiment::Experiment() = default;
Experiment::Experiment(const Experiment&) = default;
Experiment::Experiment(Experiment&&) noexcept = default;
Experiment& Experiment::operator=(const Experiment&) = default;
Experiment& Experiment::operator=(Experiment&&) noexcept = default;
Experiment::~Experiment() = default;

Cluster::Cluster() = default;
Cluster::Cluster(const Cluster&) = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(const Cluster&) = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;
Cluster::~Cluster() = default;

namespace {

namespace fs = std::filesystem;

std::string relative_to(const std::string& file, const std::string& path) {
    if (path.empty() || fs::path(path).is_absolute()) return path;
    return (fs::path(file).parent_path() / path).lexically_normal().string();
}

const Override* last_override(std::span<const Override> overrides, std::string_view key) {
    const Override* last = nullptr;
    for (const auto& o : overrides)
        if (o.key == key) last = &o;
    return last;
}

// The file that [workload] or [cluster] starts from, if any. The command line wins over the
// experiment file.
std::optional<std::string> start_of(PresetKind kind, const std::string& key, const TomlFile& file,
                                    std::span<const Override> overrides) {
    if (const auto* o = last_override(overrides, key))
        return at_place("--set " + key + "=" + o->value,
                        [&] { return preset_path(kind, unquoted(o->value)); });
    for (const auto& entry : file.entries)
        if (entry.path == key) return start_relative_to(kind, file, entry);
    return std::nullopt;
}

// Keys whose product must equal the number of ranks; a complaint about it begins with
// "parallelism".
constexpr std::string_view rank_keys[] = {"parallelism.dp", "parallelism.tp",
                                          "parallelism.pp", "parallelism.cp",
                                          "cluster.nodes",  "cluster.gpus_per_node"};

// Prefixes a cross rule's complaint with the place where its key was set, or else with the place of
// the key's table.
std::string located(const Layers& layers, const std::string& complaint) {
    const auto key = complaint.substr(0, complaint.find(": "));
    const auto set_at = [&](std::string_view wanted) {
        const Key* const known = find_key(wanted);
        const auto found = value_in(layers.said, std::string(known ? canonical(*known) : wanted));
        return !found ? std::string() : found->at;
    };
    auto at = set_at(key);
    if (key == "parallelism")
        for (const auto candidate : rank_keys)
            if (at.empty() && set_at(candidate).starts_with("--set ")) at = set_at(candidate);
    if (at.starts_with("--set ")) return at + complaint.substr(key.size());
    // What lacks in a machine that --cluster names lacks in its file.
    if (const auto machine = value_in(layers.starts, "cluster");
        at.empty() && key.starts_with("cluster.") && !layers.tables.contains("cluster"))
        if (machine) at = *machine;
    for (auto table = key; at.empty();
         table = table.substr(
             0, table.find_last_of('.') == std::string::npos ? 0 : table.find_last_of('.')))
        if (const auto begins = value_in(layers.tables, table)) at = *begins;
    return at + ": " + complaint;
}

// The same for a cluster file, whose keys omit "cluster.". A missing link is located at the key
// that requires it.
std::string located_in_cluster(const Layers& layers, const std::string& path,
                               const std::string& complaint) {
    const auto key = complaint.substr(0, complaint.find(": "));
    const auto asks = key.starts_with("cluster.link.inter") ? "cluster.nodes"
                      : key.starts_with("cluster.link")     ? "cluster.gpus_per_node"
                                                            : "";
    auto found = layers.said.find(key);
    if (found == layers.said.end()) found = layers.said.find(asks);
    return (found == layers.said.end() ? path : found->second.at) + ": " + complaint.substr(8);
}

// A routing file determines the number of experts, unless the command line sets it.
void adopt_routing_file(Layers& layers, std::span<const Override> overrides) {
    auto& e = layers.experiment;
    if (last_override(overrides, "routing.file") && !last_override(overrides, "routing.kind"))
        e.routing.kind = RoutingSpec::Kind::file;
    if (e.routing.kind == RoutingSpec::Kind::file && !e.routing.file.empty() &&
        !last_override(overrides, "workload.moe.experts"))
        e.workload.moe.experts = read_routing(e.routing.file).experts;
}

void name_unnamed(Layers& layers, const std::string& file,
                  const std::optional<std::string>& workload,
                  const std::optional<std::string>& cluster) {
    auto& e = layers.experiment;
    e.name = plain_text(stem_of(file));
    if (e.workload.name.empty())
        e.workload.name = workload ? plain_text(stem_of(*workload)) : e.name;
    if (e.cluster.name.empty()) e.cluster.name = cluster ? plain_text(stem_of(*cluster)) : e.name;
}

// A workload alone can serve as an experiment; the command line then gives split and machine.
bool is_workload(const std::string& name) {
    return name.ends_with(".json") ||
           (!has_preset(PresetKind::experiment, name) && has_preset(PresetKind::workload, name));
}

TomlFile experiment_of_workload(const std::string& name, std::span<const Override> overrides) {
    const auto path = preset_path(PresetKind::workload, name);
    if (!last_override(overrides, "cluster.preset"))
        throw ConfigError(
            name +
            ": is a workload; expected a machine too, for example --cluster dgx-h100 --gpus 64");
    return {path, {{"workload.preset", {fs::absolute(path).string()}, path, path}}, {{"", path}}};
}

// Puts `ranks` ranks on whole nodes of the cluster, or on part of one node.
void spread(Layers& layers, const Override& ranks) {
    const auto at = "--gpus " + ranks.value;
    auto& c = layers.experiment.cluster;
    Experiment count;
    // dp has the range of a rank count
    at_place(at, [&] { assign_text(*find_key("parallelism.dp"), count, ranks.value); });
    const int wanted = count.parallelism.dp;
    if (wanted > c.gpus_per_node && wanted % c.gpus_per_node != 0)
        throw ConfigError(at + ": a node of " + c.name + " has " + std::to_string(c.gpus_per_node) +
                          "; expected a multiple, or fewer");
    const int nodes = std::max(1, wanted / c.gpus_per_node);
    if (const auto said = value_in(layers.said, "cluster.nodes");
        said && said->at.starts_with("--set ") && c.nodes != nodes)
        refuse("{}: {} nodes of {} by {}; expected {}, or one of the two", at, c.nodes,
               c.gpus_per_node, said->at, static_cast<long>(c.nodes) * c.gpus_per_node);
    c.nodes = nodes;
    if (wanted < c.gpus_per_node && !c.gpu.rank_rates.empty())
        c.gpu.rank_rates.resize(std::min<std::size_t>(c.gpu.rank_rates.size(), as_index(wanted)));
    c.gpus_per_node = std::min(wanted, c.gpus_per_node);
    for (const char* key : {"cluster.nodes", "cluster.gpus_per_node"})
        layers.said[key] = {Origin::set, at};
}

void fill_with_replicas(Layers& layers, const std::string& at) {
    auto& p = layers.experiment.parallelism;
    const auto replicas = replicas_on(p, rank_count(layers.experiment.cluster));
    if (!replicas) return;  // the cross rule has the better message
    p.dp = *replicas;
    layers.said["parallelism.dp"].at = at;
}

// Refuses a new device name without new rates, because the rates of the old device would stay.
void require_same_device(const Layers& layers, const std::string& before) {
    const auto& gpu = layers.experiment.cluster.gpu;
    const auto set = [&](std::string_view prefix) {
        return std::ranges::any_of(layers.said, [&](const auto& entry) {
            return entry.second.who == Origin::set && entry.first.starts_with(prefix);
        });
    };
    if (before.empty() || gpu.name == before || set("cluster.gpu.peak.") ||
        set("cluster.gpu.memory_bandwidth"))
        return;
    throw ConfigError(layers.said.at("cluster.gpu.name").at +
                      ": cluster.gpu.name: a name changes no rate, those of " + before +
                      " stay; expected cluster.preset=" + gpu.name +
                      " or the GPU's rates as well as its name");
}

// A node of fewer ranks than the preset's keeps the NICs of these, unless the experiment states a
// number.
void keep_nics_of(Layers& layers, int ranks_of_node) {
    auto& c = layers.experiment.cluster;
    const auto said = value_in(layers.said, "cluster.network.nics");
    if (c.gpus_per_node >= ranks_of_node || (said && said->who == Origin::set)) return;
    c.network.nics = nics_of_part(c.network.nics, ranks_of_node, c.gpus_per_node);
}

// Loads the framework of the experiment, or the default one if it names none.
void lay_framework_of(Layers& layers, const TomlFile& file, std::span<const Override> overrides) {
    const auto framework = start_of(PresetKind::framework, "framework.preset", file, overrides);
    if (framework) layers.files.push_back(*framework);
    lay_framework(layers, framework
                              ? *framework
                              : preset_path(PresetKind::framework, std::string(default_framework)));
    layers.said.clear();
    if (framework) layers.starts["framework"] = *framework;
}

// Whether the cluster has measured tables that count instead of the key.
bool is_measured(const Experiment& e, std::string_view path) {
    constexpr std::string_view cluster = "cluster.";
    return path.starts_with(cluster) &&
           std::ranges::any_of(tables_before(path.substr(cluster.size())), [&](const auto& table) {
               return text_of(*find_key(std::string(cluster) + table), e) != "[]";
           });
}

// Notes that the experiment states the key, if frameworks may set it or measurements count
// instead. An older switch of a style of kernels that is off says something only if the framework
// has this style.
void state(Experiment& e, std::string_view path, bool off) {
    const Key* const key = find_key(path);
    if (!key || is_preset(*key)) return;
    if (!is_measured(e, path) && (e.framework.name.empty() || !may_be_ruled(canonical(*key))))
        return;
    if (says_nothing(*key, e)) return;
    const std::string now(canonical(*key));
    if (const auto style = older_style(*key); off && !style.empty()) {
        const std::string* const ruled = ruled_value(e.framework, now);
        if (!ruled || *ruled != style) return;
    }
    std::erase_if(e.overlay.under, [&](const auto& one) { return one.key == now; });
    if (!is_stated(e, now)) e.overlay.stated.push_back(now);
}

// Notes what the experiment states, because that wins over the framework.
void note_stated(Layers& layers, const TomlFile& file, std::span<const Override> overrides) {
    Experiment& e = layers.experiment;
    for (const auto& entry : file.entries) {
        const bool* const flag = std::get_if<bool>(&entry.value.value);
        state(e, entry.path, flag && !*flag);
    }
    for (const auto& o : overrides) state(e, o.key, unquoted(o.value) == "false");
    const bool named = last_override(overrides, "framework.preset") ||
                       std::ranges::any_of(file.entries, [](const auto& entry) {
                           return entry.path.starts_with("framework.");
                       });
    if (e.workload.kind != Workload::Kind::transformer && !named) e.framework = {};
    // throws if unknown
    for (const auto& other : e.framework.may_be) preset_path(PresetKind::framework, other);
}

Layers lay_from(const TomlFile& file, bool alone, std::span<const Override> overrides) {
    Layers layers;
    layers.tables = file.tables;
    layers.files = {file.path};
    const auto family = start_of(PresetKind::family, "workload.family", file, overrides);
    const auto workload = start_of(PresetKind::workload, "workload.preset", file, overrides);
    const auto cluster = start_of(PresetKind::cluster, "cluster.preset", file, overrides);
    if (workload) layers.starts["workload"] = *workload;
    if (cluster) layers.starts["cluster"] = *cluster;
    lay_framework_of(layers, file, overrides);
    if (family) lay_family(layers, *family);
    if (workload) lay_workload(layers, *workload);
    if (cluster)
        lay_cluster(layers, *cluster);
    else
        layers.unmeasured = unmeasured_machine(file, "");
    const auto device = layers.experiment.cluster.gpu.name;
    const int ranks_of_node = layers.experiment.cluster.gpus_per_node;
    lay_file(layers, file, "", Origin::set);
    layers.experiment.routing.file = relative_to(file.path, layers.experiment.routing.file);
    for (const auto& o : overrides) lay_override(layers, o);
    if (const auto& routing = layers.experiment.routing.file; !routing.empty())
        layers.files.push_back(routing);
    require_same_device(layers, device);
    if (cluster) keep_nics_of(layers, ranks_of_node);
    const auto* ranks = last_override(overrides, ranks_key);
    if (ranks) spread(layers, *ranks);
    if ((ranks || alone) && !last_override(overrides, "parallelism.dp"))
        fill_with_replicas(layers, ranks ? "--gpus " + ranks->value : file.path);
    adopt_routing_file(layers, overrides);
    name_unnamed(layers, file.path, workload, cluster);
    note_stated(layers, file, overrides);
    return layers;
}

std::vector<Override> stated_in(const Layers& layers) {
    std::vector<Override> stated;
    for (const auto& [key, said] : layers.said) {
        const auto table = key.substr(0, key.find('.'));
        const bool whole =
            (table == "workload" || table == "cluster") && !layers.starts.contains(table);
        // --gpus spreads ranks over the nodes of one machine, which means nothing for another
        // machine.
        if (said.who != Origin::set || said.at.starts_with("--gpus ") ||
            (whole && !said.at.starts_with("--set ")))
            continue;
        stated.push_back({key, text_of(*find_key(key), layers.experiment)});
    }
    return stated;
}

}  // namespace

void adopt_framework(Layers& layers) {
    Experiment& e = layers.experiment;
    apply_framework(e);
    for (const auto& under : e.overlay.under)
        layers.said[under.key] = {Origin::framework, e.framework.name};
}

Experiment checked(const Layers& layers) {
    try {
        check_experiment(layers.experiment);
    } catch (const ConfigError& e) {
        throw ConfigError(located(layers, e.what()));
    }
    return layers.experiment;
}

Cluster checked_cluster(const Layers& layers, const std::string& path) {
    Experiment e = layers.experiment;
    if (e.cluster.name.empty()) e.cluster.name = stem_of(path);
    try {
        check_required(e, "cluster.");
        check_cluster(e.cluster);
    } catch (const ConfigError& error) {
        throw ConfigError(located_in_cluster(layers, path, error.what()));
    }
    return e.cluster;
}

Layers lay_experiment(const ExperimentSource& source, std::span<const Override> overrides) {
    const std::string& name = source.name;
    if (source.text) {
        auto file = parse_toml(*source.text, name);
        if (name.ends_with(of_translation)) file.path.resize(name.rfind(of_translation));
        const bool told = std::ranges::any_of(
            file.entries, [](const TomlEntry& e) { return e.path == "parallelism.dp"; });
        return lay_from(file, !told, overrides);
    }
    const bool alone = is_workload(name);
    return lay_from(alone ? experiment_of_workload(name, overrides)
                          : read_toml(preset_path(PresetKind::experiment, name)),
                    alone, overrides);
}

Override parse_override(const std::string& text) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
        throw ConfigError("--set " + text + ": expected KEY=VALUE, for example parallelism.ep=8");
    return {whole_key(text.substr(0, equals)), text.substr(equals + 1)};
}

Experiment stated_experiment(const ExperimentSource& source, std::span<const Override> overrides) {
    Layers layers = lay_experiment(source, overrides);
    adopt_framework(layers);
    return checked(layers);
}

Cluster stated_cluster(const std::string& path_or_preset) {
    const auto path = preset_path(PresetKind::cluster, path_or_preset);
    Layers layers;
    lay_cluster(layers, path);
    return checked_cluster(layers, path);
}

std::vector<std::string> notes_of_hub_config(const std::string& path) {
    Layers layers;
    lay_workload(layers, path);
    return layers.notes;
}

std::vector<Override> stated_keys(const ExperimentSource& source,
                                  std::span<const Override> overrides) {
    return stated_in(lay_experiment(source, overrides));
}

std::vector<std::string> files_of_experiment(const std::string& path_or_preset,
                                             std::span<const Override> overrides) {
    return lay_experiment(path_or_preset, overrides).files;
}

namespace {

// Forgets what the framework replaced and what was stated for keys with this prefix, because they
// are set anew.
void forget(Overlay& overlay, std::string_view begin) {
    std::erase_if(overlay.under, [&](const auto& one) { return one.key.starts_with(begin); });
    std::erase_if(overlay.stated, [&](const auto& key) { return key.starts_with(begin); });
}

void set_preset(Experiment& e, PresetKind kind, const std::string& name) {
    if (kind == PresetKind::cluster)
        throw std::logic_error("set_value: set_machine() sets cluster.preset");
    if (kind == PresetKind::framework) {
        e.framework = read_framework(name);
    } else {
        Layers layers;
        const auto path = preset_path(kind, name);
        kind == PresetKind::family ? lay_family(layers, path) : lay_workload(layers, path);
        forget(e.overlay, "workload.");
        append(e.overlay.stated, layers.experiment.overlay.stated);
        e.overlay.asks_latent = layers.experiment.overlay.asks_latent;
        e.workload = layers.experiment.workload;
        if (e.workload.name.empty()) e.workload.name = stem_of(path);
        put_back_framework(e);
        for (const Key& key : keys_of("runtime."))
            if (!is_stated(e, key.path)) assign_text(key, e, text_of(key, layers.experiment));
    }
}

}  // namespace

void set_machine(Experiment& experiment, Cluster machine) {
    forget(experiment.overlay, "cluster.");
    experiment.cluster = std::move(machine);
    apply_framework(experiment);
}

void set_value(Experiment& experiment, const Override& override) {
    const auto* key = find_key(override.key);
    if (key && is_preset(*key)) {
        at_place("--set " + override.key + "=" + override.value,
                 [&] { set_preset(experiment, key->preset, unquoted(override.value)); });
        return apply_framework(experiment);
    }
    Layers layers;
    layers.experiment = experiment;
    lay_override(layers, override);
    require_same_device(layers, experiment.cluster.gpu.name);
    if (override.key == "routing.file") layers.experiment.routing.kind = RoutingSpec::Kind::file;
    experiment = std::move(layers.experiment);
    state(experiment, override.key, unquoted(override.value) == "false");
    apply_framework(experiment);
}

std::string get_key(const Experiment& experiment, const std::string& key) {
    const auto* found = find_key(key);
    if (const auto line = framework_key(key); !found && !line.empty())
        return framework_line(experiment.framework, line);
    if (!found) throw ConfigError(key + ": " + unknown_key(key));
    if (is_preset(*found))
        throw ConfigError(key +
                          ": names a file to start from and is not kept; expected another key, for "
                          "example cluster.name");
    return text_of(*found, experiment);
}

}  // namespace stepcast
