#include "sim/gantt.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <boost/icl/interval_set.hpp>

#include "model/base/numbers.h"
#include "model/step.h"
#include "sim/breakdown.h"
#include "sim/memory/memory_points.h"

namespace stepcast {
namespace {

constexpr int most_rows = 8;
// share of the step: a longer wait separates two boxes of the chart
constexpr double long_wait = 0.004;

// in seconds; overlapping and touching intervals merge
using Times = boost::icl::interval_set<double>;

GanttKind kind_of(Pass pass) {
    switch (pass) {
        case Pass::forward: return GanttKind::forward;
        case Pass::backward: return GanttKind::backward;
        case Pass::input_backward: return GanttKind::input_backward;
        case Pass::weight_backward: return GanttKind::weight_backward;
    }
    return GanttKind::other;
}
GanttKind kind_of(Phase phase) {
    switch (phase) {
        case Phase::forward: return GanttKind::forward;
        case Phase::backward: return GanttKind::backward;
        case Phase::optimizer: return GanttKind::optimizer;
        default: return GanttKind::other;
    }
}

struct RankWork {
    std::vector<TaskId> kernels;  // in issue order
    Times computing, exchanging;
};
RankWork work_of(const TaskGraph& graph, const Timeline& timeline, int rank) {
    RankWork work;
    for (TaskId t = 0; t < graph.size(); ++t) {
        bool computes = false, takes_part = false;
        for (const Place& place : graph.places(t)) {
            if (place.rank() != rank || place.lane() == Lane::host) continue;
            takes_part = true;
            computes = computes || place.lane() == Lane::compute;
        }
        if (!takes_part) continue;
        (computes ? work.computing : work.exchanging) +=
            Times::interval_type::right_open(timeline.start[t].si(), timeline.finish[t].si());
        if (computes) work.kernels.push_back(t);
    }
    return work;
}

// A box is a slot, or one turn of slots that alternate. Kernels outside any slot are grouped by
// phase.
std::vector<GanttBox> boxes_of(const RankWork& work, const Timeline& timeline,
                               const TaskGraph& graph) {
    std::vector<GanttBox> boxes;
    std::pair<int, int> of_last;
    for (const TaskId t : work.kernels) {
        const TaskLabel& label = graph.label(t);
        const bool in_slot = label.slot >= 0;
        const std::pair slot(label.slot, label.turn);
        const GanttKind kind = in_slot ? kind_of(label.pass) : kind_of(graph.phase(t));
        const bool waited = !in_slot && !boxes.empty() &&
                            timeline.start[t] - boxes.back().finish > long_wait * timeline.end;
        if (boxes.empty() || slot != of_last || boxes.back().kind != kind || waited)
            boxes.push_back({kind, timeline.start[t], {}, label.micro_batch});
        boxes.back().finish = timeline.finish[t];  // kernels of a rank run one after another
        of_last = slot;
    }
    return boxes;
}

void add_waits(const RankWork& work, Seconds step, std::vector<GanttBox>& boxes) {
    const auto add = [&](GanttKind kind, const Times& times) {
        for (const auto& time : times)
            boxes.push_back({kind, Seconds(time.lower()), Seconds(time.upper()), -1});
    };
    add(GanttKind::exchange, work.exchanging - work.computing);
    add(GanttKind::idle,
        Times(Times::interval_type::right_open(0, step.si())) - work.computing - work.exchanging);
}

// The ranks to show, in rising order, each with its label.
std::vector<std::pair<int, std::string>> shown_ranks(const TaskGraph& graph,
                                                     const Timeline& timeline) {
    const int ranks = graph.rank_count(), slowest = slowest_rank(graph, timeline);
    std::map<int, std::string> shown;
    const auto add = [&](int rank, const char* what) {
        shown[rank] += shown[rank].empty() ? what : std::string(", ") + what;
    };
    if (ranks <= most_rows)
        for (int rank = 0; rank < ranks; ++rank) shown[rank] = "";
    std::vector<int> by_work(as_index(ranks));
    std::iota(by_work.begin(), by_work.end(), 0);
    if (ranks > most_rows) {
        const std::vector<Seconds> work =
            busy_times(graph, timeline,
                       [](TaskId, const Place& place) { return place.lane() == Lane::compute; });
        std::ranges::stable_sort(by_work, {}, [&](int rank) { return work[as_index(rank)]; });
        add(by_work[by_work.size() / 2], "median");
    }
    add(0, "first");
    add(slowest, "slowest");
    return {shown.begin(), shown.end()};
}

// The memory of the rank that is fullest at any time, until the end of the step.
void add_memory(const Experiment& e, const Routing& routing, const TaskGraph& graph,
                const Timeline& timeline, Gantt& gantt) {
    const std::vector<MemoryPoint> points =
        memory_points(e, routing, graph, to_trace(graph, timeline));
    if (points.empty()) return;
    const int rank = std::ranges::max_element(points, {}, &MemoryPoint::in_use)->rank;
    gantt.memory_label = fmt::format("memory of rank {}", rank);
    gantt.capacity = e.cluster.gpu.memory;
    for (const MemoryPoint& point : points)
        if (point.rank == rank) gantt.memory.emplace_back(point.time, point.in_use);
    gantt.memory.emplace_back(timeline.end, gantt.memory.front().second);
}

}  // namespace

Gantt gantt_of(const Experiment& e, const Prediction& prediction) {
    return gantt_of(e, routing_of(e, prediction.forecast.median_draw), prediction.graph,
                    prediction.timeline);
}

Gantt gantt_of(const Experiment& e, const Routing& routing, const TaskGraph& graph,
               const Timeline& timeline) {
    Gantt gantt{.title = e.name,
                .step = timeline.end,
                .rows = {},
                .memory_label = {},
                .memory = {},
                .capacity = {}};
    for (const auto& [rank, what] : shown_ranks(graph, timeline)) {
        const RankWork work = work_of(graph, timeline, rank);
        GanttRow row{fmt::format("rank {}{}", rank, what.empty() ? "" : " (" + what + ")"),
                     boxes_of(work, timeline, graph)};
        add_waits(work, timeline.end, row.boxes);
        gantt.rows.push_back(std::move(row));
    }
    add_memory(e, routing, graph, timeline, gantt);
    return gantt;
}

}  // namespace stepcast
