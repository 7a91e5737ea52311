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

// When the slots of a pipeline end under given times, for several directions side by side: with F a slot's end and S
// the end of its send,
//   F(i) = max(F + filled or opened, or S of the slot before it on its stage, S of the slot it waits for + arrival)
//          + entry + duration, but no less than the host's time for all slots of the stage so far
//   S(i) = max(F(i), S of the sends before it on the sender's and on the receiver's lane) + send
// S before F where sends are not overlapped. Leaves out what hosts spend between plans and the sends' own hosts.
class SlotTimes {
public:
    static constexpr std::size_t width = 8;  // directions at once
    enum Cause : std::uint8_t { from_stage, from_own_send, from_source, from_host };

    // Both must outlive this.
    SlotTimes(const PipelineKey& key, const SlotGraph& slots)
        : key_(key), slots_(slots), end_(slots.nodes.size()), sent_(slots.nodes.size()) {}

    void run(std::span<const Features> directions);  // at most `width`

    // Of a node under a direction of the last run: its end, what decided it, the slot whose send its own waited for (or
    // -1).
    [[nodiscard]] double end(int i, std::size_t direction) const { return end_[at(i)][direction]; }
    [[nodiscard]] Cause cause(int i, std::size_t direction) const;
    [[nodiscard]] int send_waited_for(int i, std::size_t direction) const;
    [[nodiscard]] double host(int kind, std::size_t direction) const { return host_[at(kind)][direction]; }
    // What its stage waits for after a slot, if anything: a feature, or device_end.
    [[nodiscard]] std::size_t after(int i) const {
        const Pass pass = SlotGraph::pass_of(node(i));
        if (pass == Pass::forward) return feature::opened;
        if (pass == Pass::input_backward) return at(feature::device_end);
        return slots_.features(node(i))[feature::filling_single] > 0 ? feature::filled_single : feature::filled;
    }

private:
    using Lanes = std::array<double, width>;
    void set(std::span<const Features> directions);
    void run_slot(const SlotNode& n, Lanes& end, Lanes& hosts) const;
    void run_send(const SlotNode& n, const Lanes& end, Lanes& sent) const;
    [[nodiscard]] const SlotNode& node(int i) const { return slots_.nodes[at(i)]; }
    [[nodiscard]] bool sends(int i) const { return node(i).send >= 0; }
    // When the stage goes on after a slot.
    [[nodiscard]] bool leaves_by_send(int i) const { return !key_.overlap_p2p && sends(i); }

    const PipelineKey& key_;
    const SlotGraph& slots_;
    std::array<Lanes, std::size_t{feature::device_end} + 1> feature_{};  // and a zero after them
    std::vector<Lanes> device_, host_;                                   // by kind
    std::vector<Lanes> end_, sent_;                                      // by node
};

}  // namespace stepcast
