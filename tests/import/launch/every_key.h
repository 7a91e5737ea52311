// Experiments of each kind, and other values for any key, so that laws of all keys need no list of
// keys.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "import/launch/emit.h"
#include "import/launch/lost_keys.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/input/check_experiment.h"
#include "model/input/keys.h"
#include "sim/memory/memory_use.h"
#include "sim/predict.h"

namespace stepcast::every_key {

inline constexpr EmitFormat formats[] = {
    EmitFormat::megatron,   EmitFormat::megatron_bridge,  EmitFormat::nemo,
    EmitFormat::torchtitan, EmitFormat::torchtitan_flags, EmitFormat::deepspeed};

inline Experiment experiment_with(std::vector<Override> keys) {
    std::vector<Override> all{{"cluster.preset", "dgx-h100"}, {"cluster.nodes", "2"},
                              {"workload.layers", "4"},       {"workload.hidden", "1024"},
                              {"workload.ffn", "2048"},       {"workload.heads", "16"},
                              {"workload.vocab", "32000"},    {"workload.seq", "2048"},
                              {"workload.dtype", "bf16"},     {"workload.optimizer", "adam"}};
    all.insert(all.end(), keys.begin(), keys.end());
    return read_experiment("llama3-8b", all);
}

// Legal in one format or several: dense layers and experts, each with and without a pipeline, and
// ways to share the states out.
inline std::vector<Experiment> bases() {
    const std::vector<Override> experts{
        {"workload.moe.experts", "8"}, {"workload.moe.top_k", "2"}, {"parallelism.ep", "4"}};
    const auto with_experts = [&](std::vector<Override> keys) {
        keys.insert(keys.end(), experts.begin(), experts.end());
        return experiment_with(keys);
    };
    const Override tp{"parallelism.tp", "2"}, split{"parallelism.sequence_parallel", "true"},
        pp{"parallelism.pp", "2"};
    const Override cp{"parallelism.cp", "2"}, gathered{"runtime.context_exchange", "all-gather"};
    const auto dp = [](const char* n) { return Override{"parallelism.dp", n}; };
    const auto zero = [](const char* n) { return Override{"parallelism.zero", n}; };
    const auto batch = [](const char* n) { return Override{"parallelism.global_batch", n}; };
    return {
        experiment_with({tp, split, pp, dp("4"), zero("1"), batch("32")}),
        experiment_with({dp("16"),
                         zero("3"),
                         batch("64"),
                         {"workload.dropout", "0.1"},
                         {"workload.positions", "learned"},
                         {"workload.gated", "false"}}),
        experiment_with({tp,
                         split,
                         cp,
                         gathered,
                         dp("4"),
                         zero("3"),
                         {"parallelism.recompute", "full"},
                         {"workload.dtype", "fp8"}}),
        experiment_with({pp,
                         dp("8"),
                         batch("64"),
                         {"parallelism.vp", "2"},
                         {"runtime.kernels", "eager"},
                         {"workload.window", "512"},
                         {"workload.window_share", "0.75"}}),
        with_experts({tp, split, pp, dp("4"), zero("1"), batch("32")}),
        with_experts({pp, dp("8"), zero("0"), batch("64"), {"framework.preset", "megatron-core"}}),
        with_experts({dp("16"), zero("2"), {"framework.preset", "deepspeed"}}),
        experiment_with({dp("16"),
                         zero("3"),
                         {"framework.preset", "deepspeed"},
                         {"run.offload_optimizer", "true"}}),
        experiment_with({dp("16"),
                         zero("1"),
                         {"framework.preset", "megatron-lm"},
                         {"run.cuda_graph", "true"},
                         {"workload.tied", "true"}}),
        with_experts({dp("16"),
                      zero("1"),
                      {"framework.preset", "megatron-bridge"},
                      {"workload.mla.q_rank", "256"},
                      {"workload.mla.kv_rank", "128"},
                      {"workload.mla.nope_dim", "64"},
                      {"workload.mla.rope_dim", "32"},
                      {"workload.mla.value_dim", "64"},
                      {"workload.moe.dense_layers", "1"},
                      {"workload.moe.shared_experts", "1"},
                      {"workload.moe.ffn", "512"},
                      {"workload.moe.groups", "4"},
                      {"workload.moe.top_groups", "2"},
                      {"workload.mtp_layers", "1"}}),
        experiment_with({pp,
                         {"parallelism.stage_layers", "[1, 3]"},
                         dp("8"),
                         batch("64"),
                         {"workload.causal", "false"},
                         {"workload.positions", "learned"},
                         {"workload.norm", "layernorm"},
                         {"workload.linear_bias", "true"},
                         {"workload.qkv_bias", "true"},
                         {"workload.gated", "false"},
                         {"runtime.attention", "plain"},
                         {"workload.kv_heads", "16"},
                         {"workload.dropout", "0.1"}})};
}

// Values that fit keys of any kind; set_key() refuses the others.
inline std::vector<std::string> values_for(const Key& key) {
    std::vector<std::string> values{"true",
                                    "false",
                                    "0",
                                    "1",
                                    "2",
                                    "3",
                                    "4",
                                    "8",
                                    "16",
                                    "64",
                                    "100",
                                    "4096",
                                    "0.5",
                                    "0.15",
                                    "1.25",
                                    "0.75",
                                    "7 us",
                                    "3 ms",
                                    "1 MB",
                                    "300 MB",
                                    "[2, 2]",
                                    "[1, 3]",
                                    "[1, 1, 1, 1]",
                                    "[2, 2, 2, 2]",
                                    "[\"norms\"]",
                                    "[\"norms\", \"loss\"]",
                                    "[core_attn, mlp, moe]",
                                    "[layernorm, moe_act, mla_up_proj]",
                                    "tp-cp-pp-dp",
                                    "flash",
                                    "flash2",
                                    "plain",
                                    "adam",
                                    "sgd",
                                    "lamb",
                                    "training",
                                    "bf16",
                                    "fp16",
                                    "full",
                                    "none"};  // of optional names
    if (key.path == "workload.adapter_modules") values = {"[query, up]", "[value, output, gate]"};
    for (const std::string_view name : key.type->names) values.emplace_back(name);
    return values;
}

// What the forecast says, to the digit.
inline std::pair<double, Bytes> forecast(const Experiment& e) {
    std::vector<double> steps;
    for (const Seconds step : steps_of_draws(e)) steps.push_back(step.si());
    return {middle_of(steps), fullest_memory(e).peak};
}

// Replicas fill the ranks where a key of the split or of the machine changes how many there are.
inline void keep_ranks(Experiment& e, std::string_view key) {
    Parallelism& p = e.parallelism;
    const int split = p.tp * p.pp * p.cp;
    if (key == "parallelism.dp")
        e.cluster.nodes = std::max(1, p.dp * split / e.cluster.gpus_per_node);
    for (const std::string_view counts : {"parallelism.tp", "parallelism.pp", "parallelism.cp",
                                          "cluster.nodes", "cluster.gpus_per_node"})
        if (key == counts) p.dp = rank_count(e.cluster) / split;
}

// Sets the key in a copy, unless the text is no value of its type: such are remembered, as each is
// tried for every experiment.
inline bool takes(const Experiment& base, const Key& key, const std::string& value,
                  Experiment& into) {
    static std::set<std::pair<std::string_view, std::string>> refused;
    if (refused.contains({key.path, value})) return false;
    into = base;
    try {
        set_key(into, {std::string(key.path), value});
        return true;
    } catch (const ConfigError&) {
        refused.insert({key.path, value});
        return false;
    }
}

// The experiment with another value of the key, if that is legal and another value.
inline bool changed(const Experiment& base, const Key& key, const std::string& value,
                    Experiment& into) {
    if (!takes(base, key, value, into) || text_of(key, into) == text_of(key, base)) return false;
    try {
        keep_ranks(into, key.path);
        check_experiment(into);
    } catch (const ConfigError&) {
        return false;
    }
    constexpr int most = 64;  // so that a forecast takes little time
    return into.workload.layers <= most && micro_batches(into.parallelism) <= most;
}

// Of the machine only how many ranks it has and whether the host waits: the rest is no part of a
// script.
inline bool concerns_scripts(const Key& key) {
    if (is_preset(key) || key.type->row_keys) return false;
    return !key.path.starts_with("cluster.") || key.path == "cluster.nodes" ||
           key.path == "cluster.gpus_per_node" || key.path == "cluster.launch_blocking";
}

}  // namespace stepcast::every_key
