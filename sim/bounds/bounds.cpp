// lower <= the event engine, because both follow the same graph:
// - Each path that find_pipeline() found is a chain of tasks of the graph, in which each waits for
// the one before. Plans of a stage run
//   one after another, a slot waits for the send of the slot that it continues, sends of a lane go
//   one by one, and hosts issue in order. A round that repeats is a part of such a path that
//   returns to its start some micro-batches later, where all stages' orders are the same again.
// - No task is faster than alone and uncontended, in either engine. Times are sums and maxima (a
// rate below one only lengthens them), so
//   nothing ends earlier when something else takes longer.
// - sim/bounds/least.cpp derives what kernels lose during collectives from how much of both a rank
// runs between two moments, and from
//   collectives in flight from a known moment on. Links that collectives share only keep them
//   longer in flight.
// - After the slots, the last bucket holds at least the last unit. Norm, update and collectives
// that join stages run one after another,
//   and all collectives of a stage's data lane go one by one.
#include "sim/bounds/bounds.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "model/block/linear.h"
#include "model/step.h"
#include "model/transformer/chunks.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

// The values that cached tables depend on, of those that vary in a base: where ranks are, the shape
// of a rank's share, which pipeline runs, and what it sends.
auto ranks_of(const Parallelism& p) {
    return std::tie(p.tp, p.cp, p.dp, p.pp, p.ep, p.shard, p.rank_order);
}
// Full recompute is counted apart from the shape, so it shares a shape with no recompute.
int of_shape(Recompute recompute) {
    return recompute == Recompute::full ? 0 : static_cast<int>(recompute);
}
auto shape_of(const ParallelPlan& plan, const Gradients& gradients) {
    const auto& [p, x] = plan;
    const bool accumulates = !gradients.fused_accumulation && micro_batches(p) != 1;
    return std::tuple(p.tp, p.cp, p.ep, p.micro_batch, p.sequence_parallel, of_shape(p.recompute),
                      overlaps_tensor(x, p), x.weight_gradient,
                      accumulates ? accumulated_shards(p) : 0);
}
auto pipeline_of(const ParallelPlan& plan) {
    const auto& [p, x] = plan;
    return std::tie(p.schedule, p.pp, p.vp, p.recompute, p.recompute_layers, x.sends,
                    p.stage_layers, p.layout);
}

constexpr const char* default_order = "tp-cp-dp-pp";

}  // namespace

bool StepBounds::cover(const Experiment& e) {
    const Parallelism& p = e.parallelism;
    const StageMessages& m = e.runtime.pipeline;
    return e.workload.kind == Workload::Kind::transformer && e.workload.adapter_rank == 0 &&
           e.workload.mamba.heads == 0 && e.workload.delta.value_heads == 0 &&
           p.cut == StageCut::layers && !m.blocking && !p.overlap_experts &&
           !m.resend_first_stage && m.messages_per_tuple == 0 && m.gradient_tensors == 0 &&
           !is_written_out(e) && p.moe_system == MoeSystem::alltoall &&
           e.cluster.gpu.rank_rates.empty();
}

StepBounds::StepBounds(const Experiment& base, std::shared_ptr<FoundPipelines> pipelines, int draw)
    : base_(base),
      draw_(draw),
      now_(base),
      prices_(base_.cluster),
      data_(prices_),
      pipelines_(std::move(pipelines)) {
    if (base.workload.kind != Workload::Kind::transformer)
        throw std::logic_error("StepBounds: the workload is no transformer");
    Experiment one = base_;
    set_plan(one, {});
    reference_ = bound_shape(one, {}, prices_).estimate;
}

// With another rank order, the groups of a shape depend on all sizes.
StepBounds::ShapeKey StepBounds::shape_key(const ParallelPlan& plan) const {
    const Parallelism& p = plan.parallelism;
    const bool usual = p.rank_order == default_order;
    const auto numbers = [&](auto... part) {
        return std::array{static_cast<double>(part)..., usual ? 0.0 : p.dp, usual ? 0.0 : p.pp};
    };
    return {std::apply(numbers, shape_of(plan, base_.runtime.gradients)),
            usual ? std::string() : p.rank_order};
}

PipelineKey StepBounds::pipeline_key(const ParallelPlan& plan) const {
    const Parallelism& p = plan.parallelism;
    PipelineKey key{.schedule = p.schedule,
                    .pp = p.pp,
                    .chunks = chunks_per_stage(p),
                    .micro_batches = rounds_of(p.schedule, p.pp, micro_batches(p)).least,
                    .recompute_layers = recomputes_layers(p) ? p.recompute_layers : 0,
                    .overlap_p2p = plan.exchanges.sends,
                    .node = base_.cluster.gpus_per_node,
                    .stride = groups_.pipeline_neighbour.stride,
                    .stage_layers = p.layout == StageLayout::even
                                        ? p.stage_layers
                                        : chunk_layers(base_.workload, p)};
    int near = 0;
    for (int s = 0; s + 1 < p.pp; ++s) near += near_link(key, s);
    if (near == 0 || near == p.pp - 1) key.node = key.stride = 0;
    return key;
}

namespace {

// How much each part weighs in one of the directions below.
struct Weighed {
    double send = 0, again = 0, host = 0, backward = 1, weights = 1;
};

// Scales the times `f`. `layer` and `chunk` are their forward times. Sends are relative to a chunk;
// near sends, if any, are cheaper.
Features weighed(Features f, double layer, double chunk, bool all_far, const Weighed& by) {
    for (const UnitKind k : layer_kinds) {
        f[feature::again(k)] *= by.again;
        for (const Pass pass : all_passes) {
            f[feature::host(k, pass)] = by.host * layer * (pass == Pass::weight_backward ? 0.5 : 1);
            if (pass != Pass::forward) f[feature::unit(k, pass)] *= by.backward;
        }
        f[feature::unit(k, Pass::weight_backward)] *= by.weights;
        f[feature::host_again(k)] = by.again * by.host * layer;
    }
    f[feature::send_far] = f[feature::send_wrap] = by.send * chunk;
    f[feature::send_near] = (all_far ? 1 : 0.1) * by.send * chunk;
    return f;
}

}  // namespace

// Times of the workload's own layers on one rank, in which sends, recompute, backwards or hosts
// weigh more or less.
Directions StepBounds::directions(const PipelineKey& key) const {
    Directions found;
    const int chunks = model_chunks(key.schedule, key.pp, key.chunks);
    const UnitKind kind = has_experts(base_.workload, base_.workload.layers - 1) ? UnitKind::experts
                                                                                 : UnitKind::dense;
    const double layer = reference_[feature::unit(kind, Pass::forward)];
    const double chunk = layer * std::max(1.0, static_cast<double>(base_.workload.layers) / chunks);
    const auto of = [&](const Weighed& by) {
        return weighed(reference_, layer, chunk, key.node == 0, by);
    };
    const auto add = [&](const Weighed& by) { found.times.push_back(of(by)); };
    if (key.pp == 1) {
        for (const double host : {0.0, 1.3, 10.0}) add({.host = host});
        found.sharded = found.times.size();
        return found;
    }
    for (const double again : {0.0, 1.0})
        for (const double send : {0.0, 0.03, 0.15, 0.6, 2.5}) add({send, again});
    for (const double send : {0.05, 0.3}) add({.send = send, .backward = 0.6});
    if (traits(key.schedule).chunks == StageChunks::there_and_back)
        for (const double send : {0.02, 0.3})
            for (const double inputs : {0.6, 1.0, 1.5, 2.2})
                for (const double weights : {0.6, 1.0, 1.4})
                    for (const double again : {0.0, 1.0}) add({send, again, 0, inputs, weights});
    for (const double host : {1.3, 10.0}) add({.send = 0.03, .host = host});
    // zero 3: collectives of a layer of several lengths, and the waits that they cause.
    found.sharded = found.times.size();
    ParallelPlan sharded{parallelism_of(key), {}};
    sharded.parallelism.zero = 3;
    UnitCounts units{};
    units[at(kind)] = 1;
    for (const double gather : {0.5, 1.0, 2.5})
        for (const double scatter : {0.0, 1.5})
            for (const Weighed& by : {Weighed{0.03, 0}, {0.03, 1}, {0.3, 0}}) {
                const Features plain = of(by);
                DataTimes data;
                data.gathered.fill(gather * layer);
                data.exchanged.fill(gather * scatter * layer);
                found.times.push_back(with_sharding(plain, plain, sharded, data, units, 0.25));
            }
    return found;
}

void StepBounds::bind(const ParallelPlan& plan) {
    const ParallelPlan before = plan_of(now_);
    set_plan(now_, plan);
    const auto& [p, x] = plan;
    const auto& [last, last_x] = before;
    const Gradients& gradients = base_.runtime.gradients;
    const bool fresh = shape_ == nullptr;
    const bool ranks = fresh || ranks_of(p) != ranks_of(last);
    const bool shape = fresh || shape_of(plan, gradients) != shape_of(before, gradients) ||
                       p.rank_order != last.rank_order ||
                       // the same condition as in shape_key()
                       (ranks && p.rank_order != default_order);
    if (ranks) bind_groups();
    if (shape) bind_shape();
    if (ranks || shape)
        context_.emplace(LayerContext{now_, shape_->shape, groups_, shape_->routing});
    const bool pipeline = ranks || micro_batches(p) != micro_batches(last) ||
                          pipeline_of(plan) != pipeline_of(before);
    if (pipeline) bind_pipeline();
    const bool times = pipeline || shape || x.scatter_sends != last_x.scatter_sends;
    if (times) bind_sends();
    if (shape || pipeline) bind_memory();
    if (times) bind_slots();
    const bool data = times || p.zero != last.zero;
    if (data) bind_data();
    if (data || x.gradients != last_x.gradients) bind_least();
    bind_ends();
}

void StepBounds::bind_groups() {
    const Parallelism& p = now_.parallelism;
    groups_ = rank_groups(now_);
    data_.bind(groups_);
    const int everybody = p.dp * p.tp * p.pp * p.cp;
    norm_all_reduce_ =
        base_.workload.optimizer == Optimizer::none || base_.runtime.gradients.clip_per_rank
            ? 0
            : all_reduce(Bytes(8), Group{everybody, 1});
}

void StepBounds::bind_shape() {
    const auto [known, is_new] = shapes_.try_emplace(shape_key(plan_of(now_)));
    if (is_new) known->second = bound_shape(now_, routing_of(now_, draw_), prices_);
    shape_ = &known->second;
}

void StepBounds::bind_pipeline() {
    const Parallelism& p = now_.parallelism;
    key_ = pipeline_key(plan_of(now_));
    rounds_ = rounds_of(p.schedule, p.pp, micro_batches(p));
    const Pipeline*& entry = met_[key_];
    if (!entry)
        entry = &pipelines_->find(
            key_, [&] { return find_pipeline(key_, base_.workload, directions(key_)); });
    pipeline_ = entry;
    ends_.resize(pipeline_->groups.size());
    for (std::size_t g = 0; g < ends_.size(); ++g) {
        GroupEnd& end = ends_[g];
        end.group = &pipeline_->groups[g];
        end.paths.clear();
        for (const auto* paths : {&end.group->paths, &end.group->sharded_paths})
            for (const PipelinePath& path : *paths) {
                Features& meets = end.paths.emplace_back(RunPath{path.once, path.by_host}).meets;
                const double rounds = rounds_.count;
                for (std::size_t f = 0; rounds > 0 && f < meets.size(); ++f)
                    meets[f] += rounds * path.round[f];
            }
    }
}

// Each stage at its fullest moment.
void StepBounds::bind_memory() {
    const std::size_t kinds = pipeline_->kinds.size();
    std::vector<Activations> of(4 * kinds);  // in the order of MemoryMoment
    for (std::size_t k = 0; k < kinds; ++k) {
        const ChunkMemory chunk = chunk_memory(units_, now_, pipeline_->kinds[k]);
        of[k].kept = chunk.kept;
        of[kinds + k].kept = chunk.put_off;
        of[2 * kinds + k] = chunk.whole;
        of[3 * kinds + k] = chunk.half;
    }
    full_.clear();
    for (const MemoryStage& stage : pipeline_->memory) {
        Activations fullest;
        for (const MemoryMoment& moment : stage.moments) {
            Activations now;
            for (std::size_t i = 0; i < of.size(); ++i) {
                now.kept += moment[i] * of[i].kept;
                now.work += moment[i] * of[i].work;
            }
            consider(fullest, now);
        }
        full_.push_back({weights_of(*context_, units_, stage.units), fullest});
    }
}

StepBound StepBounds::operator()(const ParallelPlan& plan) {
    bind(plan);
    StepBound bound;
    time(bound);
    for (const FullStage& stage : full_) {
        const MemoryUse use = memory_of(*context_, stage.weights, stage.moment);
        if (use.peak <= bound.peak) continue;
        bound.peak = use.peak;
        bound.fits = use.fits;
        bound.tight = use.tight;
    }
    return bound;
}

}  // namespace stepcast
