#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

#include "sim/event_tree.h"
#include "sim/simulate.h"

namespace stepcast {
namespace {

constexpr TaskId none = std::numeric_limits<TaskId>::max();

// What a running task is to its neighbours.
enum Kind : std::uint8_t { computing, communicating, on_host };
Kind kind_of(Place first) {
    return first.lane() == Lane::compute ? computing : first.lane() == Lane::host ? on_host : communicating;
}

// A running task, kept at its first place; its other places only name the task.
struct Running {
    TaskId task = none;
    std::uint32_t slot = 0;      // first place of the task
    std::uint32_t overlaps = 0;  // places of the task on ranks that are busy with the other kind
    Kind kind = on_host;
    double remaining = 0, since = 0, factor = 1;  // work left at `since`; factor: time per work
};

// Ranks busy with each kind: running places now, and whether that was taken into account in the rates.
struct Activity {
    std::array<std::uint32_t, 2> count{};
    std::array<bool, 2> seen{};
    bool changed = false;
};

// Tasks that touch a rank, in id order: what its host works through.
struct HostQueue {
    std::uint32_t next = 0, end = 0;
};

// An event is the finish of a task, at its first place, or the end of an issue, at the host's place. At one instant
// everything that ends is ended first, then what became ready starts, then the rates of what overlaps are settled; so
// equal times need no order of their own. A changed rate moves the event of the task.
class Engine {
public:
    Engine(const TaskGraph& graph, const Costs& costs, const Contention& contention, Timeline& timeline);
    void run();

private:
    void find_successors();
    void queue_places();
    void queue_hosts();
    void release(TaskId t) {
        if (--pending_[t] == 0) ready_.push_back(t);
    }
    void handle(std::uint32_t slot);
    void start(TaskId t);
    void finish(TaskId t);
    void work_on(int rank);
    void after_issue(int rank);
    void change_activity(Place place, Kind kind, std::uint32_t by);
    void settle_rates();
    void settle_rank(std::uint32_t rank);
    void settle_started(Running& running);
    void settle(Running& running);

    const TaskGraph& graph_;
    const Costs& costs_;
    Timeline& timeline_;
    std::array<double, 2> slowed_;
    bool with_hosts_;
    double now_ = 0;
    std::size_t finished_ = 0;

    std::vector<std::uint32_t> pending_;          // per task: what it still waits for
    std::vector<std::uint32_t> successor_begin_;  // CSR
    std::vector<TaskId> successors_;
    std::vector<TaskId> next_on_place_;  // per (task, place): next task of that place
    std::vector<HostQueue> hosts_;       // per rank, into host_tasks_
    std::vector<TaskId> host_tasks_;
    std::vector<Running> running_;    // per place
    std::vector<Activity> activity_;  // per rank
    EventTree events_;                // per place
    std::vector<TaskId> ready_;
    std::vector<std::uint32_t> started_, changed_ranks_, touched_;  // first places; ranks; first places
};

Engine::Engine(const TaskGraph& graph, const Costs& costs, const Contention& contention, Timeline& timeline)
    : graph_(graph),
      costs_(costs),
      timeline_(timeline),
      slowed_{1 + contention.compute_slowdown, 1 + contention.communication_slowdown},
      with_hosts_(needs_hosts(graph, costs)),
      pending_(graph.size()),
      running_(static_cast<std::size_t>(graph.place_count())),
      activity_(static_cast<std::size_t>(graph.rank_count())),
      events_(static_cast<std::size_t>(graph.place_count())) {
    if (contention.compute_slowdown < 0 || contention.communication_slowdown < 0)
        throw std::logic_error("run_with_contention: a slowdown is negative");
    timeline_.start.resize(graph.size());
    timeline_.finish.resize(graph.size());
    timeline_.end = Seconds(0);
    find_successors();
    if (with_hosts_) queue_hosts();
    queue_places();
}

void Engine::find_successors() {
    const auto tasks = static_cast<TaskId>(graph_.size());
    successor_begin_.assign(graph_.size() + 2, 0);
    for (TaskId t = 0; t < tasks; ++t) {
        pending_[t] = static_cast<std::uint32_t>(graph_.predecessors(t).size());
        for (const TaskId earlier : graph_.predecessors(t)) ++successor_begin_[earlier + 2];
    }
    for (std::size_t i = 2; i < successor_begin_.size(); ++i) successor_begin_[i] += successor_begin_[i - 1];
    successors_.resize(successor_begin_.back());
    for (TaskId t = 0; t < tasks; ++t)
        for (const TaskId earlier : graph_.predecessors(t)) successors_[successor_begin_[earlier + 1]++] = t;
}

// A task waits for each device place that has an earlier task. The hosts release the places on host lanes.
void Engine::queue_places() {
    std::vector<TaskId> next(static_cast<std::size_t>(graph_.place_count()), none);
    next_on_place_.assign(graph_.place_offset(static_cast<TaskId>(graph_.size())), none);
    for (auto t = static_cast<TaskId>(graph_.size()); t-- > 0;) {
        if (graph_.on_host(t)) continue;
        std::uint32_t entry = graph_.place_offset(t);
        for (const Place& place : graph_.places(t)) {
            const TaskId later = std::exchange(next[place.index], t);
            next_on_place_[entry++] = later;
            if (later != none) ++pending_[later];
        }
    }
}

// A task waits for the host of each of its ranks.
void Engine::queue_hosts() {
    const auto tasks = static_cast<TaskId>(graph_.size());
    hosts_.resize(static_cast<std::size_t>(graph_.rank_count()));
    const auto for_each_rank = [&](auto&& visit) {
        std::vector<TaskId> last(hosts_.size(), none);
        for (TaskId t = 0; t < tasks; ++t)
            for (const Place& place : graph_.places(t))
                if (const auto rank = static_cast<std::size_t>(place.rank()); std::exchange(last[rank], t) != t)
                    visit(t, hosts_[rank]);
    };
    for_each_rank([&](TaskId t, HostQueue& host) {
        ++host.end;
        ++pending_[t];
    });
    std::uint32_t begin = 0;
    for (HostQueue& host : hosts_) {
        host.next = begin;
        begin += std::exchange(host.end, begin);
    }
    host_tasks_.resize(begin);
    for_each_rank([&](TaskId t, HostQueue& host) { host_tasks_[host.end++] = t; });
}

void Engine::handle(std::uint32_t slot) {
    events_.set(slot, EventTree::never);
    if (const TaskId t = running_[slot].task; t != none)
        finish(t);
    else
        after_issue(static_cast<int>(slot) / lane_count);
}

// The host takes up its next task: it issues a device task, or is occupied by a task of its own.
void Engine::work_on(int rank) {
    HostQueue& host = hosts_[static_cast<std::size_t>(rank)];
    while (host.next != host.end) {
        const TaskId t = host_tasks_[host.next];
        if (graph_.on_host(t)) return release(t);
        if (costs_.issue[t] > Seconds(0))
            return events_.set(Place(rank, Lane::host).index, now_ + costs_.issue[t].si());
        release(t);
        if (graph_.launch_blocking()) return;
        ++host.next;
    }
}

void Engine::after_issue(int rank) {
    HostQueue& host = hosts_[static_cast<std::size_t>(rank)];
    release(host_tasks_[host.next]);
    if (graph_.launch_blocking()) return;
    ++host.next;
    work_on(rank);
}

void Engine::change_activity(Place place, Kind kind, std::uint32_t by) {
    const auto rank = static_cast<std::uint32_t>(place.rank());
    Activity& activity = activity_[rank];
    activity.count[kind] += by;
    if (!std::exchange(activity.changed, true)) changed_ranks_.push_back(rank);
}

void Engine::start(TaskId t) {
    const auto places = graph_.places(t);
    const std::uint32_t slot = places.front().index;
    const Kind kind = kind_of(places.front());
    timeline_.start[t] = Seconds(now_);
    for (const Place& place : places) {
        running_[place.index].task = t;
        running_[place.index].slot = slot;
        if (kind != on_host) change_activity(place, kind, 1);
    }
    Running& running = running_[slot];
    running.kind = kind;
    running.remaining = costs_.duration[t].si();
    running.since = now_;
    started_.push_back(slot);
}

void Engine::finish(TaskId t) {
    ++finished_;
    timeline_.finish[t] = Seconds(now_);
    const auto places = graph_.places(t);
    const Kind kind = running_[places.front().index].kind;
    std::uint32_t entry = graph_.place_offset(t);
    for (const Place& place : places) {
        running_[place.index].task = none;
        if (kind != on_host) change_activity(place, kind, std::uint32_t(-1));
        if (const TaskId next = next_on_place_[entry++]; next != none) release(next);
    }
    for (std::uint32_t s = successor_begin_[t]; s != successor_begin_[t + 1]; ++s) release(successors_[s]);
    if (!with_hosts_ || (kind != on_host && !graph_.launch_blocking())) return;
    for (const Place& place : places) {
        HostQueue& host = hosts_[static_cast<std::size_t>(place.rank())];
        if (host.next == host.end || host_tasks_[host.next] != t) continue;  // a second place on this rank
        ++host.next;
        work_on(place.rank());
    }
}

// What runs on a rank whose activity of one kind began or ended: tasks of the other kind change their overlap.
void Engine::settle_rank(std::uint32_t rank) {
    Activity& activity = activity_[rank];
    activity.changed = false;
    for (const Kind kind : {computing, communicating}) {
        const bool busy = activity.count[kind] > 0;
        if (std::exchange(activity.seen[kind], busy) == busy) continue;
        const Kind other = kind == computing ? communicating : computing;
        if (activity.count[other] == 0) continue;
        const std::uint32_t first = rank * lane_count;
        for (std::uint32_t p = first; p < first + static_cast<std::uint32_t>(Lane::host); ++p) {
            if (running_[p].task == none) continue;
            Running& running = running_[running_[p].slot];
            if (running.kind != other) continue;
            running.overlaps += busy ? 1u : std::uint32_t(-1);
            touched_.push_back(running_[p].slot);
        }
    }
}

void Engine::settle_started(Running& running) {
    running.overlaps = 0;
    if (running.kind != on_host)
        for (const Place& place : graph_.places(running.task))
            running.overlaps += activity_[static_cast<std::size_t>(place.rank())]
                                    .seen[running.kind == computing ? communicating : computing];
    running.factor = running.overlaps > 0 ? slowed_[running.kind] : 1;
    events_.set(running.slot, now_ + running.remaining * running.factor);
}

void Engine::settle(Running& running) {
    const double factor = running.overlaps > 0 ? slowed_[running.kind] : 1;
    if (factor == running.factor) return;
    running.remaining = std::max(0.0, running.remaining - (now_ - running.since) / running.factor);
    running.since = now_;
    running.factor = factor;
    events_.set(running.slot, now_ + running.remaining * factor);
}

// Started tasks last: their overlap is counted whole from the settled ranks. They are settled once, at their start,
// so that they are skipped among the touched.
void Engine::settle_rates() {
    for (const std::uint32_t rank : changed_ranks_) settle_rank(rank);
    for (const std::uint32_t slot : started_) settle_started(running_[slot]);
    for (const std::uint32_t slot : touched_) settle(running_[slot]);
    changed_ranks_.clear();
    started_.clear();
    touched_.clear();
}

void Engine::run() {
    for (TaskId t = 0; t < graph_.size(); ++t)
        if (pending_[t] == 0) ready_.push_back(t);
    if (with_hosts_)
        for (int rank = 0; rank < graph_.rank_count(); ++rank) work_on(rank);
    for (;;) {
        for (std::size_t i = 0; i < ready_.size(); ++i) start(ready_[i]);
        ready_.clear();
        settle_rates();
        now_ = events_.earliest();
        if (now_ == EventTree::never) break;
        while (events_.earliest() == now_) handle(events_.earliest_slot());
    }
    if (finished_ != graph_.size()) throw std::logic_error("run_with_contention: tasks were left waiting");
    for (const Seconds finish : timeline_.finish) timeline_.end = std::max(timeline_.end, finish);
}

}  // namespace

void run_with_contention(const TaskGraph& graph, const Costs& costs, const Contention& contention, Timeline& timeline) {
    Engine(graph, costs, contention, timeline).run();
}

}  // namespace stepcast
