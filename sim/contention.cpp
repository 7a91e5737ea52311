// The event engine: tasks that run side by side on a rank slow each other. Same rules as run_in_order; flat arrays,
// one heap of events, nothing allocated per event, stale events dropped when they surface.
#include <algorithm>
#include <limits>

#include "sim/simulate.h"

namespace stepcast {
namespace {

constexpr TaskId none = std::numeric_limits<TaskId>::max();

bool is_communication(Lane lane) { return lane != Lane::compute && lane != Lane::host; }

// Lists of task ids, one list per key, back to back.
struct Lists {
    std::vector<std::uint32_t> begin;
    std::vector<TaskId> tasks;

    template <typename ForEachPair>  // calls visit(key, task), twice over, tasks ascending
    Lists(std::size_t keys, const ForEachPair& for_each_pair) : begin(keys + 1) {
        for_each_pair([&](std::size_t key, TaskId) { ++begin[key + 1]; });
        for (std::size_t k = 0; k < keys; ++k) begin[k + 1] += begin[k];
        tasks.resize(begin.back());
        std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
        for_each_pair([&](std::size_t key, TaskId t) { tasks[next[key]++] = t; });
    }
    [[nodiscard]] std::span<const TaskId> operator[](std::size_t key) const { return {tasks.data() + begin[key], tasks.data() + begin[key + 1]}; }
};

struct Event {
    double time;
    TaskId task;
    std::uint32_t version;
};
struct Later {
    bool operator()(const Event& a, const Event& b) const { return a.time != b.time ? a.time > b.time : a.task > b.task; }
};

class Engine {
public:
    Engine(const TaskGraph& graph, const Costs& costs, const Contention& contention, Timeline& timeline)
        : graph_(graph), costs_(costs), contention_(contention), timeline_(timeline),
          successors_(graph.size(), [&](auto visit) { for (TaskId t = 0; t < graph.size(); ++t) for (const TaskId p : graph.predecessors(t)) visit(p, t); }),
          queues_(static_cast<std::size_t>(graph.place_count()), [&](auto visit) { for (TaskId t = 0; t < graph.size(); ++t) for (const Place& p : graph.places(t)) visit(p.index, t); }),
          head_(queues_.begin.begin(), queues_.begin.end() - 1), running_(static_cast<std::size_t>(graph.place_count()), none),
          waiting_(graph.size()), version_(graph.size()), remaining_(graph.size()), updated_(graph.size()), speed_(graph.size()), ready_(graph.size()),
          computing_(static_cast<std::size_t>(graph.rank_count())), communicating_(static_cast<std::size_t>(graph.rank_count())),
          slows_(contention.compute_slowdown != 0 || contention.communication_slowdown != 0),
          hosts_(graph.launch_blocking() || std::any_of(costs.issue.begin(), costs.issue.end(), [](Seconds s) { return s > Seconds(0); })) {
        heap_.reserve(static_cast<std::size_t>(graph.place_count()) * 4 + 16);
        timeline.start.assign(graph.size(), Seconds(0));
        timeline.finish.assign(graph.size(), Seconds(0));
        timeline.end = Seconds(0);
    }

    void run() {
        if (hosts_) make_host_queues();
        for (TaskId t = 0; t < graph_.size(); ++t) {
            waiting_[t] = static_cast<std::uint32_t>(graph_.predecessors(t).size() + graph_.places(t).size());
            if (hosts_) waiting_[t] += host_steps(t);
        }
        for (std::size_t p = 0; p < head_.size(); ++p) release_head(p);
        if (hosts_)
            for (int r = 0; r < graph_.rank_count(); ++r) issue_from(static_cast<std::size_t>(r));
        while (!heap_.empty()) {
            std::pop_heap(heap_.begin(), heap_.end(), Later{});
            const Event event = heap_.back();
            heap_.pop_back();
            if (event.version != version_[event.task]) continue;
            now_ = event.time;
            if (updated_[event.task] < 0) begin(event.task);
            else finish(event.task);
        }
    }

private:
    static bool on_host(std::span<const Place> places) { return places.front().lane() == Lane::host; }

    // Ranks whose host issues a device task; a task with two places on one rank is issued there once.
    template <typename Visit>
    void for_each_host(TaskId t, const Visit& visit) const {
        const auto places = graph_.places(t);
        for (std::size_t i = 0; i < places.size(); ++i) {
            const int rank = places[i].rank();
            bool seen = false;
            for (std::size_t j = 0; j < i; ++j) seen |= places[j].rank() == rank;
            if (!seen) visit(static_cast<std::size_t>(rank));
        }
    }
    std::uint32_t host_steps(TaskId t) const {
        std::uint32_t n = 0;
        for_each_host(t, [&](std::size_t) { ++n; });
        return n;
    }
    void make_host_queues() {
        const auto ranks = static_cast<std::size_t>(graph_.rank_count());
        host_queue_.emplace_back(ranks, [&](auto visit) { for (TaskId t = 0; t < graph_.size(); ++t) for_each_host(t, [&](std::size_t r) { visit(r, t); }); });
        host_head_.assign(host_queue_[0].begin.begin(), host_queue_[0].begin.end() - 1);
        host_clock_.assign(ranks, 0);
    }

    // The host of a rank goes on: issues device tasks until it must wait for one (launch_blocking) or meets work of its own.
    void issue_from(std::size_t rank) {
        const Lists& queue = host_queue_[0];
        host_clock_[rank] = std::max(host_clock_[rank], now_);
        while (host_head_[rank] < queue.begin[rank + 1]) {
            const TaskId t = queue.tasks[host_head_[rank]];
            if (on_host(graph_.places(t))) {
                ready_[t] = std::max(ready_[t], host_clock_[rank]);
                release(t);
                return;
            }
            host_clock_[rank] += costs_.issue[t].si();
            ready_[t] = std::max(ready_[t], host_clock_[rank]);
            if (graph_.launch_blocking()) {
                release(t);
                return;
            }
            ++host_head_[rank];
            release(t);
        }
    }
    void host_goes_on(TaskId t) {
        const bool host_task = on_host(graph_.places(t));
        if (!host_task && !graph_.launch_blocking()) return;
        for_each_host(t, [&](std::size_t rank) {
            ++host_head_[rank];
            host_clock_[rank] = now_;
            issue_from(rank);
        });
    }

    void release_head(std::size_t place) {
        if (head_[place] < queues_.begin[place + 1]) release(queues_.tasks[head_[place]]);
    }
    void release(TaskId t) {
        if (--waiting_[t] != 0) return;
        if (ready_[t] > now_) {
            updated_[t] = -1;  // an event that begins it
            push(ready_[t], t);
        } else {
            begin(t);
        }
    }
    void push(double time, TaskId t) {
        heap_.push_back({time, t, version_[t]});
        std::push_heap(heap_.begin(), heap_.end(), Later{});
    }

    void begin(TaskId t) {
        timeline_.start[t] = Seconds(now_);
        remaining_[t] = costs_.duration[t].si();
        updated_[t] = now_;
        speed_[t] = 1;
        if (slows_) {
            for (const Place& p : graph_.places(t)) enter(p, t);
            speed_[t] = speed_of(t);
        }
        push(now_ + remaining_[t] / speed_[t], t);
    }

    void finish(TaskId t) {
        timeline_.finish[t] = Seconds(now_);
        timeline_.end = std::max(timeline_.end, Seconds(now_));
        ++version_[t];
        if (slows_)
            for (const Place& p : graph_.places(t)) leave(p);
        for (const Place& p : graph_.places(t)) {
            ++head_[p.index];
            release_head(p.index);
        }
        for (const TaskId next : successors_[t]) release(next);
        if (hosts_) host_goes_on(t);
    }

    void enter(Place p, TaskId t) {
        running_[p.index] = t;
        change_activity(p, +1);
    }
    void leave(Place p) {
        running_[p.index] = none;
        change_activity(p, -1);
    }
    // Compute slows communication of its rank and the other way round, from the moment that one of them begins.
    void change_activity(Place p, int delta) {
        if (p.lane() == Lane::host) return;
        const bool communication = is_communication(p.lane());
        int& count = (communication ? communicating_ : computing_)[static_cast<std::size_t>(p.rank())];
        count += delta;
        if (count != (delta > 0 ? 1 : 0)) return;
        for (int lane = 0; lane < lane_count; ++lane) {
            const TaskId other = running_[Place(p.rank(), static_cast<Lane>(lane)).index];
            const bool affected = communication ? static_cast<Lane>(lane) == Lane::compute : is_communication(static_cast<Lane>(lane));
            if (other != none && affected) change_speed(other);
        }
    }
    double speed_of(TaskId t) const {
        for (const Place& p : graph_.places(t)) {
            const auto rank = static_cast<std::size_t>(p.rank());
            if (p.lane() == Lane::compute && communicating_[rank] > 0) return 1 / (1 + contention_.compute_slowdown);
            if (is_communication(p.lane()) && computing_[rank] > 0) return 1 / (1 + contention_.communication_slowdown);
        }
        return 1;
    }
    void change_speed(TaskId t) {
        const double speed = speed_of(t);
        if (speed == speed_[t]) return;
        remaining_[t] = std::max(0.0, remaining_[t] - (now_ - updated_[t]) * speed_[t]);
        updated_[t] = now_;
        speed_[t] = speed;
        ++version_[t];
        push(now_ + remaining_[t] / speed, t);
    }

    const TaskGraph& graph_;
    const Costs& costs_;
    const Contention& contention_;
    Timeline& timeline_;
    Lists successors_, queues_;
    std::vector<std::uint32_t> head_;
    std::vector<TaskId> running_;
    std::vector<std::uint32_t> waiting_, version_;
    std::vector<double> remaining_, updated_, speed_, ready_;
    std::vector<int> computing_, communicating_;
    std::vector<Lists> host_queue_;  // one, when hosts matter
    std::vector<std::uint32_t> host_head_;
    std::vector<double> host_clock_;
    std::vector<Event> heap_;
    double now_ = 0;
    bool slows_, hosts_;
};

}  // namespace

void run_with_contention(const TaskGraph& graph, const Costs& costs, const Contention& contention, Timeline& timeline) {
    Engine(graph, costs, contention, timeline).run();
}

Trace simulate(const TaskGraph& graph, const Costs& costs, const Contention& contention) {
    Timeline timeline;
    run_with_contention(graph, costs, contention, timeline);
    return to_trace(graph, timeline);
}

}  // namespace stepcast
