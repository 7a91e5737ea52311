#include "sim/engine/contention.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "model/base/numbers.h"
#include "sim/engine/event_engine.h"

namespace stepcast {
namespace {

void find_successors(const TaskGraph& graph, EventStructure& s) {
    const auto tasks = static_cast<TaskId>(graph.size());
    s.successor_begin.assign(graph.size() + 2, 0);
    for (TaskId t = 0; t < tasks; ++t) {
        s.waits[t] = static_cast<std::uint32_t>(graph.predecessors(t).size());
        for (const TaskId earlier : graph.predecessors(t)) ++s.successor_begin[earlier + 2];
    }
    for (std::size_t i = 2; i < s.successor_begin.size(); ++i)
        s.successor_begin[i] += s.successor_begin[i - 1];
    s.successors.resize(s.successor_begin.back());
    for (TaskId t = 0; t < tasks; ++t)
        for (const TaskId earlier : graph.predecessors(t))
            s.successors[s.successor_begin[earlier + 1]++] = t;
}

// A task waits for each device place that has an earlier task. Hosts themselves release the places
// on host lanes.
void queue_places(const TaskGraph& graph, EventStructure& s) {
    std::vector<TaskId> next(as_index(graph.place_count()), no_task);
    s.next_on_place.assign(graph.place_offset(static_cast<TaskId>(graph.size())), no_task);
    for (auto t = static_cast<TaskId>(graph.size()); t-- > 0;) {
        if (graph.on_host(t)) continue;
        std::uint32_t entry = graph.place_offset(t);
        for (const Place& place : graph.places(t)) {
            const TaskId later = std::exchange(next[place.index], t);
            s.next_on_place[entry++] = later;
            if (later != no_task) ++s.waits[later];
        }
    }
}

// A task waits for the host of each of its ranks.
void queue_hosts(const TaskGraph& graph, EventStructure& s) {
    const auto tasks = static_cast<TaskId>(graph.size());
    s.hosts.resize(as_index(graph.rank_count()));
    const auto for_each_rank = [&](auto&& visit) {
        std::vector<TaskId> last(s.hosts.size(), no_task);
        for (TaskId t = 0; t < tasks; ++t)
            for (const Place& place : graph.places(t))
                if (const auto rank = as_index(place.rank()); std::exchange(last[rank], t) != t)
                    visit(t, s.hosts[rank]);
    };
    for_each_rank([&](TaskId t, HostQueue& host) {
        ++host.end;
        ++s.waits[t];
    });
    std::uint32_t begin = 0;
    for (HostQueue& host : s.hosts) {
        host.next = begin;
        begin += std::exchange(host.end, begin);
    }
    s.host_tasks.resize(begin);
    for_each_rank([&](TaskId t, HostQueue& host) { s.host_tasks[host.end++] = t; });
}

EventStructure event_structure(const TaskGraph& graph, bool with_hosts) {
    EventStructure s;
    s.with_hosts = with_hosts;
    s.waits.resize(graph.size());
    find_successors(graph, s);
    if (with_hosts) queue_hosts(graph, s);
    queue_places(graph, s);
    return s;
}

}  // namespace

void EventEngine::reset(const Costs& costs, const Interference& interference, Timeline& timeline) {
    if (interference.compute_slowdown < 0 || interference.communication_slowdown < 0)
        throw std::logic_error("run_with_contention: a slowdown is negative");
    if (const bool with_hosts = needs_hosts(graph_, costs);
        !prepared_ || with_hosts != structure_.with_hosts)
        structure_ = event_structure(graph_, with_hosts);
    prepared_ = true;
    costs_ = &costs;
    timeline_ = &timeline;
    slowed_ = {1 + interference.compute_slowdown, 1 + interference.communication_slowdown};
    slows_ = {interference.communication_slowdown > 0, interference.compute_slowdown > 0, false,
              false};
    now_ = 0;
    finished_ = 0;
    pending_ = structure_.waits;
    hosts_ = structure_.hosts;
    host_free_.assign(hosts_.size(), 0);
    running_.assign(as_index(graph_.place_count()), {});
    activity_.assign(as_index(graph_.rank_count()), {});
    sharing_ = !costs.links.empty();
    if (sharing_) links_.reset(graph_, costs.links);
    timeline.start.assign(graph_.size(), Seconds(0));
    timeline.finish.resize(graph_.size());
    timeline.waited_for.assign(records_ ? graph_.size() : 0, {});
    timeline.end = Seconds(0);
}

// Where the cause stands among those of its kind.
std::size_t EventEngine::order_of(TaskId t, WaitedFor by) const {
    const auto places = graph_.places(t);
    const auto index = [](const auto& all, auto found) { return as_index(found - all.begin()); };
    if (by.kind == WaitedFor::Kind::predecessor)
        return index(graph_.predecessors(t), std::ranges::find(graph_.predecessors(t), by.id));
    if (by.kind == WaitedFor::Kind::host)
        return index(places, std::ranges::find(places, as_int(by.id), &Place::rank));
    std::size_t first = places.size();
    std::uint32_t entry = graph_.place_offset(by.id);
    for (const Place& place : graph_.places(by.id))
        if (structure_.next_on_place[entry++] == t)
            first = std::min(first, index(places, std::ranges::find(places, place)));
    return first;
}

// Until the task starts, timeline.start holds the latest issue so far.
double EventEngine::known_until(TaskId t) const {
    const WaitedFor known = timeline_->waited_for[t];
    switch (known.kind) {
        case WaitedFor::Kind::nothing: return 0;
        case WaitedFor::Kind::host: return timeline_->start[t].si();
        case WaitedFor::Kind::predecessor:
        case WaitedFor::Kind::lane: break;
    }
    return timeline_->finish[known.id].si();
}

void EventEngine::record(TaskId t, double until, WaitedFor by) {
    WaitedFor& known = timeline_->waited_for[t];
    const double latest = known_until(t);
    if (until < latest || until == 0) return;
    const auto precedes = [&] {
        return by.kind != known.kind ? by.kind < known.kind : order_of(t, by) < order_of(t, known);
    };
    if (until > latest || precedes()) known = by;
}

void EventEngine::release_issued(TaskId t, double issued, int rank) {
    if (records_) [[unlikely]]
        record(t, issued, {WaitedFor::Kind::host, static_cast<std::uint32_t>(rank)});
    Seconds& known = timeline_->start[t];
    known = std::max(known, Seconds(issued));
    if (--pending_[t] == 0) start_when_issued(t);
}

void EventEngine::start_when_issued(TaskId t) {
    const double issued = timeline_->start[t].si();
    if (issued <= now_) return ready_.push_back(t);
    const std::uint32_t slot = graph_.places(t).front().index;
    running_[slot].waiting = t;
    events_.set(slot, issued);
}

void EventEngine::handle(std::uint32_t slot) {
    events_.set(slot, EventTree::never);
    if (const TaskId t = running_[slot].task; t != no_task)
        finish(t);
    else
        ready_.push_back(running_[slot].waiting);
}

// A host issues one task after another, up to the next that it must wait for: one on its own lane,
// or any task if launches block.
void EventEngine::work_on(int rank) {
    HostQueue& host = hosts_[as_index(rank)];
    double& time = host_free_[as_index(rank)];
    while (host.next != host.end) {
        const TaskId t = structure_.host_tasks[host.next];
        const bool of_host = graph_.on_host(t);
        if (!of_host) time += costs_->issue[t].si();
        const bool waits = of_host || graph_.launch_blocking();
        if (!waits) ++host.next;
        release_issued(t, time, rank);
        if (waits) return;
    }
}

void EventEngine::change_activity(Place place, Kind kind, std::uint32_t by) {
    const auto rank = static_cast<std::uint32_t>(place.rank());
    Activity& activity = activity_[rank];
    activity.count[kind] += by;
    if (!std::exchange(activity.changed, true)) changed_ranks_.push_back(rank);
}

void EventEngine::start(TaskId t) {
    const auto places = graph_.places(t);
    const std::uint32_t slot = places.front().index;
    const Lane lane = places.front().lane();
    const Kind kind = lane == Lane::compute ? computing
                      : lane == Lane::host  ? on_host
                      : lane == Lane::copy  ? copying
                                            : communicating;
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

void EventEngine::finish(TaskId t) {
    ++finished_;
    timeline_->finish[t] = Seconds(now_);
    if (sharing_) [[unlikely]]
        links_.finish(t);
    const auto places = graph_.places(t);
    const Kind kind = running_[places.front().index].kind;
    std::uint32_t entry = graph_.place_offset(t);
    for (const Place& place : places) {
        running_[place.index].task = no_task;
        if (slows_[kind]) change_activity(place, kind, std::uint32_t(-1));
        if (const TaskId next = structure_.next_on_place[entry++]; next != no_task)
            release(next, {WaitedFor::Kind::lane, t});
    }
    for (std::uint32_t s = structure_.successor_begin[t]; s != structure_.successor_begin[t + 1];
         ++s)
        release(structure_.successors[s], {WaitedFor::Kind::predecessor, t});
    if (!structure_.with_hosts || (kind != on_host && !graph_.launch_blocking())) return;
    for (const Place& place : places) {
        HostQueue& host = hosts_[as_index(place.rank())];
        // the task has a second place on this rank
        if (host.next == host.end || structure_.host_tasks[host.next] != t) continue;
        ++host.next;
        host_free_[as_index(place.rank())] = now_;
        work_on(place.rank());
    }
}

// When a kind of activity begins or ends on a rank, the running tasks of the other kind there
// change their overlap.
void EventEngine::settle_rank(std::uint32_t rank) {
    Activity& activity = activity_[rank];
    activity.changed = false;
    for (const Kind kind : {computing, communicating}) {
        const bool busy = activity.count[kind] > 0;
        if (std::exchange(activity.seen[kind], busy) == busy) continue;
        const Kind other = kind == computing ? communicating : computing;
        // nothing runs whose rate could change
        if (slows_[other] && activity.count[other] == 0) continue;
        for (std::uint32_t p = rank * lane_count; p < (rank + 1) * lane_count; ++p) {
            if (running_[p].task == no_task) continue;
            Running& running = running_[running_[p].slot];
            if (running.kind != other) continue;
            running.overlaps += busy ? 1u : std::uint32_t(-1);
            touched_.push_back(running_[p].slot);
        }
    }
}

void EventEngine::settle_started(Running& running) {
    running.overlaps = 0;
    if (running.kind == computing || running.kind == communicating)
        for (const Place& place : graph_.places(running.task))
            running.overlaps += activity_[as_index(place.rank())]
                                    .seen[running.kind == computing ? communicating : computing];
    running.factor = factor_of(running);
    events_.set(running.slot, now_ + running.remaining * running.factor);
}

void EventEngine::settle(Running& running) {
    const double factor = factor_of(running);
    if (factor == running.factor) return;
    running.remaining = std::max(0.0, running.remaining - (now_ - running.since) / running.factor);
    running.since = now_;
    running.factor = factor;
    events_.set(running.slot, now_ + running.remaining * factor);
}

// Started tasks come after the ranks, because their overlap is counted anew from the settled ranks.
// settle() then skips them among the touched, because their factor is already right.
void EventEngine::settle_rates() {
    for (const std::uint32_t rank : changed_ranks_) settle_rank(rank);
    if (sharing_) [[unlikely]]
        links_.settle(touched_);
    for (const std::uint32_t slot : started_) settle_started(running_[slot]);
    for (const std::uint32_t slot : touched_) settle(running_[slot]);
    changed_ranks_.clear();
    started_.clear();
    touched_.clear();
}

void EventEngine::run(const Costs& costs, const Interference& interference, Timeline& timeline,
                      Record record) {
    records_ = record == Record::waits;
    reset(costs, interference, timeline);
    for (TaskId t = 0; t < graph_.size(); ++t)
        if (pending_[t] == 0) ready_.push_back(t);
    for (std::size_t rank = 0; rank < hosts_.size(); ++rank) work_on(as_int(rank));
    for (;;) {
        for (std::size_t i = 0; i < ready_.size(); ++i) start(ready_[i]);
        ready_.clear();
        settle_rates();
        now_ = events_.earliest();
        if (now_ == EventTree::never) break;
        while (events_.earliest() == now_) handle(events_.earliest_slot());
    }
    if (finished_ != graph_.size())
        throw std::logic_error("run_with_contention: tasks were left waiting");
    for (const Seconds finish : timeline.finish) timeline.end = std::max(timeline.end, finish);
}

void run_with_contention(const TaskGraph& graph, const Costs& costs,
                         const Interference& interference, Timeline& timeline, Record record) {
    EventEngine(graph).run(costs, interference, timeline, record);
}

}  // namespace stepcast
