#include "model/step.h"

#include "model/errors.h"
#include "model/mlp.h"
#include "model/moe/layer.h"

namespace stepcast {
namespace {

MoeLayer layer_of(const Experiment& e) {
    return {.ranks = rank_count(e.cluster),
            .experts = e.workload.moe.experts,
            .tokens = e.parallelism.micro_batch * e.workload.seq,
            .top_k = e.workload.moe.top_k,
            .hidden = e.workload.hidden,
            .ffn = e.workload.ffn,
            .dtype = e.workload.dtype,
            .overlap_chunks = e.parallelism.overlap_chunks};
}

void add_forward(MoeSystem system, Program& program, const MoeLayer& layer, const Routing& routing) {
    switch (system) {
        case MoeSystem::fast_moe: return add_fast_moe_forward(program, layer, routing);
        case MoeSystem::faster_moe: return add_faster_moe_forward(program, layer, routing);
        case MoeSystem::mix_moe: return add_mix_moe_forward(program, layer, routing);
        case MoeSystem::alltoall: return add_alltoall_forward(program, layer, routing);
    }
}

void add_backward(MoeSystem system, Program& program, const MoeLayer& layer, const Routing& routing) {
    switch (system) {
        case MoeSystem::fast_moe: return add_fast_moe_backward(program, layer, routing);
        case MoeSystem::faster_moe: return add_faster_moe_backward(program, layer, routing);
        case MoeSystem::mix_moe: return add_mix_moe_backward(program, layer, routing);
        case MoeSystem::alltoall: return add_alltoall_backward(program, layer, routing);
    }
}

void check_routing(const MoeLayer& layer, const Routing& routing) {
    if (routing.ranks != layer.ranks || routing.experts != layer.experts)
        throw ConfigError("routing: holds " + std::to_string(routing.ranks) + " ranks and " +
                          std::to_string(routing.experts) + " experts; expected " + std::to_string(layer.ranks) +
                          " ranks and " + std::to_string(layer.experts) + " experts");
}

}  // namespace

Routing routing_of(const Experiment& e, int draw) {
    if (e.workload.kind == Workload::Kind::mlp) return {};
    const MoeLayer layer = layer_of(e);
    Routing routing = make_routing(e.routing, layer.ranks, layer.experts, layer.tokens, layer.top_k, draw);
    check_routing(layer, routing);
    return routing;
}

TaskGraph build_step(const Experiment& e, const Routing& routing) {
    if (e.workload.kind == Workload::Kind::mlp) return build_mlp_step(e);
    const MoeLayer layer = layer_of(e);
    check_routing(layer, routing);
    TaskGraph graph(layer.ranks, e.cluster.launch_blocking);
    Program program(graph);
    for (int micro_batch = 0; micro_batch < micro_batches(e.parallelism); ++micro_batch) {
        for (int l = 0; l < e.workload.layers; ++l) add_forward(e.parallelism.moe_system, program, layer, routing);
        for (int l = 0; l < e.workload.layers; ++l) add_backward(e.parallelism.moe_system, program, layer, routing);
    }
    return graph;
}

}  // namespace stepcast
