// Memory of a rank as PyTorch's allocator sees it, as plain values (sim/memory/allocator_forecast.h
// fills them).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/base/names.h"
#include "model/base/units.h"
#include "model/graph/task_graph.h"

namespace stepcast {

NAMED_ENUM(TensorKind, "a kind of tensor", weights, gradients, optimizer, activations, logits, work,
           gathered, exchanged, workspaces);

// When a tensor is made: by which operator, in which pass.
struct TensorMoment {
    std::string what;              // operator
    Phase phase = Phase::between;  // between: before the first step
    int step = -1;                 // the first is 0
    int micro_batch = -1;          // -1: of no one
    int layer = -1;                // -1: of no one
    friend bool operator==(const TensorMoment&, const TensorMoment&) = default;
};

struct AllocatorForecast {
    struct OfKind {
        TensorKind kind = TensorKind::weights;
        Bytes bytes;
        friend bool operator==(const OfKind&, const OfKind&) = default;
    };
    struct OfLayer {
        int layer = -1;  // -1: the ends of the model, and what is of no layer
        Bytes lasting, activations, work;
        friend bool operator==(const OfLayer&, const OfLayer&) = default;
    };
    struct Level {
        Bytes allocated, reserved;
        friend bool operator==(const Level&, const Level&) = default;
    };
    struct Failure {
        TensorMoment moment;
        Bytes asked;  // by the tensor
        Bytes allocated, reserved;
        friend bool operator==(const Failure&, const Failure&) = default;
    };
    // What the process holds beside the allocator: "context", or what NCCL's buffers are for.
    struct OfProcess {
        std::string what;
        Bytes bytes;
        friend bool operator==(const OfProcess&, const OfProcess&) = default;
    };
    // Another setting, and what the peak of reserved memory is with it.
    struct Remedy {
        std::string key, value;
        Bytes reserved;
        bool fits = true;
        friend bool operator==(const Remedy&, const Remedy&) = default;
    };

    int stage = 0;              // the one that reserves most
    Bytes allocated, reserved;  // peaks of two steps with as much memory as they want
    TensorMoment fullest;       // whose tensor makes the peak of `allocated`
    std::vector<OfKind> kinds;  // that live then
    std::vector<OfLayer> layers;
    std::vector<Level> stages;
    Bytes capacity, context;         // of the device; what its context takes. 0 = not known
    std::vector<OfProcess> process;  // parts of `context`, unless the cluster states the whole
    std::optional<Failure> failure;  // of the fullest stage in that capacity
    // Whether it fits hangs on the driver's waiting for the device before it gives memory.
    bool hangs_on_driver = false;
    std::size_t retries = 0;       // cached memory that was given back to meet a request
    std::vector<Remedy> remedies;  // if it fails or is close to it; least reserved first
    std::vector<Level> over_time;  // both steps in equal numbers of requests; highest of each
    friend bool operator==(const AllocatorForecast&, const AllocatorForecast&) = default;
};

}  // namespace stepcast
