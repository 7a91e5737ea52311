// The event engine for many runs over one graph. It finds once what depends on the graph alone, and
// allocates nothing in later runs.
#pragma once

#include <array>

#include "model/base/numbers.h"
#include "sim/engine/event_tree.h"
#include "sim/engine/link_shares.h"
#include "sim/engine/simulate.h"

namespace stepcast {

// The tasks that touch a rank, in id order: its host issues them one after another.
struct HostQueue {
    std::uint32_t next = 0, end = 0;
};

// Which tasks wait for which others, as far as the graph alone decides it.
struct EventStructure {
    // If hosts can hold up tasks (needs_hosts()), every task waits for the host of each of its
    // ranks.
    bool with_hosts = false;
    // per task, the number of: predecessors, places with an earlier task, hosts
    std::vector<std::uint32_t> waits;
    std::vector<std::uint32_t> successor_begin;  // CSR
    std::vector<TaskId> successors;
    std::vector<TaskId> next_on_place;  // per (task, place): next task of that place
    std::vector<HostQueue> hosts;       // per rank, into host_tasks
    std::vector<TaskId> host_tasks;
};

// An event is the end of a task, or the start of a task that only waited for its issue; it belongs
// to the task's first place. At each instant the engine first ends all that ends, then starts what
// became ready, and then settles the rates of what overlaps. So equal times need no order of their
// own. When a rate changes, the event of its task moves.
class EventEngine {
public:
    explicit EventEngine(const TaskGraph& graph)  // which must outlive it
        : graph_(graph), events_(as_index(graph.place_count())) {}

    // Same as run_with_contention().
    void run(const Costs& costs, const Interference& interference, Timeline& timeline,
             Record record = Record::times);

private:
    // How a running task affects tasks on the same ranks: copies to the host and work of the host
    // slow nothing.
    enum Kind : std::uint8_t { computing, communicating, on_host, copying };
    // A running task is stored at its first place; its other places only hold its id.
    struct Running {
        TaskId task = no_task, waiting = no_task;  // waiting: ready except for its issue
        std::uint32_t slot = 0;                    // first place of the task
        // how many of its places are on ranks that are busy with the other kind
        std::uint32_t overlaps = 0;
        Kind kind = on_host;
        double remaining = 0, since = 0, factor = 1;  // work left at `since`; factor: time per work
    };

    // How many running places of each kind a rank has, and whether the rates account for that.
    struct Activity {
        std::array<std::uint32_t, 2> count{};
        std::array<bool, 2> seen{};
        bool changed = false;
    };

    void reset(const Costs& costs, const Interference& interference, Timeline& timeline);
    void release(TaskId t, WaitedFor by) {
        if (records_) [[unlikely]]
            record(t, now_, by);
        if (--pending_[t] == 0) start_when_issued(t);
    }
    void release_issued(TaskId t, double issued, int rank);
    void record(TaskId t, double until, WaitedFor by);
    [[nodiscard]] double known_until(TaskId t) const;
    [[nodiscard]] std::size_t order_of(TaskId t, WaitedFor by) const;
    void start_when_issued(TaskId t);
    void handle(std::uint32_t slot);
    void start(TaskId t);
    void finish(TaskId t);
    void work_on(int rank);
    void change_activity(Place place, Kind kind, std::uint32_t by);
    void settle_rates();
    void settle_rank(std::uint32_t rank);
    void settle_started(Running& running);
    void settle(Running& running);
    [[nodiscard]] double factor_of(const Running& running) const {
        const double slowed = running.overlaps > 0 ? slowed_[running.kind] : 1;
        if (sharing_ && running.kind == communicating) [[unlikely]]
            return slowed * links_.factor(running.task);
        return slowed;
    }

    const TaskGraph& graph_;
    EventStructure structure_;
    bool prepared_ = false;
    const Costs* costs_ = nullptr;
    Timeline* timeline_ = nullptr;
    std::array<double, 2> slowed_{};
    bool records_ = false;  // whether Timeline::waited_for is filled
    bool sharing_ = false;  // whether collectives share links
    // whether tasks of a kind slow others: only then their activity counts
    std::array<bool, 4> slows_{};
    double now_ = 0;
    std::size_t finished_ = 0;

    std::vector<std::uint32_t> pending_;  // per task: how many things it still waits for
    std::vector<HostQueue> hosts_;        // per rank, into host_tasks
    std::vector<double> host_free_;       // per rank: until when its host issues
    std::vector<Running> running_;        // per place
    std::vector<Activity> activity_;      // per rank
    EventTree events_;                    // per place
    LinkShares links_;
    std::vector<TaskId> ready_;
    // first places; ranks; first places
    std::vector<std::uint32_t> started_, changed_ranks_, touched_;
};

}  // namespace stepcast
