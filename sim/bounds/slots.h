// The slots of all stages of a pipeline as a graph: who waits for whom, and which times each takes. For
// sim/bounds/paths.cpp.
#pragma once

#include <utility>
#include <vector>

#include "sim/bounds/pipeline.h"

namespace stepcast {

// A pass of a chunk for one micro-batch. Slots are numbered as SlotGraph holds them; -1: there is none.
struct SlotNode {
    int before = -1;       // the slot before it on its stage
    int source = -1;       // the slot whose result it takes
    int lane_before = -1;  // of its send: the slot that sent before it on the sender's lane,
    int in_before = -1;    // and on the receiver's
    int kind = 0;
    std::size_t send = feature::none;  // what its send takes, if it sends
    int stage = 0;
    int micro_batch = 0;      // of its direction
    int position = 0;         // in the order of its stage
    bool fills_last = false;  // the last to make gradients of its chunk
    [[nodiscard]] bool sends() const { return send != feature::none; }
    [[nodiscard]] Pass pass() const { return static_cast<Pass>(kind % 4); }
};

struct SlotGraph {
    std::vector<SlotNode> nodes;              // each after all that it waits for
    std::vector<Features> kinds;              // [(stage * chunks + chunk) * 4 + pass]: what is in such a slot
    int shift = 0;                            // micro-batches of a round, of one direction
    std::vector<std::pair<int, int>> steady;  // by stage: positions at which its order is the same a round later

    [[nodiscard]] const SlotNode& node(int i) const { return nodes[at(i)]; }
    [[nodiscard]] const Features& features(const SlotNode& node) const { return kinds[at(node.kind)]; }
    [[nodiscard]] double layers_of(const SlotNode& node) const {
        const Features& f = features(node);
        return f[feature::unit(UnitKind::dense, node.pass())] + f[feature::unit(UnitKind::experts, node.pass())];
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
    // What its stage waits for after a slot.
    [[nodiscard]] std::size_t after(int i) const;

private:
    using Lanes = std::array<double, width>;
    void set(std::span<const Features> directions);
    template <class Call>
    void each_wait(const SlotNode& n, const Call& call) const;
    [[nodiscard]] const Lanes& entry(const SlotNode& n) const;

    const PipelineKey& key_;
    const SlotGraph& slots_;
    std::array<Lanes, std::size_t{feature::none} + 1> feature_{};  // the last is zero
    std::vector<Lanes> device_, host_;                             // by kind
    std::vector<Lanes> end_, sent_;                                // by node
};

}  // namespace stepcast
