// Draws one experiment per seed from all keys that a transformer's step depends on; a seed gives
// the same one on every machine.
#pragma once

#include <sstream>

#include "measured/read.h"
#include "model/base/errors.h"
#include "tests/random_experiments.h"

namespace stepcast::drawn_experiments {

// Entries are KEY=VALUE|VALUE..; draw_keys() skips an entry that the drawn split does not allow.
inline const std::vector<std::string> workload_keys{"heads=8",
                                                    "kv_heads=2",
                                                    "head_dim=32",
                                                    "gated=true",
                                                    "tied=true",
                                                    "max_positions=512",
                                                    "positions=rotary|none",
                                                    "window=32",
                                                    "window_share=0.5",
                                                    "mtp_layers=1",
                                                    "norm=rmsnorm",
                                                    "attention=flash|flash2|triton",
                                                    "causal=false",
                                                    "linear_bias=false",
                                                    "qkv_bias=false",
                                                    "dropout=0.1",
                                                    "inner_dropout=true",
                                                    "activation=gelu_steps|relu",
                                                    "head=span",
                                                    "head_share=0.15",
                                                    "dtype=fp32|tf32|fp16|fp8",
                                                    "optimizer=none|sgd|lamb",
                                                    "fused_loss=false",
                                                    "loss_pieces=4",
                                                    "loss_in_forward=false",
                                                    "fused_projections=false",
                                                    "fused_gate=true",
                                                    "row_scales=true",
                                                    "fused_optimizer=false",
                                                    "optimizer_groups=6",
                                                    "optimizer_calls=5",
                                                    "reads_loss=true",
                                                    "token_types=2",
                                                    "vocab=8000",
                                                    "seq=512",
                                                    "moe.top_k=1|3",
                                                    "moe.capacity_factor=1.25",
                                                    "moe.shared_experts=1",
                                                    "moe.ffn=128",
                                                    "moe.shared_ffn=96",
                                                    "moe.dense_layers=1",
                                                    "moe.interval=2",
                                                    "moe.groups=2",
                                                    "moe.router_bias=true"};
inline const std::vector<std::string> split_keys{
    "recompute=full|alternate|selective",
    "recompute_layers=1",
    "recompute_stops_early=true",
    "gather_copies=true",
    "overlap_weight_gradient=false",
    "context_exchange=all-gather",
    "rank_order=tp-cp-pp-dp|tp-pp-cp-dp|pp-tp-cp-dp|dp-tp-cp-pp",
    "shard=2",
    "gradient_dtype=bf16",
    "eager=true",
    "eager_traffic=3",
    "fused_accumulation=false",
    "expert_tensor_parallel=false",
    "dispatch_once=true",
    "expert_products=each|fused",
    "messages_per_tensor=2",
    "clip_per_rank=true",
    "join_tied=false",
    "bucket=50 kB",
    "zero=0|1|2|3"};
inline const std::vector<std::string> machine_keys{"launch_blocking=true",
                                                   "fabric=pcie|nvlink-pairs",
                                                   "gpu.sms=20",
                                                   "network.nics=2",
                                                   "network.rails=false",
                                                   "network.nodes_per_leaf=2",
                                                   "network.oversubscription=2",
                                                   "network.partial_ring=0.5",
                                                   "link.intra.ring_efficiency=0.8",
                                                   "link.inter.ring_efficiency=0.7",
                                                   "link.intra.pair_bandwidth=300 GB/s",
                                                   "link.intra.socket_bandwidth=20 GB/s",
                                                   "link.intra.nvls_efficiency=0.9",
                                                   "link.intra.all_to_all_efficiency=0.6",
                                                   "link.intra.dispatch_efficiency=0.5",
                                                   "link.intra.launch=7 us",
                                                   "link.inter.launch=9 us",
                                                   "link.intra.training=0.8",
                                                   "link.inter.training=0.7",
                                                   "link.intra.reduce_copy=0.2",
                                                   "link.intra.gather_copy=0.1",
                                                   "link.intra.pipelining=0.3",
                                                   "link.intra.exchange_launch=4 us",
                                                   "link.intra.exchange_copy=0.15",
                                                   "link.intra.low_latency.efficiency=0.3",
                                                   "link.intra.low_latency.launch=3 us",
                                                   "link.intra.low_latency.latency=1 us",
                                                   "link.intra.low_latency_128.efficiency=0.6",
                                                   "link.intra.low_latency_128.launch=4 us",
                                                   "link.intra.exchange.efficiency=0.4",
                                                   "link.intra.exchange.launch=2 us",
                                                   "link.inter.exchange.latency=1 us",
                                                   "link.inter.all_to_all_efficiency=0.7",
                                                   "kernel.launch=2 us",
                                                   "kernel.gemm_efficiency=0.8",
                                                   "kernel.gemm_k0=100",
                                                   "kernel.gemm_tile_reuse=0.5",
                                                   "kernel.gemm_wave_loss=0.5",
                                                   "kernel.gemm_traffic_efficiency=0.7",
                                                   "kernel.gemm_nn=0.9",
                                                   "kernel.gemm_tn=0.8",
                                                   "kernel.batched_gemm=0.7",
                                                   "kernel.gemm_accumulate=0.9",
                                                   "kernel.grouped_gemm=0.8",
                                                   "kernel.memory_efficiency=0.85",
                                                   "kernel.transpose_efficiency=0.4",
                                                   "kernel.row_efficiency=0.6",
                                                   "kernel.strided_efficiency=0.5",
                                                   "kernel.cache=1 MB",
                                                   "kernel.cache_gain=2",
                                                   "kernel.training_gemm=0.9",
                                                   "kernel.attention_efficiency=0.6",
                                                   "kernel.attention_backward=0.8",
                                                   "kernel.attention_v2=0.7",
                                                   "kernel.attention_triton=0.6",
                                                   "kernel.attention_ramp=500",
                                                   "kernel.attention_launch=3 us",
                                                   "kernel.optimizer_efficiency=0.7",
                                                   "host.call=6 us",
                                                   "host.framework=20 us",
                                                   "host.layer=50 us",
                                                   "host.micro_batch=30 us",
                                                   "host.exchange=9 us",
                                                   "host.update=40 us",
                                                   "host.message=15 us",
                                                   "host.input=200 us",
                                                   "host.load=1.5",
                                                   "interference.compute_slowdown=0.3",
                                                   "interference.communication_slowdown=0.4",
                                                   "interference.shared_links=true",
                                                   "overheads.context=1 GB",
                                                   "overheads.fragmentation=0.1",
                                                   "noise.op=0.05",
                                                   "noise.step=0.02",
                                                   "noise.host=0.1",
                                                   "noise.straggler_rate=0.1"};
// Keys that the closed forms do not cover.
inline const std::vector<std::string> uncovered_split_keys{"unfused=true",
                                                           "eager_script=true",
                                                           "overlap_experts=true",
                                                           "messages_per_tuple=1",
                                                           "resend_first_stage=true",
                                                           "gradient_tensors=2",
                                                           "blocking_p2p=true",
                                                           "cut=modules"};
inline const std::vector<std::string> uncovered_workload_keys{"adapter_rank=8", "mamba.heads=8",
                                                              "mamba.attention=0.25"};
// legal only after other keys are set
inline const std::vector<std::string> late_keys{"autocast=true", "dtype=fp8", "row_scales=true"};
inline const std::vector<std::string> routing_keys{"kind=zipf|power-law|random-gate", "skew=0.5|2",
                                                   "draws=3", "seed=7"};

// Sets about one in `n` of these keys to one of its values and appends the settings that it made to
// `taken` as text.
inline void draw_keys(graphs::RandomSource& random, const std::string& table,
                      const std::vector<std::string>& keys, int n, Experiment& e,
                      std::string& taken) {
    for (const std::string& text : keys) {
        const std::size_t equal = text.find('=');
        std::vector<std::string> values;
        std::istringstream choices(text.substr(equal + 1));
        for (std::string choice; std::getline(choices, choice, '|');) values.push_back(choice);
        const std::string value =
            values[static_cast<std::size_t>(random.below(static_cast<int>(values.size())))];
        if (!random.one_in(n)) continue;
        Experiment changed = e;
        try {
            set_key(changed, {table + "." + text.substr(0, equal), value});
            check_experiment(changed);
        } catch (const ConfigError&) {  // not legal for this experiment
            continue;
        }
        e = changed;
        taken += " " + text.substr(0, equal) + "=" + value;
    }
}

// `taken`: the drawn settings as text.
inline Experiment draw(std::uint64_t seed, std::string& taken) {
    Experiment e = random_experiment(seed);
    graphs::RandomSource random(1000 + seed);
    if (random.one_in(10)) {
        e.cluster.nodes = e.cluster.gpus_per_node = 1;
        e.parallelism = {.global_batch = e.parallelism.micro_batch};
        e.runtime = {.kernels = KernelStyle::script};
        taken = " one rank, eager";
    }
    if (!random.one_in(3)) e.cluster.host = no_host_costs();
    draw_keys(random, "workload", workload_keys, 8, e, taken);
    draw_keys(random, "parallelism", split_keys, 12, e, taken);
    if (random.one_in(3)) {
        draw_keys(random, "workload", uncovered_workload_keys, 4, e, taken);
        draw_keys(random, "parallelism", uncovered_split_keys, 4, e, taken);
    }
    draw_keys(random, "workload", late_keys, 2, e, taken);
    draw_keys(random, "cluster", machine_keys, 6, e, taken);
    if (e.workload.moe.experts > 0) draw_keys(random, "routing", routing_keys, 3, e, taken);
    return e;
}

}  // namespace stepcast::drawn_experiments
