#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cases/cells.h"
#include "cases/row_parts.h"
#include "model/errors.h"
#include "model/presets.h"

namespace stepcast {
namespace {

// `model` names an experiment preset, alone or with its MoE system ("moe_layer" + "mix_moe"); "" when it names none.
std::string preset_of(const CaseRow& row) {
    const auto& model = row.cell("model");
    if (has_preset(PresetKind::experiment, model)) return model;
    auto joined = model + "_" + row.cell("moe_system");
    if (!row.cell("moe_system").empty() && has_preset(PresetKind::experiment, joined)) return joined;
    if (!row.cell("moe_system").empty() || model.starts_with("moe_layer"))
        throw ConfigError(fmt::format("model: \"{}\" is no preset experiment; expected one of {}",
                                      row.cell("moe_system").empty() ? model : joined,
                                      fmt::join(preset_names(PresetKind::experiment), ", ")));
    return "";
}

// "" = the experiment's own cluster.
std::string cluster_of(const CaseRow& row, const Experiment& preset, Shelf& shelf) {
    const auto wanted = lower_case(row.cell("gpu"));
    if (wanted.empty() || wanted == lower_case(preset.cluster.gpu.name) || wanted == lower_case(preset.cluster.name))
        return "";
    return cluster_for(row.cell("gpu"), shelf);
}

std::string dtype_text(const std::string& precision) {
    if (const auto dtype = dtype_in(precision)) return std::string(to_string(*dtype));
    throw ConfigError("precision: \"" + precision + "\" names no dtype; expected fp32, tf32, fp16, bf16, fp8 or fp4");
}

std::vector<Override> overrides_of(const CaseRow& row) {
    std::vector<Override> overrides;
    for (const auto& column : key_columns())
        if (const auto& text = row.cell(column.name); !text.empty()) overrides.push_back({column.key, text});
    if (const auto& text = row.cell("precision"); !text.empty())
        overrides.push_back({"workload.dtype", dtype_text(text)});
    if (const auto& text = row.cell("recompute"); !text.empty())
        overrides.push_back({"parallelism.recompute", first_word(text)});
    if (const auto& text = row.cell("zero"); !text.empty()) overrides.push_back({"parallelism.zero", first_word(text)});
    if (const auto& text = row.cell("sp"); !text.empty()) {
        const auto word = first_word(text);
        if (word != "on" && word != "off") throw ConfigError("sp: \"" + text + "\" is neither on nor off");
        overrides.push_back({"parallelism.sequence_parallel", word == "on" ? "true" : "false"});
    }
    return overrides;
}

// A kind ("uniform") or a file, relative to the cases file; without either the distribution of a random gate.
void add_routing(const CaseRow& row, const Experiment& preset, std::vector<Override>& overrides,
                 std::vector<std::string>& assumptions) {
    const auto& routing = row.cell("routing");
    if (routing.empty()) {
        if (preset.workload.moe.experts == 0) return;
        overrides.push_back({"routing.kind", "random-gate"});
        overrides.push_back({"routing.draws", "200"});
        assumptions.push_back("routing not stated: random-gate, 200 draws");
    } else if (routing.ends_with(".csv")) {
        const std::filesystem::path path(routing);
        overrides.push_back({"routing.file", path.is_absolute()
                                                 ? routing
                                                 : (std::filesystem::path(row.file).parent_path() / path).string()});
    } else {
        overrides.push_back({"routing.kind", routing});
    }
}

// An empty column leaves what the preset says: its shape belongs to the model's name, these do not.
void add_unstated(const CaseRow& row, const std::string& preset, Case& result) {
    const Experiment& e = result.experiment;
    const auto of_preset = [&](const char* column, const std::string& value) {
        if (row.cell(column).empty())
            result.assumptions.push_back(fmt::format("{} not stated: {} of {}", column, value, preset));
    };
    if (e.routing.kind != RoutingSpec::Kind::file && e.workload.moe.experts > 0)
        of_preset("experts", std::to_string(e.workload.moe.experts));
    of_preset("gpu", e.cluster.gpu.name);
    of_preset("gpus", std::to_string(rank_count(e.cluster)));
    of_preset("precision", std::string(to_string(e.workload.dtype)));
}

Case preset_case(const CaseRow& row, const std::string& preset_name, const std::string& cluster, Shelf& shelf) {
    Case result;
    result.measured_step = measured_step(row);
    if (!row.cell("forward_s").empty()) result.measured_forward = seconds_in(row, "forward_s");
    if (!row.cell("backward_s").empty()) result.measured_backward = seconds_in(row, "backward_s");

    auto overrides = overrides_of(row);
    const auto preset = read_experiment(preset_name);
    const auto machine = cluster.empty() ? cluster_of(row, preset, shelf) : cluster;
    if (!machine.empty()) overrides.push_back({"cluster.preset", machine});
    if (const auto& framework = shelf.stated_framework(row); !framework.empty())
        overrides.push_back({"framework.preset", framework});
    add_routing(row, preset, overrides, result.assumptions);
    for (const auto& [column, text] : row.cells)
        if (contains(text, "(assumed)") && column != "notes") result.assumptions.push_back(column + ": " + text);
    result.experiment = read_experiment(preset_name, overrides);
    add_unstated(row, preset_name, result);
    result.source = row.cell("source");
    result.case_id = row.cell("case_id").empty() ? fmt::format("line {}", row.line) : row.cell("case_id");
    result.series = row.cell("moe_system").empty() ? row.cell("model") : row.cell("moe_system");
    result.x = result.experiment.workload.moe.experts;
    if (const auto asked = count_in(row, "gpus", rank_count(result.experiment.cluster));
        asked != rank_count(result.experiment.cluster))
        throw ConfigError(
            fmt::format("gpus: {}, but the experiment has {} ranks", asked, rank_count(result.experiment.cluster)));
    return result;
}

}  // namespace

Case case_of(const CaseRow& row, const std::string& cluster, Shelf& shelf) {
    return at_place(fmt::format("{}:{}", row.file, row.line), [&] {
        check_ranges(row);
        check_rank_product(row);
        if (is_single_layer(row)) return single_layer_case(row, cluster, shelf);
        const auto preset = preset_of(row);
        return preset.empty() ? transformer_case(row, cluster, shelf) : preset_case(row, preset, cluster, shelf);
    });
}

Case case_of(const CaseRow& row, const std::string& cluster, const std::string& framework) {
    Shelf shelf(framework);
    return case_of(row, cluster, shelf);
}

}  // namespace stepcast
