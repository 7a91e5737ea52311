#include "model/transformer/joins.h"

#include <algorithm>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/recorded/moe/layer.h"
#include "model/transformer/counts.h"
#include "model/transformer/stages.h"

namespace stepcast {
namespace {

int all_ranks(const Parallelism& p) { return p.pp * ranks_of_stage(p); }

// Adds one all-reduce per rank of the stages, or if `group` contains all ranks, a single one over
// all.
struct Join {
    std::string_view name;
    Bytes bytes;
    Group group;
    Phase phase = Phase::gradient_sync;
};
void across(TaskGraph& graph, const LayerContext& c, const Stages& stages,
            const std::vector<std::size_t>& of, const Join& join) {
    const bool everybody = join.group.size() == all_ranks(c.experiment.parallelism);
    NewTask task = graph.task_of(join.name, join.phase, AllReduce{join.bytes});
    task.group = graph.add_group(join.group);
    const std::size_t ranks = stages.front()->stage.size();
    const std::size_t at_once = everybody ? ranks : 1;
    TasksByRank done(ranks);
    for (std::size_t r = 0; r < ranks; r += at_once) {
        std::vector<Place> places;
        std::vector<TaskId> after;
        for (const std::size_t s : of)
            for (std::size_t i = r; i < r + at_once; ++i) {
                places.emplace_back(stages[s]->stage.graph_rank(i), Lane::collective);
                if (const TaskId last = stages[s]->stage.last()[i]; last != no_task)
                    after.push_back(last);
            }
        std::fill_n(&done[r], at_once, graph.add(task, places, after));
    }
    for (const std::size_t s : of) stages[s]->stage.follow(done);
}

// Automatic casting casts the weights of a rank's experts once per step, and their gradients back.
void add_weight_casts(Program& program, const LayerContext& c, Phase phase) {
    const Workload& w = c.experiment.workload;
    if (!c.experiment.runtime.autocast) return;
    const double weights =
        expert_parameters(w) * (real(w.moe.experts) / c.experiment.parallelism.ep);
    const Bytes narrow = weights * size_of(w.dtype), wide = weights * size_of(Dtype::fp32);
    program.on_each("cast", phase,
                    phase == Phase::forward ? MemoryPass{wide, narrow} : MemoryPass{narrow, wide});
}

}  // namespace

void join_copies(TaskGraph& graph, const LayerContext& c, const Stages& stages) {
    const Parallelism& p = c.experiment.parallelism;
    for (int s = 0; directions(p) == 2 && s < p.pp / 2; ++s) {
        const int mirror = p.pp - 1 - s;
        const double elements = stages[as_index(s)]->data.updated();
        const Group group = between_stages(c, s, mirror);
        across(graph, c, stages, {as_index(s), as_index(mirror)},
               {"copy_all_reduce", elements * size_of(trained_gradients(c.experiment)), group});
    }
}

void join_embeddings(TaskGraph& graph, const LayerContext& c, const Stages& stages,
                     const Path& path) {
    const Parallelism& p = c.experiment.parallelism;
    const int first = path.front().stage, last = path.back().stage;
    const Workload& w = c.experiment.workload;
    if (!w.tied || w.adapter_rank > 0 || !c.experiment.runtime.gradients.join_tied || p.pp == 1 ||
        first == last)
        return;
    const Bytes bytes =
        real(c.shape.vocab) * real(c.shape.hidden) * size_of(gradient_type(c.experiment));
    across(graph, c, stages, {as_index(first), as_index(last)},
           {"embedding_all_reduce", bytes, c.groups.embedding});
}

void update_weights(TaskGraph& graph, const LayerContext& c, const Stages& stages) {
    const int everybody = all_ranks(c.experiment.parallelism);
    for (const auto& state : stages) state->data.add_norm();
    std::vector<std::size_t> all;
    for (const std::size_t s : indices_of(stages)) all.push_back(s);
    if (everybody > 1 && !c.experiment.runtime.gradients.clip_per_rank)
        across(graph, c, stages, all,
               {"norm_all_reduce", Bytes(8), Group{everybody, 1}, Phase::optimizer});
    for (const auto& state : stages) state->data.add_optimizer();
}

// Inserts the MoE systems of model/moe into a transformer's step: plans end where a system's layer
// begins, the system writes its tasks on all ranks, and plans continue after them. Needs all ranks
// unfolded: one stage, expert-parallel over the data-parallel ranks.
void add_system_experts(TaskGraph& graph, Stage& stage, const LayerContext& c, int index,
                        Phase phase) {
    Program program(graph, stage.last());
    add_weight_casts(program, c, phase);
    const Routing routing = routing_of_layer(c.routing, as_index(index));
    traits(c.experiment.parallelism.moe_system)
        .add(program, moe_layer_of(c.experiment), routing, phase);
    stage.resume(program.last());
}

}  // namespace stepcast
