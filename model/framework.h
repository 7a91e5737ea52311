// How a training framework runs what an experiment describes: kernels, overlaps, types, and what its own code costs the host.
// Data (model/presets/frameworks/): what a file leaves out stays as workload, split and cluster say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "model/parallelism.h"
#include "model/workload.h"

namespace stepcast {

// training: the 16-bit type of training (fp32 where training is in fp32 or tf32).
enum class GradientType : std::uint8_t { training, fp32, fp16, bf16 };
constexpr auto names_of(GradientType) {
    using enum GradientType;
    return name_table<GradientType>("a gradient type", {{training, "training"}, {fp32, "fp32"}, {fp16, "fp16"}, {bf16, "bf16"}});
}

// What the framework's own code costs, in place of the cluster's host costs of the same names.
struct FrameworkHost {
    std::optional<Seconds> call, layer, expert_layer, micro_batch, exchange, exchange_setup, update;
    friend bool operator==(const FrameworkHost&, const FrameworkHost&) = default;
};

// What it can run: `sweep --vary parallelism=all` walks nothing else. Empty lists: everything.
struct FrameworkAbilities {
    bool tensor = true, sequence = true, context = true, pipeline = true, interleaved = true;
    std::vector<Schedule> schedules = {};
    std::vector<int> zero = {};
    std::vector<Recompute> recompute = {};
    friend bool operator==(const FrameworkAbilities&, const FrameworkAbilities&) = default;
};

struct Framework {
    std::string name;  // empty: none, every key is the experiment's
    std::string about;
    std::vector<std::string> may_be;         // others that it may stand for: a forecast's interval covers them
    std::optional<AttentionKind> attention;  // of models without a kind of their own
    std::optional<double> dropout;
    std::optional<bool> tied;  // false: models with learned positions do not share embedding and logits
    std::optional<Optimizer> optimizer;
    std::optional<Recompute> recompute;  // of cases that do not state it; empty: the least that fits
    std::optional<GradientType> gradients;
    std::optional<double> bucket_weights;  // of a gradient bucket; 0 = one for all
    std::optional<bool> overlap, overlap_params, overlap_p2p, overlap_weight_gradient;  // ZeRO 3 overlaps the first two
    std::optional<bool> overlap_tp;  // where the sequence is split too
    bool interleaves = false;        // cases: stages hold several chunks where that is not stated
    bool balances_stages = false;    // cases: stages of equal matrix products, the logits' among them
    std::optional<bool> fused_projections, fused_gate, gather_copies;  // torch's modules and tensors
    std::optional<bool> fused_accumulation, fused_loss, eager, unfused, recompute_stops_early, reads_loss;
    std::optional<double> eager_traffic;
    std::optional<double> shard_rate;  // ZeRO 3 over nodes: rate of a collective over the law's
    double head_share = 1;             // of the positions, those whose logits are made; 1 = as the model says
    int mean_sequence = 0;             // cases: tokens of a padded sequence in the mean; 0 = all are full
    int optimizer_groups_a_layer = 0;  // parameters of a layer that are updated one by one; 0 = fused, or an expert's two alone ..
    int optimizer_calls = 1;           // .. with so many calls each
    bool expert_graphs = false;        // on Blackwell, expert layers but their experts run as CUDA graphs
    ExpertProducts expert_products = ExpertProducts::grouped;  // fused: in narrow types on Blackwell, else each
    std::optional<bool> expert_tensor_parallel;  // wide experts are split over the tensor-parallel ranks, narrow ones never
    bool cuts_narrow_experts = false;            // .. or those too (Megatron-Core's script by its default)
    std::optional<bool> blocking_p2p;            // one chunk a stage: the host waits for every send and receive between stages
    std::optional<bool> launch_blocking;         // .. and for every kernel (CUDA_LAUNCH_BLOCKING)
    bool dispatch_once = false;                  // dropless routing sends a token once to a rank and a node
    double reserved = 1;                         // memory that its allocator holds over what tensors take
    FrameworkHost host;
    FrameworkAbilities can;
    std::optional<Fitted> fitted;

    // Of the experiment that adopted it: keys that it states itself, which the framework leaves alone ..
    std::vector<std::string> stated;
    // .. and values that the framework replaced, for when another one is named.
    struct Replaced {
        std::string key, text;
        friend bool operator==(const Replaced&, const Replaced&) = default;
    };
    std::vector<Replaced> replaced;

    friend bool operator==(const Framework&, const Framework&) = default;
};

// The framework of whoever names none.
inline constexpr std::string_view default_framework = "default";

// A file, or a preset by name. Throws ConfigError with file:line:column; of an unknown name the known ones and how to write
// one.
Framework read_framework(const std::string& path_or_preset);
// As TOML that read_framework() reads back to an equal value.
std::string write_framework(const Framework& framework);

struct Experiment;

// Sets every key that the framework decides and the experiment does not state, after giving back what it had replaced.
// Without a name, and of what is no transformer, nothing. Idempotent.
void adopt_framework(Experiment& experiment);
// Whether adopt_framework() may set the key.
bool decides(const Framework& framework, std::string_view key);
// The part of it that follows from the rest of the split, for walks over splits.
void follow_framework(const Framework& framework, Parallelism& split);

}  // namespace stepcast
