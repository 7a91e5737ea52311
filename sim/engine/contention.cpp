#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <utility>

#include "sim/engine/event_engine.h"
#include "sim/engine/event_structure.h"
#include "sim/engine/event_tree.h"
#include "sim/engine/link_shares.h"

namespace stepcast {
namespace {

constexpr TaskId none = no_later_task;

// What a running task is to its neighbours.
enum Kind : std::uint8_t { computing, communicating, on_host };
Kind kind_of(Place first) {
    return first.lane() == Lane::compute ? computing : first.lane() == Lane::host ? on_host : communicating;
}

// A running task, kept at its first place; its other places only name the task.
struct Running {
    TaskId task = none, waiting = none;  // waiting: ready but for its issue
    std::uint32_t slot = 0;              // first place of the task
    std::uint32_t overlaps = 0;          // places of the task on ranks that are busy with the other kind
    Kind kind = on_host;
    double remaining = 0, since = 0, factor = 1;  // work left at `since`; factor: time per work
};

// Ranks busy with each kind: running places now, and whether that was taken into account in the rates.
struct Activity {
    std::array<std::uint32_t, 2> count{};
    std::array<bool, 2> seen{};
    bool changed = false;
};

}  // namespace

// An event is the finish of a task, or a start that only its issue held up, at its first place. At one instant everything
// that ends is ended first, then what became ready starts, then the rates of what overlaps are settled; so equal times
// need no order of their own. A changed rate moves the event of the task.
class EventEngine::Run {
public:
    explicit Run(const TaskGraph& graph) : graph_(graph), events_(static_cast<std::size_t>(graph.place_count())) {}
    void operator()(const Costs& costs, const Contention& contention, Timeline& timeline);

private:
    void reset(const Costs& costs, const Contention& contention, Timeline& timeline);
    void release(TaskId t) {
        if (--pending_[t] == 0) start_when_issued(t);
    }
    void release_issued(TaskId t, double issued);
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
    bool sharing_ = false;         // whether collectives share links
    std::array<bool, 3> slows_{};  // whether tasks of a kind slow others: only then their activity counts
    double now_ = 0;
    std::size_t finished_ = 0;

    std::vector<std::uint32_t> pending_;  // per task: what it still waits for
    std::vector<HostQueue> hosts_;        // per rank, into host_tasks
    std::vector<double> host_free_;       // per rank: until when its host issues
    std::vector<Running> running_;        // per place
    std::vector<Activity> activity_;      // per rank
    EventTree events_;                    // per place
    LinkShares links_;
    std::vector<TaskId> ready_;
    std::vector<std::uint32_t> started_, changed_ranks_, touched_;  // first places; ranks; first places
};

void EventEngine::Run::reset(const Costs& costs, const Contention& contention, Timeline& timeline) {
    if (contention.compute_slowdown < 0 || contention.communication_slowdown < 0)
        throw std::logic_error("run_with_contention: a slowdown is negative");
    if (const bool with_hosts = needs_hosts(graph_, costs); !prepared_ || with_hosts != structure_.with_hosts)
        structure_ = event_structure(graph_, with_hosts);
    prepared_ = true;
    costs_ = &costs;
    timeline_ = &timeline;
    slowed_ = {1 + contention.compute_slowdown, 1 + contention.communication_slowdown};
    slows_ = {contention.communication_slowdown > 0, contention.compute_slowdown > 0, false};
    now_ = 0;
    finished_ = 0;
    pending_ = structure_.waits;
    hosts_ = structure_.hosts;
    host_free_.assign(hosts_.size(), 0);
    running_.assign(static_cast<std::size_t>(graph_.place_count()), {});
    activity_.assign(static_cast<std::size_t>(graph_.rank_count()), {});
    sharing_ = !costs.links.empty();
    if (sharing_) links_.reset(graph_, costs.links);
    timeline.start.assign(graph_.size(), Seconds(0));
    timeline.finish.resize(graph_.size());
    timeline.end = Seconds(0);
}

// Until the task starts, timeline.start holds when the hosts that have come to it had issued it.
void EventEngine::Run::release_issued(TaskId t, double issued) {
    Seconds& known = timeline_->start[t];
    known = std::max(known, Seconds(issued));
    release(t);
}

void EventEngine::Run::start_when_issued(TaskId t) {
    const double issued = timeline_->start[t].si();
    if (issued <= now_) return ready_.push_back(t);
    const std::uint32_t slot = graph_.places(t).front().index;
    running_[slot].waiting = t;
    events_.set(slot, issued);
}

void EventEngine::Run::handle(std::uint32_t slot) {
    events_.set(slot, EventTree::never);
    if (const TaskId t = running_[slot].task; t != none)
        finish(t);
    else
        ready_.push_back(running_[slot].waiting);
}

// The host issues one task after another, which nothing can hold up, to the next that it has to wait for: one of its
// own, or any when launches block.
void EventEngine::Run::work_on(int rank) {
    HostQueue& host = hosts_[static_cast<std::size_t>(rank)];
    double& time = host_free_[static_cast<std::size_t>(rank)];
    while (host.next != host.end) {
        const TaskId t = structure_.host_tasks[host.next];
        const bool on_host = graph_.on_host(t);
        if (!on_host) time += costs_->issue[t].si();
        const bool waits = on_host || graph_.launch_blocking();
        if (!waits) ++host.next;
        release_issued(t, time);
        if (waits) return;
    }
}

void EventEngine::Run::change_activity(Place place, Kind kind, std::uint32_t by) {
    const auto rank = static_cast<std::uint32_t>(place.rank());
    Activity& activity = activity_[rank];
    activity.count[kind] += by;
    if (!std::exchange(activity.changed, true)) changed_ranks_.push_back(rank);
}

void EventEngine::Run::start(TaskId t) {
    const auto places = graph_.places(t);
    const std::uint32_t slot = places.front().index;
    const Kind kind = kind_of(places.front());
    timeline_->start[t] = Seconds(now_);
    for (const Place& place : places) {
        running_[place.index].task = t;
        running_[place.index].slot = slot;
        if (slows_[kind]) change_activity(place, kind, 1);
    }
    Running& running = running_[slot];
    running.kind = kind;
    running.remaining = costs_->duration[t].si();
    running.since = now_;
    started_.push_back(slot);
    if (sharing_) [[unlikely]]
        links_.start(t);
}

void EventEngine::Run::finish(TaskId t) {
    ++finished_;
    timeline_->finish[t] = Seconds(now_);
    if (sharing_) [[unlikely]]
        links_.finish(t);
    const auto places = graph_.places(t);
    const Kind kind = running_[places.front().index].kind;
    std::uint32_t entry = graph_.place_offset(t);
    for (const Place& place : places) {
        running_[place.index].task = none;
        if (slows_[kind]) change_activity(place, kind, std::uint32_t(-1));
        if (const TaskId next = structure_.next_on_place[entry++]; next != none) release(next);
    }
    for (std::uint32_t s = structure_.successor_begin[t]; s != structure_.successor_begin[t + 1]; ++s)
        release(structure_.successors[s]);
    if (!structure_.with_hosts || (kind != on_host && !graph_.launch_blocking())) return;
    for (const Place& place : places) {
        HostQueue& host = hosts_[static_cast<std::size_t>(place.rank())];
        if (host.next == host.end || structure_.host_tasks[host.next] != t) continue;  // a second place on this rank
        ++host.next;
        host_free_[static_cast<std::size_t>(place.rank())] = now_;
        work_on(place.rank());
    }
}

// What runs on a rank whose activity of one kind began or ended: tasks of the other kind change their overlap.
void EventEngine::Run::settle_rank(std::uint32_t rank) {
    Activity& activity = activity_[rank];
    activity.changed = false;
    for (const Kind kind : {computing, communicating}) {
        const bool busy = activity.count[kind] > 0;
        if (std::exchange(activity.seen[kind], busy) == busy) continue;
        const Kind other = kind == computing ? communicating : computing;
        if (slows_[other] && activity.count[other] == 0) continue;  // nothing runs whose rate could change
        for (std::uint32_t p = rank * lane_count; p < (rank + 1) * lane_count; ++p) {
            if (running_[p].task == none) continue;
            Running& running = running_[running_[p].slot];
            if (running.kind != other) continue;
            running.overlaps += busy ? 1u : std::uint32_t(-1);
            touched_.push_back(running_[p].slot);
        }
    }
}

void EventEngine::Run::settle_started(Running& running) {
    running.overlaps = 0;
    if (running.kind != on_host)
        for (const Place& place : graph_.places(running.task))
            running.overlaps += activity_[static_cast<std::size_t>(place.rank())]
                                    .seen[running.kind == computing ? communicating : computing];
    running.factor = factor_of(running);
    events_.set(running.slot, now_ + running.remaining * running.factor);
}

void EventEngine::Run::settle(Running& running) {
    const double factor = factor_of(running);
    if (factor == running.factor) return;
    running.remaining = std::max(0.0, running.remaining - (now_ - running.since) / running.factor);
    running.since = now_;
    running.factor = factor;
    events_.set(running.slot, now_ + running.remaining * factor);
}

// Started tasks last: their overlap is counted whole from the settled ranks. They are settled once, at their start,
// so that they are skipped among the touched.
void EventEngine::Run::settle_rates() {
    for (const std::uint32_t rank : changed_ranks_) settle_rank(rank);
    if (sharing_) [[unlikely]]
        links_.settle(touched_);
    for (const std::uint32_t slot : started_) settle_started(running_[slot]);
    for (const std::uint32_t slot : touched_) settle(running_[slot]);
    changed_ranks_.clear();
    started_.clear();
    touched_.clear();
}

void EventEngine::Run::operator()(const Costs& costs, const Contention& contention, Timeline& timeline) {
    reset(costs, contention, timeline);
    for (TaskId t = 0; t < graph_.size(); ++t)
        if (pending_[t] == 0) ready_.push_back(t);
    for (std::size_t rank = 0; rank < hosts_.size(); ++rank) work_on(static_cast<int>(rank));
    for (;;) {
        for (std::size_t i = 0; i < ready_.size(); ++i) start(ready_[i]);
        ready_.clear();
        settle_rates();
        now_ = events_.earliest();
        if (now_ == EventTree::never) break;
        while (events_.earliest() == now_) handle(events_.earliest_slot());
    }
    if (finished_ != graph_.size()) throw std::logic_error("run_with_contention: tasks were left waiting");
    for (const Seconds finish : timeline.finish) timeline.end = std::max(timeline.end, finish);
}

EventEngine::EventEngine(const TaskGraph& graph) : run_(std::make_unique<Run>(graph)) {}
EventEngine::~EventEngine() = default;

void EventEngine::run(const Costs& costs, const Contention& contention, Timeline& timeline) {
    (*run_)(costs, contention, timeline);
}

void run_with_contention(const TaskGraph& graph, const Costs& costs, const Contention& contention, Timeline& timeline) {
    EventEngine(graph).run(costs, contention, timeline);
}

}  // namespace stepcast
