// The tensors of training steps on one stage, as allocations and frees in the order in which a host
// issues them: two steps, so that the states of the optimizer, which the first update makes, are
// there beside the activations of the second.
#pragma once

#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/routing.h"
#include "sim/memory/allocator.h"
#include "sim/results/allocator_forecast.h"

namespace stepcast {

struct StepTensor {
    std::int64_t bytes = 0;
    std::int32_t what = 0;  // index into Lifetimes::names
    std::int32_t micro_batch = -1;
    std::int16_t layer = -1, step = -1;  // step 0 or 1; -1: made before
    TensorKind kind = TensorKind::work;
    Phase phase = Phase::between;  // that makes it; between: none
};

struct Lifetimes {
    std::vector<AllocatorEvent> events;
    std::vector<StepTensor> tensors;  // by id
    std::vector<std::string> names;   // of operators
    // events before each slot of the second step, and before its update
    std::vector<std::size_t> slots;
};

// Whether a step has all micro-batches, or as many as it takes to repeat.
enum class MicroBatches : std::uint8_t { until_they_repeat, all };

// `stage` of the pipeline. Throws std::logic_error for another kind of workload than transformers.
Lifetimes lifetimes_of(const Experiment& experiment, const Routing& routing, int stage,
                       MicroBatches micro_batches = MicroBatches::until_they_repeat);

}  // namespace stepcast
