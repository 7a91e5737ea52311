// The one table of keys: where each lives in an Experiment, what it may hold and what it means. Reading files,
// --set, get_key, write_cluster and key_docs all go through it. A new key is a field and a line in
// keys_workload.cpp or keys_cluster.cpp. Internal to model/.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "model/experiment.h"
#include "model/keys/toml_reader.h"
#include "model/presets.h"

namespace stepcast {

template <class T>
using Field = T& (*)(Experiment&);

// Not a field: names the file that a whole table starts from.
struct PresetField {
    PresetKind kind;
};

using KeyField = std::variant<PresetField, Field<int>, Field<bool>, Field<double>, Field<std::uint64_t>, Field<Seconds>,
                              Field<Bytes>, Field<BytesPerSecond>, Field<FlopsPerSecond>, Field<std::string>,
                              Field<Dtype>, Field<Optimizer>, Field<Workload::Kind>, Field<MoeSystem>, Field<Schedule>,
                              Field<Recompute>, Field<Norm>, Field<AttentionKind>, Field<Positions>, Field<Activation>,
                              Field<Head>, Field<ContextExchange>, Field<StageCut>, Field<ExpertProducts>, Field<Fabric>,
                              Field<std::vector<int>>, Field<std::vector<double>>, Field<RoutingSpec::Kind>,
                              Field<Curve>, Field<std::vector<GemmPoint>>, Field<std::vector<AttentionKernel>>,
                              Field<std::vector<ExpertKernel>>,
                              Field<std::vector<Schedule>>, Field<std::vector<Recompute>>, Field<std::optional<bool>>,
                              Field<std::optional<double>>, Field<std::optional<Seconds>>,
                              Field<std::optional<AttentionKind>>, Field<std::optional<Optimizer>>,
                              Field<std::optional<Recompute>>, Field<std::optional<GradientType>>>;

// `least` and `most` bound numbers (in SI base units), inclusive. A default below `least` makes the key required.
struct Key {
    std::string_view path;
    KeyField field;
    std::string_view meaning;
    double least = 0, most = 1e21;
};

// The field reached through members: field<&Experiment::workload, &Workload::hidden>.
template <auto... Members>
auto& field(Experiment& experiment) {
    return (experiment.*....*Members);
}

std::span<const Key> workload_keys();  // workload, parallelism, routing, run, recorded
std::span<const Key> cluster_keys();
std::span<const Key> framework_keys();

// Every key once, in the order of the documentation.
const std::vector<Key>& all_keys();
const Key* find_key(std::string_view path);

// The ConfigError text of an unknown key: `prefix` is what a file leaves out ("cluster." in a cluster file).
std::string unknown_key(const std::string& path, const std::string& prefix = "");

// Checks type, unit and range; throws ConfigError without position or key name.
void assign(const Key& key, Experiment& experiment, const ConfigValue& value);
// Command-line text, quoted or bare.
void assign_text(const Key& key, Experiment& experiment, const std::string& text);

std::string text_of(const Key& key, const Experiment& experiment);       // bare, exact: as for --set
std::string toml_text_of(const Key& key, const Experiment& experiment);  // as after `key = ` in a file
std::string quoted_toml(std::string_view text);
std::string names_text(const Key& key);  // the names that it takes, separated by commas; "" of other kinds
bool is_missing(const Key& key, const Experiment& experiment);  // required and still at its default
bool is_unset(const Key& key, const Experiment& experiment);    // empty or zero by default, and untouched

}  // namespace stepcast
