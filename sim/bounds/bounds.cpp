// lower <= the event engine, because both follow the same graph and
// - every path through the slots that find_pipeline() found is a chain of tasks of it, each waiting for the one before:
//   plans follow each other on a stage, a slot waits for the send of the one that it continues, sends of a lane go one by
//   one, and hosts issue in order; a round that repeats is a chunk of such a path that comes back to where it began, some
//   micro-batches later, where the orders of all stages are the same again;
// - tasks take no less than alone and uncontended, in either engine: times there are sums and maxima (a rate below one only
//   lengthens), so that nothing ends earlier when something else takes longer;
// - what kernels lose during collectives follows from how much of both a rank does between two moments, and from collectives that
//   are in flight from a known moment on (sim/bounds/least.cpp); links that collectives share only keep them longer in flight;
// - after the slots, the last bucket holds no less than the last unit, and norm, update and what joins stages follow one
//   after the other; all collectives of a stage's data lane go one by one.
#include "sim/bounds/bounds.h"

#include "model/step.h"
#include "model/transformer/counts.h"
#include "sim/bounds/tables.h"

namespace stepcast {

bool StepBounds::cover(const Experiment& e) {
    const Parallelism& p = e.parallelism;
    return e.workload.kind == Workload::Kind::transformer && e.workload.adapter_rank == 0 &&
           e.workload.mamba.heads == 0 && p.cut == StageCut::layers && !p.blocking_p2p && !p.overlap_experts && !p.resend_first_stage &&
           p.messages_per_tuple == 0 && p.gradient_tensors == 0 && !p.unfused && !p.eager_script &&
           p.moe_system == MoeSystem::alltoall && e.cluster.gpu.rank_rates.empty();
}

std::shared_ptr<FoundPipelines> no_pipelines_yet() { return std::make_shared<FoundPipelines>(); }

StepBounds::StepBounds(const Experiment& base, std::shared_ptr<FoundPipelines> pipelines)
    : tables_(std::make_unique<Tables>(base, std::move(pipelines))) {}
StepBounds::StepBounds(const StepBounds& other, int draw)
    : tables_(std::make_unique<Tables>(other.tables_->base(), other.tables_->pipelines(), draw)) {}
StepBounds::~StepBounds() = default;
StepBounds::StepBounds(StepBounds&&) noexcept = default;

StepBound StepBounds::operator()(const Parallelism& p) { return tables_->bound(p); }

}  // namespace stepcast
