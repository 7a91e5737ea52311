// The slots of all stages of a pipeline as a graph for sim/bounds/paths.cpp: what each slot waits
// for, and which times it takes.
#pragma once

#include <utility>
#include <vector>

#include "sim/bounds/pipeline.h"

namespace stepcast {

// What a slot counts of its own, and what it counts of passes that go by turns (turns.h).
struct SlotCounts {
    FeatureCounts alone{}, turns{};
    friend bool operator==(const SlotCounts&, const SlotCounts&) = default;
};

// A pass of a chunk for one micro-batch. Slots are indices into SlotGraph::nodes; -1 means none.
// Two passes that go by turns are two nodes, each of which takes what is done of both until it
// ends.
struct SlotNode {
    int before = -1;       // the slot before it on its stage
    int source = -1;       // the slot whose result it takes
    int lane_before = -1;  // the slot whose send came before its own on the sender's lane,
    int in_before = -1;    // and on the receiver's lane
    int kind = 0;      // of two passes by turns, the next one is for when the forward comes last
    int forward = -1;  // of two passes by turns: the slot whose result the forward takes
    int chunk = 0;     // among those of all stages
    Pass pass = Pass::forward;
    bool turns = false;                  // by turns with another
    std::size_t behind = feature::none;  // which of by_turns the stage counts before it (turns.h)
    std::size_t send = feature::none;    // the feature of its send, if it sends
    int stage = 0;
    int micro_batch = 0;           // within its direction
    int position = 0;              // index in the order of its stage
    bool ends_in_experts = false;  // the last layer of its chunk has experts, and no head follows
    // a forward behind a forward of its stage, an expert layer behind one
    bool goes_on = false;
    bool fills_last = false;  // no later slot makes gradients of its chunk
    [[nodiscard]] bool sends() const { return send != feature::none; }
};

struct SlotGraph {
    std::vector<SlotNode> nodes;  // sorted: each comes after all that it waits for
    // [chunk * 4 + pass]: the features of such a slot; then those of passes by turns
    std::vector<SlotCounts> kinds;
    int shift = 0;  // micro-batches of one direction in a round
    // by stage: the range of positions in which its order repeats a round later
    std::vector<std::pair<int, int>> steady;

    [[nodiscard]] const SlotNode& node(int i) const { return nodes[at(i)]; }
    [[nodiscard]] const FeatureCounts& features(const SlotNode& node) const {
        return kinds[at(node.kind)].alone;
    }
    [[nodiscard]] double layers_of(const SlotNode& node) const {
        const FeatureCounts& f = features(node);
        return f[feature::unit(UnitKind::dense, node.pass)] +
               f[feature::unit(UnitKind::experts, node.pass)];
    }
};

// Throws std::logic_error when the orders of the schedule wait for each other.
SlotGraph slot_graph(const PipelineKey& key, const Workload& workload);

// When the slots of a pipeline end under given times, for several directions at once. With F the
// end of a slot and S the end of its send:
//   F(i) = max(F + filled or opened, of the slot before it on its stage; S + arrival, of the slot
//   whose result it takes)
//          + entry + duration, but no less than the host's time for all slots of the stage so far
// Where two passes go by turns, F(i) waits for what both take; behind the forward's result it takes
// what is then left of both, and no `entry`; hosts are not counted (turns.cpp does).
// The slot that makes the last gradients of its chunk also takes `inside_last` for all its layers
// but one, and the stage's next slot waits `after_last` longer.
//   S(i) = max(F(i), S of the sends before it on the sender's and on the receiver's lane) + send
// If sends are not overlapped, F(i) also waits for S of the slot before. Not counted: host time
// between plans, and hosts of sends.
class SlotTimes {
public:
    static constexpr std::size_t width = 8;  // directions at once
    enum Cause : std::uint8_t { from_stage, from_own_send, from_source, from_forward, from_host };

    // Both must outlive this object.
    SlotTimes(const PipelineKey& key, const SlotGraph& slots);

    void run(std::span<const TimesOfDirection> directions);  // at most `width`

    // For a node in a direction of the last run: when it ends, what decided that, and the slot
    // whose send delayed its own send (or -1).
    [[nodiscard]] double end(int i, std::size_t direction) const { return end_[at(i)][direction]; }
    [[nodiscard]] Cause cause(int i, std::size_t direction) const;
    [[nodiscard]] int send_waited_for(int i, std::size_t direction) const;
    [[nodiscard]] double host(int kind, std::size_t direction) const {
        return host_[at(kind)][direction];
    }
    // The first kind that counts the same.
    [[nodiscard]] std::size_t alike(int kind) const { return alike_[at(kind)]; }
    // The feature that the stage waits for after slot i.
    [[nodiscard]] std::size_t after(int i) const;
    // Whether slot i goes on behind the forward before it on its stage, with an expert layer at the
    // end of the one and at the beginning of the other.
    [[nodiscard]] bool turns(int i) const;
    // For how many layers a slot takes `inside_last`.
    [[nodiscard]] double filled_inside(const SlotNode& n) const {
        return n.fills_last ? slots_.layers_of(n) - 1 : 0;
    }

private:
    struct Lanes : std::array<double, width> {
        friend Lanes operator+(Lanes a, const Lanes& b) {
            for (std::size_t d = 0; d < width; ++d) a[d] += b[d];
            return a;
        }
        friend Lanes operator-(Lanes a, const Lanes& b) {
            for (std::size_t d = 0; d < width; ++d) a[d] -= b[d];
            return a;
        }
    };
    void set(std::span<const TimesOfDirection> directions);
    template <class Part, class Call>
    void each_wait(int i, const Part& part, const Call& call) const;
    [[nodiscard]] const Lanes& entry(const SlotNode& n) const;
    [[nodiscard]] double device(const SlotNode& n, std::size_t direction) const {
        return device_[at(n.kind)][direction] +
               filled_inside(n) * feature_[feature::inside_last][direction];
    }

    const PipelineKey& key_;
    const SlotGraph& slots_;
    std::array<Lanes, std::size_t{feature::none} + 1> feature_{};  // the last one stays zero
    // the same of what passes by turns count
    std::array<Lanes, std::size_t{feature::none} + 1> turns_{};
    std::vector<std::size_t> alike_;    // by kind: the first that counts the same
    std::vector<Lanes> device_, host_;  // by kind
    std::vector<Lanes> end_, sent_;     // by node
};

}  // namespace stepcast
