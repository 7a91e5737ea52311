#include "model/cases/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/cases/cells.h"
#include "model/cases/conventions.h"
#include "model/cases/split.h"
#include "model/errors.h"
#include "model/presets.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

using Assumptions = std::vector<std::string>;

// Other work than training all weights of a transformer on full sequences.
void refuse_other_work(const CaseRow& row) {
    const auto text = lower_case(row.cell("case_id") + " " + row.cell("model") + " " + row.cell("notes"));
    for (const char* word : {"lora", "peft", "finetun", "fine-tun", "_sft", "sft "})
        if (contains(text, word))
            throw ConfigError(
                fmt::format("notes: fine-tuning (\"{}\") is other work than the pretraining that is modelled", word));
    if (contains(text, "mamba")) throw ConfigError("notes: Mamba layers are not modelled");
}

// The size in the column, else the one of the workload preset of the model's name.
int size_of(const CaseRow& row, const std::string& column, int Workload::*member, Assumptions& assumptions) {
    if (const auto stated = count_in(row, column)) return *stated;
    const auto name = lower_case(row.cell("model"));
    const auto presets = preset_names(PresetKind::workload);
    if (std::find(presets.begin(), presets.end(), name) != presets.end()) {
        Experiment e;
        set_key(e, {"workload.preset", name});
        if (const int value = e.workload.*member; value > 0) {
            assumptions.push_back(fmt::format("{} not stated: {} of preset {}", column, value, name));
            return value;
        }
    }
    throw ConfigError(column + ": missing; expected a count");
}

// Of one expert where there are dense layers of another width beside them; then no preset can stand in.
int ffn_of(const CaseRow& row, const Workload& family, Assumptions& assumptions) {
    if (family.ffn > 0 && row.cell("ffn").empty()) throw ConfigError("ffn: missing; expected the width of one expert");
    return size_of(row, "ffn", &Workload::ffn, assumptions);
}

Dtype dtype_of(const CaseRow& row, Assumptions& assumptions) {
    const auto text = lower_case(row.cell("precision"));
    if (!states(row, "precision")) {
        assumptions.push_back("precision not stated: bf16");
        return Dtype::bf16;
    }
    constexpr std::array<std::pair<std::string_view, Dtype>, 7> names{{{"fp8", Dtype::fp8},
                                                                       {"float8", Dtype::fp8},
                                                                       {"bf16", Dtype::bf16},
                                                                       {"fp16", Dtype::fp16},
                                                                       {"tf32", Dtype::tf32},
                                                                       {"fp32", Dtype::fp32},
                                                                       {"float32", Dtype::fp32}}};
    if (!contains(text, "fp4"))
        for (const auto& [name, dtype] : names)
            if (contains(text, name)) return dtype;
    throw ConfigError("precision: \"" + row.cell("precision") +
                      "\" names no dtype that is modelled; expected fp32, tf32, fp16, bf16 or fp8");
}

// "1 dense layer of the 4", "first 3 layers dense (ffn 18432)", "shared expert width 3072".
void read_expert_notes(const std::string& notes, Workload& w) {
    if (const auto at = notes.find(" dense layer"); at != std::string::npos)
        if (const auto n = number_before(notes, at)) w.moe.dense_layers = static_cast<int>(*n);
    if (const auto at = notes.find(" layers dense (ffn "); at != std::string::npos)
        if (const auto n = number_before(notes, at)) w.moe.dense_layers = static_cast<int>(*n);
    if (contains(notes, "first layer dense")) w.moe.dense_layers = 1;
    if (const auto at = notes.find("dense (ffn "); at != std::string::npos)
        if (const auto n = number_after(notes, at)) w.ffn = static_cast<int>(*n);
    if (const auto at = notes.find("shared expert width "); at != std::string::npos)
        if (const auto n = number_after(notes, at)) w.moe.shared_ffn = static_cast<int>(*n);
}

void set_experts(const CaseRow& row, int ffn, Workload& w) {
    const auto experts = count_in(row, "experts"), top_k = count_in(row, "topk");
    if (!experts) {
        if (w.ffn > 0) throw ConfigError("experts: missing; the model has expert layers");
        w.ffn = ffn;
        return;
    }
    if (!top_k) throw ConfigError(fmt::format("topk: missing, but there are {} experts", *experts));
    w.moe.experts = *experts;
    w.moe.top_k = *top_k;
    if (w.ffn > 0)
        w.moe.ffn = ffn;
    else
        w.ffn = ffn;
    read_expert_notes(row.cell("notes"), w);
}

// Rows may state the parameter count: where learned positions and biases do not make it, attention biases (ALiBi) and
// bare layers may (arXiv 2108.12409; MPT's model card).
void match_stated_parameters(const CaseRow& row, Workload& w, Assumptions& assumptions) {
    const auto& notes = row.cell("notes");
    const auto at = notes.find("params ");
    const auto stated = at == std::string::npos ? std::nullopt : number_after(notes, at);
    if (!stated || count_parameters(w).total() == *stated) return;
    for (const auto positions : {Positions::learned, Positions::none})
        for (const bool biases : {true, false}) {
            Workload other = w;
            other.positions = positions;
            other.linear_bias = other.qkv_bias = biases;
            if (!biases) other.norm = Norm::rmsnorm;  // of one weight each, as a layernorm without biases
            if (count_parameters(other).total() != *stated) continue;
            assumptions.push_back(fmt::format("parameters as stated: positions {}, {} biases", to_string(positions),
                                              biases ? "with" : "no"));
            w = other;
            return;
        }
    assumptions.push_back(
        fmt::format("parameters stated: {:.0f}, counted {:.0f}", *stated, count_parameters(w).total()));
}

Workload workload_of(const CaseRow& row, const Framework& framework, Assumptions& assumptions) {
    const ModelFamily family = family_of(row.cell("model"));
    Workload w = family.architecture;
    assumptions.push_back("model family " + family.words);
    w.name = row.cell("model");
    const auto layers = count_in(row, "layers");
    if (!layers) throw ConfigError("layers: missing; expected a count");
    w.layers = *layers;
    w.hidden = size_of(row, "hidden", &Workload::hidden, assumptions);
    w.heads = size_of(row, "heads", &Workload::heads, assumptions);
    w.kv_heads = count_in(row, "kv_heads", 0);
    w.vocab = size_of(row, "vocab", &Workload::vocab, assumptions);
    w.seq = size_of(row, "seq", &Workload::seq, assumptions);
    set_experts(row, ffn_of(row, w, assumptions), w);
    if (w.head_dim == 0 && w.hidden % w.heads != 0)
        throw ConfigError(fmt::format("heads: {} do not divide the hidden width {}", w.heads, w.hidden));
    w.dtype = dtype_of(row, assumptions);
    if (w.attention != AttentionKind::mla) w.attention = framework.attention;
    if (family.architecture.positions == Positions::learned && !framework.tied_gpt) w.tied = false;
    w.dropout = framework.dropout;
    w.optimizer = framework.optimizer;
    w.fused_loss = framework.fused_loss;
    match_stated_parameters(row, w, assumptions);
    return w;
}

int ranks_of(const CaseRow& row, Assumptions& assumptions) {
    if (const auto gpus = count_in(row, "gpus")) return *gpus;
    const auto of = [&](const char* column) { return static_cast<long>(count_in(row, column, 1)); };
    const auto product = of("tp") * of("pp") * of("dp") * of("cp");
    assumptions.push_back(fmt::format("gpus not stated: {}, the product of the split", product));
    return static_cast<int>(product);
}

void set_routing(const CaseRow& row, Experiment& e, Assumptions& assumptions) {
    if (e.workload.moe.experts == 0) return;
    if (row.cell("routing").empty()) {
        e.routing.kind = RoutingSpec::Kind::uniform;
        assumptions.push_back("routing not stated: uniform");
    } else {
        e.routing.kind = parse_routing_kind(row.cell("routing"));
    }
}

}  // namespace

Case transformer_case(const CaseRow& row, const std::string& named, ClusterShelf& shelf) {
    refuse_other_work(row);
    Case result;
    result.source = row.cell("source");
    result.case_id = row.cell("case_id").empty() ? fmt::format("line {}", row.line) : row.cell("case_id");
    result.series = row.cell("model");
    auto& said = result.assumptions;
    const Framework framework = framework_of(row.cell("source"), row.cell("case_id") + " " + row.cell("notes"));
    Experiment& e = result.experiment;
    e.name = result.case_id;
    e.workload = workload_of(row, framework, said);
    said.push_back("framework " + framework.words);
    const int ranks = ranks_of(row, said);
    e.cluster = cluster_of_row(row, ranks, named, shelf, said);
    e.parallelism = split_of(row, framework, ranks, e, said);
    set_routing(row, e, said);
    if (e.cluster.noise.step > 0) e.routing.draws = 200;  // an interval from the spread of what the fit had not seen
    check_experiment(e);
    if (row.cell("step_s").empty()) throw ConfigError("step_s: missing; nothing to compare with");
    result.measured_step = seconds_in(row, "step_s");
    check_step(row);
    result.measured_peak = measured_peak(row);
    if (!row.cell("forward_s").empty()) result.measured_forward = seconds_in(row, "forward_s");
    if (!row.cell("backward_s").empty()) result.measured_backward = seconds_in(row, "backward_s");
    for (const auto& [column, text] : row.cells)
        if (contains(text, "(assumed") && column != "notes") said.push_back(column + ": " + text);
    return result;
}

}  // namespace stepcast
