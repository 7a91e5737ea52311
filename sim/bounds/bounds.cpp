#include "sim/bounds/bounds.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "model/base/numbers.h"
#include "model/step.h"
#include "model/transformer/chunks.h"
#include "model/transformer/counts.h"
#include "model/transformer/schedule.h"
#include "model/transformer/stages.h"
#include "sim/bounds/chains.h"
#include "sim/bounds/directions.h"
#include "sim/bounds/turns.h"
#include "sim/memory/memory_use.h"
#include "sim/memory/process_memory.h"

namespace stepcast {

bool StepBounds::cover(const Experiment& e) {
    const Parallelism& p = e.parallelism;
    const StageMessages& m = e.runtime.pipeline;
    return e.workload.kind == Workload::Kind::transformer && e.workload.adapter_rank == 0 &&
           e.workload.reference == Reference::none && e.workload.mamba.heads == 0 &&
           e.workload.delta.value_heads == 0 && p.cut == StageCut::layers && !m.blocking &&
           !m.resend_first_stage && m.messages_per_tuple == 0 && m.gradient_tensors == 0 &&
           !is_written_out(e) && p.moe_system == MoeSystem::alltoall &&
           e.cluster.gpu.rank_rates.empty();
}

const FeatureTimes& FoundPipelines::reference() {
    std::call_once(priced_, [&] {
        Experiment e = base_;
        set_plan(e, {});
        OpPrices prices(e.cluster);
        BoundShape shape = bound_shape(e, {});
        add_times(shape, e, prices);
        reference_ = shape.estimate;
    });
    return reference_;
}

const std::vector<GroupPaths>& FoundPipelines::Entry::paths(const PipelineKey& key,
                                                            FoundPipelines& all) {
    std::call_once(searched_, [&] {
        const Workload& workload = all.base_.workload;
        paths_ = find_paths(key, workload, found_.groups,
                            search_directions(key, workload, all.reference()));
    });
    return paths_;
}

StepBounds::StepBounds(const Experiment& base, std::shared_ptr<FoundPipelines> pipelines, int draw)
    : base_(base),
      draw_(draw),
      now_(base),
      shaped_(base),
      prices_(base_.cluster),
      data_(prices_),
      pipelines_(pipelines ? std::move(pipelines) : std::make_shared<FoundPipelines>(base)) {
    if (base.workload.kind != Workload::Kind::transformer)
        throw std::logic_error("StepBounds: the workload is no transformer");
}

void StepBounds::bind(const ParallelPlan& plan) {
    const ParallelPlan before = plan_of(now_);
    set_plan(now_, plan);
    const SplitOfBase last{before, base_.runtime.gradients}, here{plan, base_.runtime.gradients};
    const bool fresh = shape_ == nullptr;
    const bool ranks = fresh || changes<Affects::ranks>(last, here);
    const bool shape = fresh || changes<Affects::shape>(last, here);
    if (ranks) bind_groups();
    if (shape) bind_shape();
    if (ranks || shape)
        context_.emplace(LayerContext{now_, shape_->shape, groups_, shape_->routing});
    const bool pipeline = ranks || changes<Affects::pipeline>(last, here);
    if (pipeline) bind_pipeline();
    if (shape || pipeline) bind_units();
    const bool passing = units_.passing[at(UnitKind::head)] > Bytes(0);
    if (shape || pipeline || (passing && changes<Affects::data>(last, here))) bind_memory();
    const bool times = pipeline || shape || changes<Affects::sends>(last, here);
    const bool data = times || changes<Affects::data>(last, here);
    stale_.ends |= pipeline;
    stale_.paths |= pipeline;
    stale_.sends |= times;
    stale_.data |= data;
    stale_.gradients |= data || changes<Affects::overlap>(last, here);
}

void StepBounds::bind_times() {
    bind_ends();
    if (stale_.paths) bind_paths();
    if (stale_.sends) bind_sends();
    if (stale_.sends) bind_slots();
    if (stale_.gradients) bind_least_paths();
    stale_ = {false, false, false, false, false};
    bind_lower_ends();
    estimate_ends();
}

Experiment& StepBounds::shaped() {
    set_plan(shaped_, plan_of(now_));
    return shaped_;
}

void StepBounds::bind_groups() {
    groups_ = rank_groups(now_);
    data_.bind(groups_);
    norm_all_reduce_ =
        base_.workload.optimizer == Optimizer::none || base_.runtime.gradients.clip_per_rank
            ? 0
            : all_reduce(Bytes(8), Group{as_int(ranks_of_all(now_.parallelism)), 1});
}

void StepBounds::bind_shape() {
    const auto [known, is_new] =
        shapes_.try_emplace(shape_key({plan_of(now_), now_.runtime.gradients}));
    if (is_new) known->second = bound_shape(shaped(), routing_of(now_, draw_));
    shape_ = &known->second;
}

void StepBounds::bind_pipeline() {
    key_ = pipeline_key(now_, groups_);
    rounds_ = rounds_of(now_.parallelism);
    FoundPipelines::Entry*& entry = met_[key_];
    if (!entry) entry = &pipelines_->find(key_);
    entry_ = entry;
    pipeline_ = &entry->pipeline(key_, base_.workload);
}

void StepBounds::bind_units() {
    units_ = shape_->units;
    if (ends_apart(now_.parallelism)) units_.weights[at(UnitKind::head)] = shape_->copied_head;
}

void StepBounds::bind_ends() {
    if (stale_.ends) {
        ends_.resize(pipeline_->groups.size());
        for (std::size_t g = 0; g < ends_.size(); ++g) ends_[g].group = &pipeline_->groups[g];
    }
    if (stale_.data) bind_data();
    stale_.ends = stale_.data = false;
}

void StepBounds::bind_paths() {
    const std::vector<GroupPaths>& found = entry_->paths(key_, *pipelines_);
    for (std::size_t g = 0; g < ends_.size(); ++g) {
        GroupEnd& end = ends_[g];
        end.usual_paths = found[g].paths.size();
        end.paths.resize(end.usual_paths + found[g].sharded.size());
        std::size_t i = 0;
        for (const auto* paths : {&found[g].paths, &found[g].sharded})
            for (const PipelinePath& path : *paths) {
                RunPath& run = end.paths[i++];
                run.by_host = path.by_host;
                run.through_pairs = path.through_pairs;
                const double rounds = rounds_.count;
                for (std::size_t f = 0; f < feature::count; ++f)
                    run.meets[f] = path.once[f] + rounds * path.round[f];
                for (std::size_t f = 0; key_.overlap_experts && f < feature::count; ++f)
                    run.turns[f] = path.turns_once[f] + rounds * path.turns_round[f];
            }
    }
}

void StepBounds::bind_slots() {
    for (GroupEnd& end : ends_)
        for (RunPath& path : end.paths) {
            path.lower = settled_length(path.meets, lower_);
            path.estimate = settled_length(path.meets, estimate_);
            if (!key_.overlap_experts) continue;
            const bool known = shape_->turns.alternates || !path.through_pairs;
            const double turns = known ? length_by_turns(path.turns, shape_->turns)
                                       : -std::numeric_limits<double>::infinity();
            path.lower += turns;
            path.estimate += turns;
        }
    bind_least_collectives();
    estimate_slots();
}

// dualpipe: a stage and its mirror stage sum the gradients of the copies of the model that they
// hold.
double StepBounds::copy_join(int stage, const DataTimes& data) {
    const Parallelism& p = now_.parallelism;
    if (stepcast::directions(p) == 1) return 0;
    return all_reduce(data.elements * size_of(gradient_type(now_)),
                      between_stages(*context_, stage, p.pp - 1 - stage));
}

void StepBounds::bind_data() {
    const DataInputs in{*context_, units_.weights, key_.chunks};
    for (GroupEnd& end : ends_) {
        const StageGroup& group = *end.group;
        LowerEnd& lower = end.lower;
        EstimatedEnd& estimate = end.estimate;
        estimate.data = data_.times(in, group.most);
        lower.data = group.fewest == group.most ? estimate.data : data_.times(in, group.fewest);
        lower.join = copy_join(group.stages.front(), lower.data);
        estimate.join = copy_join(group.stages.front(), estimate.data);
    }
}

bool StepBounds::gathers_last() const {
    const int zero = now_.parallelism.zero;
    return (zero == 1 || zero == 2) && !now_.runtime.exchanges.parameters;
}

// Each stage at its fullest moment.
void StepBounds::bind_memory() {
    const std::size_t kinds = pipeline_->kinds.size(), held = pipeline_->held;
    held_.resize(2 * kinds);  // of a chunk, in the order of MemoryMoment
    running_.resize(4 * kinds);
    for (std::size_t k = 0; k < kinds; ++k) {
        const ChunkMemory chunk = chunk_memory(units_, now_, pipeline_->kinds[k]);
        held_[k] = chunk.kept.si();
        held_[kinds + k] = chunk.put_off.si();
        running_[2 * kinds + k] = chunk.whole;
        running_[3 * kinds + k] = chunk.half;
    }
    full_.clear();
    for (const MemoryStage& stage : pipeline_->memory) {
        Activations fullest;
        const double* counts = stage.held.data();
        for (const int runs : stage.runs) {
            Activations now = runs < 0 ? Activations{} : running_[at(runs)];
            double kept = 0;
            for (std::size_t i = 0; i < held; ++i) kept += counts[i] * held_[i];
            now.kept += Bytes(kept);
            counts += held;
            consider(fullest, now);
        }
        full_.push_back({weights_of(*context_, units_, stage.units), fullest});
    }
}

double StepBounds::longest_chain() const {
    double longest = 0;
    for (const StageChain& chain : pipeline_->chains)
        longest = std::max(longest, length_of(chain, rounds_.count, shape_->lower,
                                              recomputes_layers(now_.parallelism)));
    return longest;
}

StepBound StepBounds::coarse(const ParallelPlan& plan) {
    bind(plan);
    const Bytes process = process_memory(now_, groups_);
    MemoryUse fullest;
    for (const FullStage& stage : full_) {
        const MemoryUse use = memory_of(*context_, stage.weights, stage.moment, process);
        if (use.peak > fullest.peak) fullest = use;
    }
    coarse_ = {.lower = {}, .estimate = {}, .peak = fullest.peak, .fits = fullest.fits};
    if (!coarse_.fits) return coarse_;
    coarse_.tight = with_doubt(fullest, now_, process).tight;
    if (!shape_->timed) add_times(*shape_, shaped(), prices_);
    coarse_.lower = Seconds(longest_chain());
    return coarse_;
}

StepBound StepBounds::with_data() {
    StepBound bound = coarse_;
    if (!bound.fits || bound.lower == Seconds(0)) return bound;
    bind_ends();
    bound.lower = Seconds(chained_time());
    return bound;
}

StepBound StepBounds::refined() {
    StepBound bound = coarse_;
    if (!bound.fits) return bound;
    bind_times();
    bound.lower = Seconds(std::max(chained_time(), lower_time()));
    bound.estimate = std::max(Seconds(estimated_time()), bound.lower);
    return bound;
}

StepBound StepBounds::operator()(const ParallelPlan& plan) {
    coarse(plan);
    return refined();
}

}  // namespace stepcast
