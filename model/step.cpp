#include "model/step.h"

#include <cmath>
#include <random>

#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/recorded/coca/step.h"
#include "model/recorded/mlp.h"
#include "model/recorded/moe/layer.h"
#include "model/recorded/script/steps.h"
#include "model/runtime_rules.h"
#include "model/transformer/counts.h"
#include "model/transformer/rank_shape.h"
#include "model/transformer/step.h"

namespace stepcast {
namespace {

void check_routing(const MoeLayer& layer, const Routing& routing) {
    if (routing.ranks != layer.ranks || routing.experts != layer.experts)
        refuse("routing: holds {} ranks and {} experts; expected {} ranks and {} experts",
               routing.ranks, routing.experts, layer.ranks, layer.experts);
}

// A routing file must fit this experiment. Counts: tokens x top_k slots of every source rank. Block
// totals: at least that many rows over all ranks, and at most one partial block more per source and
// expert.
void check_slots(const MoeLayer& layer, const Routing& routing, const std::string& file) {
    const long slots = static_cast<long>(layer.tokens) * layer.top_k;
    for (int r = 0; r < routing.ranks && !routing.counts.empty(); ++r) {
        long found = 0;
        for (int e = 0; e < routing.experts; ++e) found += routing.count(r, e);
        if (found != slots)
            refuse("routing.file: {}: source {} has {} slots; expected tokens x top_k = {}", file,
                   r, found, slots);
    }
    if (routing.totals.empty()) return;
    long blocks = 0;
    for (const BlockTotals& t : routing.totals) blocks += t.blocks;
    const long least = (slots * layer.ranks + 63) / 64,
               most = least + static_cast<long>(layer.ranks) * layer.experts;
    if (blocks < least || blocks > most)
        refuse(
            "routing.file: {}: holds {} blocks of 64 rows; expected {} to {} for tokens x top_k = "
            "{} slots of each rank",
            file, blocks, least, most, slots);
}

// How skewed a run's gates are is not known beforehand, so each draw draws one skew for all layers.
RoutingSpec drawn_skew(RoutingSpec spec, int draw) {
    if (spec.skew_spread == 0) return spec;
    std::seed_seq sequence{static_cast<std::uint32_t>(spec.seed), static_cast<std::uint32_t>(draw),
                           0x736bU};
    std::mt19937_64 random(sequence);
    std::normal_distribution<double> normal;
    spec.skew *= std::exp(spec.skew_spread * normal(random));
    return spec;
}

// The routing of one expert-parallel group. Balanced routing needs no counts.
Routing transformer_routing(const Experiment& e, int draw) {
    // MoE systems write a layer expert by expert
    const bool system = e.parallelism.moe_system != MoeSystem::alltoall;
    if (e.workload.moe.experts == 0 || (e.routing.kind == RoutingSpec::Kind::uniform && !system))
        return {};
    const Parallelism& p = e.parallelism;
    const auto tokens = as_int(rank_shape(e).routed_tokens);
    const RoutingSpec spec = system ? drawn_skew(e.routing, draw) : e.routing;
    const auto draw_gate = [&](int index) {
        return make_routing(spec, {p.ep, e.workload.moe.experts, tokens, e.workload.moe.top_k},
                            index);
    };
    if (!system || e.routing.kind == RoutingSpec::Kind::file) return draw_gate(draw);
    // Each layer has its own gate.
    int layers = 0;
    for (int l = 0; l < e.workload.layers; ++l) layers += has_experts(e.workload, l) ? 1 : 0;
    Routing routing = draw_gate(draw * layers);
    for (int i = 1; i < layers; ++i) routing.further.push_back(draw_gate(draw * layers + i).counts);
    return routing;
}

TaskGraph write_step(const Experiment& e, const Routing& routing, Folding folding) {
    if (e.workload.kind == Workload::Kind::mlp) return build_mlp_step(e);
    if (e.workload.kind == Workload::Kind::coca) return build_coca_step(e, folding);
    if (e.workload.kind == Workload::Kind::transformer)
        return runs_script(e) ? build_eager_transformer_step(e)
                              : build_transformer_step(e, routing, folding);
    const MoeLayer layer = moe_layer_of(e);
    check_routing(layer, routing);
    if (runs_script(e)) return build_eager_moe_step(e, routing);
    TaskGraph graph(layer.ranks, e.cluster.launch_blocking);
    Program program(graph);
    for (int micro_batch = 0; micro_batch < micro_batches(e.parallelism); ++micro_batch)
        for (const Phase phase : {Phase::forward, Phase::backward})
            for (int l = 0; l < e.workload.layers; ++l)
                traits(e.parallelism.moe_system).add(program, layer, routing, phase);
    return graph;
}

// The number of tasks grows linearly with the micro-batches, so two small steps suffice to predict
// a large one.
void check_size(const Experiment& e, const Routing& routing, Folding folding) {
    constexpr double surely_small = 5e5;  // layers times micro-batches
    const Parallelism& p = e.parallelism;
    const int all = micro_batches(p), few = 2 * p.pp;
    if (all <= 2 * few || real(all) * e.workload.layers < surely_small) return;
    const auto tasks = [&](int count) {
        Experiment part = e;
        part.parallelism.global_batch = count * p.dp * p.micro_batch;
        return real(write_step(part, routing, folding).size());
    };
    const double first = tasks(few), each = (tasks(2 * few) - first) / few,
                 needed = first + each * (all - few);
    if (needed > real(most_tasks))
        refuse(
            "parallelism.global_batch: {} micro-batches are a step of {:.0f} tasks; expected at "
            "most {}: a larger micro_batch, or more "
            "replicas",
            all, needed, most_tasks);
}

}  // namespace

Routing routing_of(const Experiment& e, int draw) {
    if (e.workload.kind == Workload::Kind::mlp || e.workload.kind == Workload::Kind::coca)
        return {};
    if (e.workload.kind == Workload::Kind::transformer) return transformer_routing(e, draw);
    const MoeLayer layer = moe_layer_of(e);
    Routing routing =
        make_routing(e.routing, {layer.ranks, layer.experts, layer.tokens, layer.top_k}, draw);
    check_routing(layer, routing);
    if (e.routing.kind == RoutingSpec::Kind::file) check_slots(layer, routing, e.routing.file);
    return routing;
}

TaskGraph build_step(const Experiment& e, const Routing& routing, Folding folding) {
    check_size(e, routing, folding);
    return write_step(e, routing, folding);
}

}  // namespace stepcast
