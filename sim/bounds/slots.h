// The slots of all stages of a pipeline as a graph: who waits for whom, and which times each takes. For
// sim/bounds/paths.cpp.
#pragma once

#include <utility>
#include <vector>

#include "sim/bounds/pipeline.h"

namespace stepcast {

struct SlotNode {
    int before = -1;       // slot before it on the stage
    int source = -1;       // slot that it waits for
    int lane_before = -1;  // slot whose send was the one before on the sender's lane,
    int in_before = -1;    // on the receiver's
    int kind = 0;          // of its features
    int send = -1;         // feature of its send, if any
    int stage = 0;
    int micro_batch = 0;      // of its direction
    int position = 0;         // in the order of its stage
    bool fills_last = false;  // the last to make gradients of its chunk
};

struct SlotGraph {
    std::vector<SlotNode> nodes;              // each after all that it waits for
    std::vector<Features> kinds;              // [(stage * chunks + chunk) * 4 + pass]
    std::vector<int> layers;                  // [stage * chunks + chunk]
    int shift = 0;                            // micro-batches of a round, of one direction
    std::vector<std::pair<int, int>> steady;  // by stage: positions at which its order is the same a round later

    [[nodiscard]] static Pass pass_of(const SlotNode& node) { return static_cast<Pass>(node.kind % 4); }
    [[nodiscard]] const Features& features(const SlotNode& node) const {
        return kinds[static_cast<std::size_t>(node.kind)];
    }
    [[nodiscard]] int layers_of(const SlotNode& node) const { return layers[static_cast<std::size_t>(node.kind / 4)]; }
    [[nodiscard]] bool is_steady(const SlotNode& node) const {
        const auto [begin, end] = steady[static_cast<std::size_t>(node.stage)];
        return node.position >= begin && node.position < end;
    }
};

// std::logic_error when the orders of the schedule wait for each other.
SlotGraph slot_graph(const PipelineKey& key, const Workload& workload);

}  // namespace stepcast
