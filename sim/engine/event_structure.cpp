#include "sim/engine/event_structure.h"

#include <utility>

namespace stepcast {
namespace {

constexpr TaskId none = no_later_task;

void find_successors(const TaskGraph& graph, EventStructure& s) {
    const auto tasks = static_cast<TaskId>(graph.size());
    s.successor_begin.assign(graph.size() + 2, 0);
    for (TaskId t = 0; t < tasks; ++t) {
        s.waits[t] = static_cast<std::uint32_t>(graph.predecessors(t).size());
        for (const TaskId earlier : graph.predecessors(t)) ++s.successor_begin[earlier + 2];
    }
    for (std::size_t i = 2; i < s.successor_begin.size(); ++i) s.successor_begin[i] += s.successor_begin[i - 1];
    s.successors.resize(s.successor_begin.back());
    for (TaskId t = 0; t < tasks; ++t)
        for (const TaskId earlier : graph.predecessors(t)) s.successors[s.successor_begin[earlier + 1]++] = t;
}

// A task waits for each device place that has an earlier task. The hosts release the places on host lanes.
void queue_places(const TaskGraph& graph, EventStructure& s) {
    std::vector<TaskId> next(static_cast<std::size_t>(graph.place_count()), none);
    s.next_on_place.assign(graph.place_offset(static_cast<TaskId>(graph.size())), none);
    for (auto t = static_cast<TaskId>(graph.size()); t-- > 0;) {
        if (graph.on_host(t)) continue;
        std::uint32_t entry = graph.place_offset(t);
        for (const Place& place : graph.places(t)) {
            const TaskId later = std::exchange(next[place.index], t);
            s.next_on_place[entry++] = later;
            if (later != none) ++s.waits[later];
        }
    }
}

// A task waits for the host of each of its ranks.
void queue_hosts(const TaskGraph& graph, EventStructure& s) {
    const auto tasks = static_cast<TaskId>(graph.size());
    s.hosts.resize(static_cast<std::size_t>(graph.rank_count()));
    const auto for_each_rank = [&](auto&& visit) {
        std::vector<TaskId> last(s.hosts.size(), none);
        for (TaskId t = 0; t < tasks; ++t)
            for (const Place& place : graph.places(t))
                if (const auto rank = static_cast<std::size_t>(place.rank()); std::exchange(last[rank], t) != t)
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

}  // namespace

EventStructure event_structure(const TaskGraph& graph, bool with_hosts) {
    EventStructure s;
    s.with_hosts = with_hosts;
    s.waits.resize(graph.size());
    find_successors(graph, s);
    if (with_hosts) queue_hosts(graph, s);
    queue_places(graph, s);
    return s;
}

}  // namespace stepcast
