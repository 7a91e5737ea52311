// Compares the breakdown of pipelines with the closed forms of their papers, schedule by schedule.
// Per stage and micro-batch a forward takes 1 s and a backward 2 s, whatever the chunks; a split
// backward takes 1 s for each half. Sends take no time.
#include <catch2/catch.hpp>

#include <map>
#include <tuple>

#include "model/transformer/schedule.h"
#include "sim/breakdown.h"
#include "tests/graphs.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

struct TheoryPipeline {
    Schedule schedule = Schedule::one_f_one_b;
    int stages = 4, micro_batches = 8, chunks = 1;
    // ranks of a stage meet in an exchange after every slot, as tensor-parallel ranks do
    int ranks_of_stage = 1;
    // first and last stage sum the shared embedding, then all ranks agree on a norm
    bool meets_at_end = false;
    Seconds issue = {};  // of every kernel
};

// Writes each stage's order as the closed forms assume: one kernel per slot and a send to the stage
// of the next chunk.
class Writer {
public:
    explicit Writer(const TheoryPipeline& p)
        : p_(p),
          graph_(p.stages * p.ranks_of_stage),
          orders_(schedule_orders(p.schedule, p.stages, p.chunks, p.micro_batches)) {}

    std::pair<TaskGraph, Costs> write() {
        std::vector<std::size_t> next(orders_.size());
        for (bool moved = true; moved;) {
            moved = false;
            for (int s = 0; s < p_.stages; ++s) {
                const Order& order = orders_[static_cast<std::size_t>(s)];
                std::size_t& at = next[static_cast<std::size_t>(s)];
                while (at < order.size() && write_slot(s, order[at])) ++at, moved = true;
            }
        }
        if (p_.meets_at_end) {
            std::vector<Place> ends, all;
            for (int r = 0; r < graph_.rank_count(); ++r) {
                all.push_back(collective(r));
                if (const int s = r / p_.ranks_of_stage; s == 0 || s == p_.stages - 1)
                    ends.push_back(collective(r));
            }
            add("embedding", Phase::gradient_sync, AllReduce{Bytes(8)}, ends, last_, 0_s);
            add("norm", Phase::optimizer, AllReduce{Bytes(8)}, all, last_, 0_s);
        }
        return {std::move(graph_), std::move(costs_)};
    }

private:
    enum What { forward, backward };
    using Key = std::tuple<What, int, int>;  // micro-batch, global chunk

    int global_chunk(int stage, const stepcast::Slot& slot) const {
        for (int g = 0; g < p_.stages * p_.chunks; ++g)
            if (stage_of(p_.schedule, p_.stages, g) == stage && g / p_.stages == slot.chunk)
                return g;
        throw std::logic_error("no such chunk");
    }

    TaskId add(std::string_view name, Phase phase, Op op, const std::vector<Place>& places,
               const std::vector<TaskId>& after, Seconds time) {
        costs_.duration.push_back(time);
        costs_.issue.push_back(is_compute(op) ? p_.issue : 0_s);
        return graph_.add(name, phase, std::move(op), places, after);
    }

    // One kernel on each rank of the stage; a send per rank carries the result to the stage whose
    // slot needs it.
    bool write_slot(int stage, const stepcast::Slot& slot) {
        const int g = global_chunk(stage, slot), end = p_.stages * p_.chunks - 1;
        const bool down = slot.pass != Pass::forward;
        std::vector<TaskId> after;
        if (slot.pass != Pass::weight_backward) {
            const int from = down ? g + 1 : g - 1;
            if (from >= 0 && from <= end) {
                const auto found = sent_.find({down ? backward : forward, slot.micro_batch, from});
                if (found == sent_.end()) return false;
                after = found->second;
            } else if (down && !sent_.contains({forward, slot.micro_batch, g}))
                return false;
        }
        const double share = (slot.pass == Pass::backward ? 2.0 : 1.0) / p_.chunks;
        std::vector<TaskId> done;
        for (int i = 0; i < p_.ranks_of_stage; ++i)
            done.push_back(add("kernel", down ? Phase::backward : Phase::forward, small_gemm(),
                               {compute(rank(stage, i))}, after, Seconds(share)));
        if (p_.ranks_of_stage > 1) {
            std::vector<Place> peers;
            for (int i = 0; i < p_.ranks_of_stage; ++i) peers.push_back(collective(rank(stage, i)));
            done = {add("peers", down ? Phase::backward : Phase::forward, AllReduce{Bytes(8)},
                        peers, done, 0_s)};
        }
        last_ = done;
        if (slot.pass == Pass::weight_backward) return true;
        const int to = down ? g - 1 : g + 1;
        const int peer_stage = to < 0 || to > end ? stage : stage_of(p_.schedule, p_.stages, to);
        // On stages 0 1 .. 1 0 half of the forwards go to the previous stage. Sends of one lane
        // are in order, and those from the two sides are not.
        const bool back_up = traits(p_.schedule).ends_meet();
        const bool low = back_up ? peer_stage < stage : down;
        std::vector<TaskId>& sent = sent_[{down ? backward : forward, slot.micro_batch, g}];
        if (peer_stage == stage)
            sent = done;
        else
            for (int i = 0; i < p_.ranks_of_stage; ++i)
                sent.push_back(
                    add("send", Phase::forward, SendRecv{Bytes(8)},
                        {Place(rank(stage, i), low ? Lane::send_down : Lane::send_up),
                         Place(rank(peer_stage, i), low ? Lane::receive_down : Lane::receive_up)},
                        done, 0_s));
        return true;
    }
    int rank(int stage, int i) const { return stage * p_.ranks_of_stage + i; }

    TheoryPipeline p_;
    TaskGraph graph_;
    Costs costs_;
    std::vector<Order> orders_;
    std::map<Key, std::vector<TaskId>> sent_;
    std::vector<TaskId> last_;
};

struct Seen {
    Seconds step;
    std::vector<Breakdown> ranks;
};

Seen seen(const TheoryPipeline& p) {
    const auto [graph, costs] = Writer(p).write();
    Timeline timeline;
    run(graph, costs, {}, timeline, Record::waits);
    Seen result{timeline.end, {}};
    for (int r = 0; r < graph.rank_count(); ++r)
        result.ranks.push_back(breakdown(graph, costs, timeline, r));
    return result;
}

// Every rank computes 3 s per micro-batch and waits `bubble` seconds for other stages.
void check_bubble(const TheoryPipeline& p, double bubble) {
    const Seen s = seen(p);
    CHECK(s.step.si() == Approx(3.0 * p.micro_batches + bubble));
    for (const Breakdown& b : s.ranks) {
        CHECK(b.compute.si() == Approx(3.0 * p.micro_batches));
        CHECK(b.bubble.si() == Approx(bubble));
        CHECK((b.imbalance + b.host + b.exposed_communication).si() == Approx(0).margin(1e-9));
    }
}

}  // namespace

// GPipe and 1F1B: (p - 1) (f + b), which is a share of (p - 1) / m of the 3 m s of work: 3 / 8 of
// 24 s = 9 s.
TEST_CASE("the bubble of GPipe and 1F1B is (p - 1) / m of the work on every rank") {
    check_bubble({.schedule = Schedule::gpipe}, 9);
    check_bubble({.schedule = Schedule::one_f_one_b}, 9);
    check_bubble({.schedule = Schedule::one_f_one_b, .stages = 8, .micro_batches = 16}, 21);
}

// Interleaved with v chunks per stage: (p - 1) / (v m) of the work: 3 / 16 of 24 s = 4.5 s,
// and 2.25 s with v = 4.
TEST_CASE("the bubble of interleaved 1F1B is (p - 1) / (v m) of the work") {
    check_bubble({.chunks = 2}, 4.5);
    check_bubble({.chunks = 4}, 2.25);
}

// ZB-H1 fills the drain with weight gradients of 1 s: (p - 1) (f + b_input - w) = 3 (1 + 1 - 1) = 3
// s, a third of 1F1B's.
TEST_CASE("the bubble of ZB-H1 is a third of that of 1F1B") {
    check_bubble({.schedule = Schedule::zb_h1}, 3);
}

// arXiv 2405.15362: with F = B = W no stage waits between its first and last slot, from 2p - 1
// micro-batches on. Stage s begins s slots of half a stage late and ends p - 1 - s slots before the
// last: (p - 1) x 0.5 s on every rank, 1.5 s of four and 3.5 s of eight.
TEST_CASE("the bubble of ZB-V is (p - 1) forwards of half a stage") {
    for (const int micro_batches : {7, 8, 20})
        check_bubble({.schedule = Schedule::zb_v, .micro_batches = micro_batches, .chunks = 2},
                     1.5);
    check_bubble({.schedule = Schedule::zb_v, .stages = 8, .micro_batches = 16, .chunks = 2}, 3.5);
}

// The last stage finishes early and waits for the first in the embedding's all-reduce; all stages
// wait for the first in the norm.
TEST_CASE("waiting for a stage is bubble also inside an exchange") {
    check_bubble({.meets_at_end = true}, 9);
    check_bubble({.schedule = Schedule::gpipe, .ranks_of_stage = 2, .meets_at_end = true}, 9);
    check_bubble({.chunks = 2, .ranks_of_stage = 2, .meets_at_end = true}, 4.5);
}

// Hosts issue a kernel in 0.1 s and run ahead of devices that take at least 1 s. Only the first
// kernel of the first stage waits for its host, so the step is 0.1 s longer. The first stage counts
// this as host time, the others as a longer wait for a stage.
TEST_CASE("hosts that work ahead while their devices wait are no cause") {
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
        const Seen s = seen({.schedule = schedule, .meets_at_end = true, .issue = 0.1_s});
        CHECK(s.step.si() == Approx(33.1));
        for (std::size_t r = 0; r < s.ranks.size(); ++r) {
            CHECK(s.ranks[r].host.si() == Approx(r == 0 ? 0.1 : 0).margin(1e-9));
            CHECK(s.ranks[r].bubble.si() == Approx(r == 0 ? 9 : 9.1));
            CHECK(s.ranks[r].imbalance.si() == Approx(0).margin(1e-9));
        }
    }
}

// Two stages, one micro-batch, kernels of 1 and 2 s; a host issues each in 4 s. Stage 0: F, issued
// at 4, runs [4, 5]. Stage 1: F, issued at 4, runs [5, 6]; B, issued at 8, runs [8, 10]. Stage 0:
// B, issued at 8, waits for stage 1: [10, 12]. Stage 0 waits [0, 4] for its host and [5, 10] for
// stage 1, because its own host was done at 8. Stage 1 waits [0, 5] for stage 0 (its host was done
// at 4), [6, 8] for its host, and [10, 12] at the end.
TEST_CASE("a slow host is a cause where it is the last to be waited for") {
    const Seen s = seen({.stages = 2, .micro_batches = 1, .issue = 4_s});
    CHECK(s.step == 12_s);
    CHECK(s.ranks[0] == Breakdown{3_s, 0_s, 0_s, 5_s, 0_s, 4_s});
    CHECK(s.ranks[1] == Breakdown{3_s, 0_s, 0_s, 7_s, 0_s, 2_s});
}
