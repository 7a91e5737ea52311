#include "import/tables/case_of.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include <fmt/format.h>

#include "import/tables/cluster.h"
#include "import/tables/row_parts.h"
#include "import/tables/transformer.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/input/check_experiment.h"
#include "model/input/presets.h"

namespace stepcast {
namespace {

// The experiment preset that the column `model` names, alone or joined with the MoE system
// ("moe_layer" + "mix_moe"); "" if none.
std::string preset_of(const CaseRow& row) {
    const auto& model = row.cell("model");
    if (has_preset(PresetKind::experiment, model)) return model;
    const std::string& system = row.cell("moe_system");
    const std::string both = system.empty() ? model : model + "_" + system;
    if (has_preset(PresetKind::experiment, both)) return both;
    if (!system.empty() || model.starts_with("moe_layer"))
        throw ConfigError(fmt::format("model: \"{}\" is no preset experiment; expected one of {}",
                                      both, joined(preset_names(PresetKind::experiment), ", ")));
    return "";
}

// "" means the experiment's own cluster.
std::string cluster_of(const CaseRow& row, const Experiment& preset, Shelf& shelf) {
    const auto wanted = lower_case(row.cell("gpu"));
    if (wanted.empty() || wanted == lower_case(preset.cluster.gpu.name) ||
        wanted == lower_case(preset.cluster.name))
        return "";
    return cluster_for(row.cell("gpu"), shelf);
}

std::vector<Override> overrides_of(const CaseRow& row) {
    std::vector<Override> overrides;
    for (const auto& column : key_columns)
        if (const auto& text = row.cell(column.name); !text.empty())
            overrides.push_back({column.key, text});
    if (!row.cell("precision").empty())
        overrides.push_back({"workload.dtype", std::string(to_string(dtype_in(row)))});
    for (const char* column : {"recompute", "zero"})
        if (const auto& text = row.cell(column); !text.empty())
            overrides.push_back({std::string("parallelism.") + column, text});
    if (!row.cell("sp").empty())
        overrides.push_back({"parallelism.sequence_parallel", is_on(row, "sp") ? "true" : "false"});
    return overrides;
}

// The cell is a kind ("uniform") or a file, relative to the cases file. An empty cell means the
// distribution of a random gate.
void add_routing(const CaseRow& row, const Experiment& preset, std::vector<Override>& overrides,
                 std::vector<std::string>& assumptions) {
    const auto& routing = row.cell("routing");
    if (routing.empty()) {
        if (preset.workload.moe.experts > 0)
            add_random_gate("routing not stated", overrides, assumptions);
    } else if (routing.ends_with(".csv")) {
        const std::filesystem::path path(routing);
        overrides.push_back(
            {"routing.file",
             path.is_absolute() ? routing
                                : (std::filesystem::path(row.file).parent_path() / path).string()});
    } else {
        overrides.push_back({"routing.kind", routing});
    }
}

// These columns are not part of the model's name, so an empty one keeps the preset's value; the
// assumption is listed.
void add_unstated(const CaseRow& row, const std::string& preset, Case& result) {
    const Experiment& e = result.experiment;
    const auto of_preset = [&](const char* column, const std::string& value) {
        if (row.cell(column).empty())
            result.assumptions.push_back(
                fmt::format("{} not stated: {} of {}", column, value, preset));
    };
    if (e.routing.kind != RoutingSpec::Kind::file && e.workload.moe.experts > 0)
        of_preset("experts", std::to_string(e.workload.moe.experts));
    of_preset("gpu", e.cluster.gpu.name);
    of_preset("gpus", std::to_string(rank_count(e.cluster)));
    of_preset("precision", std::string(to_string(e.workload.dtype)));
}

Case preset_case(const CaseRow& row, const std::string& preset_name, const std::string& cluster,
                 Shelf& shelf) {
    Case result;
    name_after(row, result);
    take_measured(row, result);
    auto overrides = overrides_of(row);
    const auto preset = read_experiment(preset_name);
    const auto machine = cluster.empty() ? cluster_of(row, preset, shelf) : cluster;
    if (!machine.empty()) overrides.push_back({"cluster.preset", machine});
    if (const auto& framework = shelf.stated_framework(row); !framework.empty())
        overrides.push_back({"framework.preset", framework});
    add_routing(row, preset, overrides, result.assumptions);
    result.experiment = read_experiment(preset_name, overrides);
    add_unstated(row, preset_name, result);
    if (const auto& system = row.cell("moe_system"); !system.empty()) result.series = system;
    result.x = result.experiment.workload.moe.experts;
    if (const auto asked = count_in(row, "gpus", rank_count(result.experiment.cluster));
        asked != rank_count(result.experiment.cluster))
        throw ConfigError(fmt::format("gpus: {}, but the experiment has {} ranks", asked,
                                      rank_count(result.experiment.cluster)));
    return result;
}

int required(const CaseRow& row, const std::string& column) {
    if (const auto value = count_in(row, column)) return *value;
    throw ConfigError(column + ": missing; expected a count");
}

Workload layer_of(const CaseRow& row) {
    Workload w;
    const auto experts = count_in(row, "experts");
    w.kind = experts ? Workload::Kind::moe_layer : Workload::Kind::mlp;
    w.name = row.cell("model");
    w.layers = count_in(row, "layers", 1);
    w.hidden = required(row, "hidden");
    w.ffn = required(row, "ffn");
    // The dense layer that such rows compare with is as wide as all local experts together.
    if (!experts) w.ffn *= count_in(row, "local_experts", 1);
    w.seq = required(row, "seq");
    w.moe.experts = experts.value_or(0);
    w.moe.top_k = count_in(row, "topk", w.moe.top_k);
    w.dtype = dtype_in(row);
    return w;
}

// One layer over `mbs` samples of `seq` tokens: experts of width `ffn` (capacity factor 1), or one
// dense block of that width.
Case single_layer_case(const CaseRow& row, const std::string& cluster, Shelf& shelf) {
    Case result;
    name_after(row, result);
    Experiment& e = result.experiment;
    e.name = result.case_id;
    e.workload = layer_of(row);
    const int ranks = count_in(row, "gpus", 1);
    e.cluster = cluster_of_row(row, ranks, cluster, shelf, result.assumptions);
    e.parallelism.dp = ranks;
    e.parallelism.ep = count_in(row, "ep", 1);
    e.parallelism.micro_batch = required(row, "mbs");
    e.parallelism.moe_system = MoeSystem::alltoall;
    if (const std::string* style = ruled_value(shelf.framework_of(row), "runtime.kernels"))
        if (*style == to_string(KernelStyle::operations))
            e.runtime.kernels = KernelStyle::operations;
    e.routing.kind = RoutingSpec::Kind::uniform;
    result.assumptions.push_back(
        fmt::format("one layer in {}, forward and backward; tokens evenly over the experts",
                    to_string(e.workload.dtype)));
    check_experiment(e);
    result.measured_step = measured_step(row);
    return result;
}

}  // namespace

void add_random_gate(const std::string& why, std::vector<Override>& overrides,
                     std::vector<std::string>& assumptions) {
    overrides.push_back({"routing.kind", "random-gate"});
    overrides.push_back({"routing.draws", "200"});
    assumptions.push_back(why + ": random-gate, 200 draws");
}

void name_after(const CaseRow& row, Case& result) {
    result.source = row.cell("source");
    result.case_id =
        row.cell("case_id").empty() ? fmt::format("line {}", row.line) : row.cell("case_id");
    result.series = row.cell("model");
}

void take_measured(const CaseRow& row, Case& result) {
    result.measured_step = measured_step(row);
    if (!row.cell("forward_s").empty()) result.measured_forward = seconds_in(row, "forward_s");
    if (!row.cell("backward_s").empty()) result.measured_backward = seconds_in(row, "backward_s");
}

Case case_of(const CaseRow& row, const std::string& cluster, Shelf& shelf) {
    return at_place(fmt::format("{}:{}", row.file, row.line), [&] {
        std::vector<std::string> assumptions;
        const CaseRow plain = shelf.words().plain(row, assumptions);
        check_ranges(plain);
        check_rank_product(plain);
        const bool layer = states(plain, "single_layer");
        const auto preset = layer ? "" : preset_of(plain);
        // a row may train one feed-forward layer by itself, with or without experts
        Case found = layer            ? single_layer_case(plain, cluster, shelf)
                     : preset.empty() ? transformer_case(plain, cluster, shelf)
                                      : preset_case(plain, preset, cluster, shelf);
        std::ranges::move(assumptions, std::back_inserter(found.assumptions));
        return found;
    });
}

Case case_of(const CaseRow& row, const std::string& cluster, const std::string& framework) {
    Shelf shelf(framework);
    return case_of(row, cluster, shelf);
}

}  // namespace stepcast
