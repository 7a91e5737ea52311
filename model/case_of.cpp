#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "model/cases.h"
#include "model/csv.h"
#include "model/errors.h"
#include "model/presets.h"

namespace stepcast {
namespace {

std::string lower(std::string text) {
    for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

// "full (use_checkpoint true)" -> "full"
std::string first_word(const std::string& text) { return text.substr(0, text.find_first_of(" ;,(")); }

bool exists(PresetKind kind, const std::string& name) {
    const auto names = preset_names(kind);
    return std::find(names.begin(), names.end(), name) != names.end();
}

int count_in(const CaseRow& row, const std::string& column, int otherwise) {
    const auto& text = row.cell(column);
    if (text.empty()) return otherwise;
    try {
        return csv_int(text, 1);
    } catch (const ConfigError& e) {
        throw ConfigError(column + ": " + e.what());
    }
}

Seconds seconds_in(const CaseRow& row, const std::string& column) {
    double value = 0;
    try {
        value = csv_number(row.cell(column));
    } catch (const ConfigError& e) {
        throw ConfigError(column + ": " + e.what());
    }
    if (!(value > 0))
        throw ConfigError(column + ": " + row.cell(column) + " is out of range; expected more than 0 seconds");
    return Seconds(value);
}

void check_rank_product(const CaseRow& row) {
    if (row.cell("gpus").empty() || row.cell("dp").empty()) return;
    const auto of = [&](const char* column) { return static_cast<long>(count_in(row, column, 1)); };
    const auto product = of("tp") * of("pp") * of("dp") * of("cp");
    if (product != of("gpus"))
        throw ConfigError(fmt::format("tp {} x pp {} x dp {} x cp {} = {} ranks, but gpus is {}", of("tp"), of("pp"),
                                      of("dp"), of("cp"), product, of("gpus")));
}

// `model` names an experiment preset, alone or with its MoE system ("moe_layer" + "mix_moe").
std::string preset_of(const CaseRow& row) {
    const auto& model = row.cell("model");
    if (exists(PresetKind::experiment, model)) return model;
    const auto joined = model + "_" + row.cell("moe_system");
    if (!row.cell("moe_system").empty() && exists(PresetKind::experiment, joined)) return joined;
    if (row.cell("layers").empty())
        throw ConfigError("layers: missing, and model \"" + model + "\" names no preset experiment");
    std::string names;
    for (const auto& name : preset_names(PresetKind::experiment)) names += (names.empty() ? "" : ", ") + name;
    throw ConfigError("model: \"" + model + "\" is not supported; expected a preset experiment: " + names);
}

// The cluster whose preset or device has the name in the gpu column; "" = the experiment's own.
std::string cluster_of(const CaseRow& row, const Experiment& preset) {
    const auto wanted = lower(row.cell("gpu"));
    if (wanted.empty() || wanted == lower(preset.cluster.gpu.name) || wanted == lower(preset.cluster.name)) return "";
    std::string known;
    for (const auto& name : preset_names(PresetKind::cluster)) {
        const auto device = read_cluster(name).gpu.name;
        if (wanted == lower(name) || wanted == lower(device)) return name;
        known += (known.empty() ? "" : ", ") + device;
    }
    throw ConfigError("gpu: no cluster is known for \"" + row.cell("gpu") + "\"; expected one of " + known +
                      ", or name one with --cluster");
}

std::string dtype_in(const std::string& precision) {
    const auto text = lower(precision);
    for (const char* dtype : {"fp32", "tf32", "bf16", "fp16", "fp8"})
        if (text.find(dtype) != std::string::npos) return dtype;
    throw ConfigError("precision: \"" + precision + "\" names no dtype; expected fp32, tf32, fp16, bf16 or fp8");
}

struct Column {
    const char *name, *key;
};
constexpr Column plain_columns[] = {{"layers", "workload.layers"},
                                    {"hidden", "workload.hidden"},
                                    {"heads", "workload.heads"},
                                    {"kv_heads", "workload.kv_heads"},
                                    {"ffn", "workload.ffn"},
                                    {"vocab", "workload.vocab"},
                                    {"seq", "workload.seq"},
                                    {"experts", "workload.moe.experts"},
                                    {"topk", "workload.moe.top_k"},
                                    {"tp", "parallelism.tp"},
                                    {"pp", "parallelism.pp"},
                                    {"vp", "parallelism.vp"},
                                    {"dp", "parallelism.dp"},
                                    {"ep", "parallelism.ep"},
                                    {"cp", "parallelism.cp"},
                                    {"mbs", "parallelism.micro_batch"},
                                    {"gbs", "parallelism.global_batch"},
                                    {"moe_system", "parallelism.moe_system"}};

std::vector<Override> overrides_of(const CaseRow& row) {
    std::vector<Override> overrides;
    for (const auto& column : plain_columns)
        if (const auto& text = row.cell(column.name); !text.empty()) overrides.push_back({column.key, text});
    if (const auto& text = row.cell("precision"); !text.empty())
        overrides.push_back({"workload.dtype", dtype_in(text)});
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

Case predictable(const CaseRow& row, const std::string& cluster) {
    check_rank_product(row);
    const auto preset_name = preset_of(row);
    if (row.cell("step_s").empty()) throw ConfigError("step_s: missing; nothing to compare with");
    Case result;
    result.measured_step = seconds_in(row, "step_s");
    if (!row.cell("forward_s").empty()) result.measured_forward = seconds_in(row, "forward_s");
    if (!row.cell("backward_s").empty()) result.measured_backward = seconds_in(row, "backward_s");

    auto overrides = overrides_of(row);
    const auto preset = read_experiment(preset_name);
    const auto machine = cluster.empty() ? cluster_of(row, preset) : cluster;
    if (!machine.empty()) overrides.push_back({"cluster.preset", machine});
    add_routing(row, preset, overrides, result.assumptions);
    for (const auto& [column, text] : row.cells)
        if (text.find("(assumed)") != std::string::npos && column != "notes")
            result.assumptions.push_back(column + ": " + text);
    result.experiment = read_experiment(preset_name, overrides);
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

Case case_of(const CaseRow& row, const std::string& cluster) {
    try {
        return predictable(row, cluster);
    } catch (const ConfigError& e) {
        throw ConfigError(fmt::format("{}:{}: {}", row.file, row.line, e.what()));
    }
}

}  // namespace stepcast
