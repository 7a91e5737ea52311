// Cross rules between keys, one function each. A complaint begins with the key that it is about.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "model/errors.h"
#include "model/experiment.h"
#include "model/key_values.h"
#include "model/keys.h"
#include "model/pipeline/schedule.h"

namespace stepcast {
namespace {

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
    throw ConfigError(fmt::format(text, std::forward<Args>(args)...));
}

void check_required(const Experiment& e) {
    for (const auto& key : all_keys())
        if (is_missing(key, e)) refuse("{}: missing; expected {}", key.path, key.meaning);
}

void check_rank_count(const Experiment& e) {
    const auto& p = e.parallelism;
    const auto asked = static_cast<long>(p.dp) * p.tp * p.pp * p.cp;
    const auto there = static_cast<long>(e.cluster.nodes) * e.cluster.gpus_per_node;
    if (asked != there)
        refuse("parallelism: pipeline {} x data {} x tensor {} x context {} = {} ranks, but cluster has {}", p.pp, p.dp,
               p.tp, p.cp, asked, there);
}

void check_expert_group(const Experiment& e) {
    const auto& p = e.parallelism;
    const auto group = static_cast<long>(p.dp) * p.cp * (p.expert_tensor_parallel ? 1 : p.tp);
    if (group % p.ep != 0)
        refuse("parallelism.ep: {} does not divide dp x cp{} = {}", p.ep, p.expert_tensor_parallel ? "" : " x tp",
               group);
}

void check_experts(const Experiment& e) {
    const auto& moe = e.workload.moe;
    if (e.workload.kind == Workload::Kind::mlp) {
        if (moe.experts != 0)
            refuse("workload.moe.experts: {}, but workload.kind mlp is dense; expected 0", moe.experts);
        if (e.parallelism.ep != 1)
            refuse("parallelism.ep: {}, but workload.kind mlp has no experts; expected 1", e.parallelism.ep);
        return;
    }
    if (e.workload.kind == Workload::Kind::transformer && moe.experts == 0) {
        if (e.parallelism.ep != 1)
            refuse("parallelism.ep: {}, but workload.moe.experts is 0; expected 1", e.parallelism.ep);
        return;
    }
    if (moe.experts < 1) refuse("workload.moe.experts: missing; expected the experts of a layer over all ranks");
    if (moe.experts % e.parallelism.ep != 0)
        refuse("workload.moe.experts: {} cannot be spread over parallelism.ep = {} ranks; expected a multiple",
               moe.experts, e.parallelism.ep);
    if (moe.top_k > moe.experts)
        refuse("workload.moe.top_k: {} is above the {} experts that there are", moe.top_k, moe.experts);
}

void check_batch(const Experiment& e) {
    const auto& p = e.parallelism;
    const auto once = static_cast<long>(p.dp) * p.micro_batch;
    if (p.global_batch % once != 0)
        refuse("parallelism.global_batch: {} is no multiple of dp x micro_batch = {}", p.global_batch, once);
}

// Ints count tokens and slots downstream.
void check_tokens(const Experiment& e) {
    const auto slots = static_cast<double>(e.parallelism.micro_batch) * e.workload.seq * e.workload.moe.top_k;
    if (slots > 1e9)
        refuse("parallelism.micro_batch: {} x seq {} x top_k {} is above 1e9 slots on a rank",
               e.parallelism.micro_batch, e.workload.seq, e.workload.moe.top_k);
}

void check_modelled(const Experiment& e) {
    if (e.workload.kind == Workload::Kind::transformer) return;
    const auto kind = to_string(e.workload.kind);
    const auto& p = e.parallelism;
    const auto only = [&](std::string_view key, auto found, auto expected) {
        if (found != expected)
            refuse("{}: {}, but workload.kind {} does not model it; expected {}", key, value_text(found), kind,
                   value_text(expected));
    };
    only("parallelism.tp", p.tp, 1);
    only("parallelism.pp", p.pp, 1);
    only("parallelism.vp", p.vp, 1);
    only("parallelism.cp", p.cp, 1);
    only("parallelism.sequence_parallel", p.sequence_parallel, false);
    only("parallelism.zero", p.zero, 0);
    only("parallelism.recompute", p.recompute, Recompute::none);
    only("workload.moe.capacity_factor", e.workload.moe.capacity_factor, 0.0);
    only("workload.moe.shared_experts", e.workload.moe.shared_experts, 0);
    only("parallelism.messages_per_tensor", p.messages_per_tensor, 1);
    if (e.workload.kind == Workload::Kind::moe_layer) only("workload.optimizer", e.workload.optimizer, Optimizer::none);
}

void check_moe_system(const Experiment& e) {
    const auto& p = e.parallelism;
    if (e.workload.kind != Workload::Kind::moe_layer) return;
    if (p.ep != rank_count(e.cluster))
        refuse("parallelism.ep: {}, but {} spreads its experts over all {} ranks", p.ep, to_string(p.moe_system),
               rank_count(e.cluster));
    if (p.moe_system != MoeSystem::alltoall && p.overlap_chunks != 1)
        refuse("parallelism.overlap_chunks: {}, but {} has no overlapping pieces; expected 1", p.overlap_chunks,
               to_string(p.moe_system));
}

void check_pipeline(const Experiment& e) {
    if (e.workload.kind != Workload::Kind::transformer) return;
    const auto& p = e.parallelism;
    const int vp = pieces_per_stage(p), pieces = model_pieces(p.schedule, p.pp, vp), layers = e.workload.layers;
    check_schedule(p.schedule, p.pp, vp, micro_batches(p));
    if (p.stage_layers.empty()) {
        if (layers < pieces)
            refuse("parallelism.pp: makes {} pieces of {} layers; expected at least a layer in each", pieces, layers);
        return;
    }
    if (std::ssize(p.stage_layers) != pieces)
        refuse("parallelism.stage_layers: {} entries, but {} stages make {} pieces of the model; expected one for each",
               p.stage_layers.size(), p.pp, pieces);
    if (std::ranges::any_of(p.stage_layers, [](int n) { return n < 0; }))
        refuse("parallelism.stage_layers: {}; expected no negative entry", value_text(p.stage_layers));
    const int sum = std::accumulate(p.stage_layers.begin(), p.stage_layers.end(), 0);
    if (sum != layers) refuse("parallelism.stage_layers: {} layers in all, but workload.layers is {}", sum, layers);
}

void check_links(const Experiment& e) {
    const auto& c = e.cluster;
    if (c.gpus_per_node > 1 && !(c.intra.bandwidth > BytesPerSecond(0)))
        refuse("cluster.link.intra.bandwidth: missing; a node has {} ranks", c.gpus_per_node);
    if (c.nodes > 1 && !(c.inter.bandwidth > BytesPerSecond(0)))
        refuse("cluster.link.inter.bandwidth: missing; there are {} nodes", c.nodes);
}

void check_peak(const Experiment& e) { (void)peak(e.cluster.gpu, e.workload.dtype); }

void check_routing_file(const Experiment& e) {
    if (e.routing.kind != RoutingSpec::Kind::file) return;
    if (e.routing.file.empty()) refuse("routing.file: missing; routing.kind is file");
    const auto routing = read_routing(e.routing.file);
    if (routing.experts != e.workload.moe.experts)
        refuse("workload.moe.experts: {}, but routing file {} has {} experts", e.workload.moe.experts, e.routing.file,
               routing.experts);
    if (routing.ranks != rank_count(e.cluster))
        refuse("routing.file: {} has {} ranks, but cluster has {}", e.routing.file, routing.ranks,
               rank_count(e.cluster));
}

}  // namespace

void check_experiment(const Experiment& experiment) {
    check_required(experiment);
    check_modelled(experiment);
    check_rank_count(experiment);
    check_routing_file(experiment);
    check_expert_group(experiment);
    check_experts(experiment);
    check_batch(experiment);
    check_tokens(experiment);
    check_moe_system(experiment);
    check_pipeline(experiment);
    check_links(experiment);
    check_peak(experiment);
}

}  // namespace stepcast
