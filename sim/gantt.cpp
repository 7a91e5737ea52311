#include "sim/gantt.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "model/step.h"
#include "model/transformer/step.h"
#include "sim/breakdown.h"
#include "sim/memory/memory.h"

namespace stepcast {
namespace {

constexpr int most_rows = 8;
constexpr double long_wait = 0.004;  // of the step: one that a picture shows parts a box

using Times = std::vector<std::pair<Seconds, Seconds>>;  // begin and end, by rising begin

// Overlapping and touching ones as one.
Times joined(Times times) {
    std::ranges::sort(times);
    Times out;
    for (const auto& [begin, end] : times) {
        if (end <= begin) continue;
        if (!out.empty() && begin <= out.back().second)
            out.back().second = std::max(out.back().second, end);
        else
            out.emplace_back(begin, end);
    }
    return out;
}

// What of `all` lies outside `covered`; both in rising order, without overlaps.
Times outside(const Times& all, const Times& covered) {
    Times out;
    auto next = covered.begin();
    for (auto [begin, end] : all) {
        while (next != covered.end() && next->second <= begin) ++next;
        for (auto c = next; c != covered.end() && c->first < end; ++c) {
            if (c->first > begin) out.emplace_back(begin, c->first);
            begin = std::max(begin, c->second);
        }
        if (begin < end) out.emplace_back(begin, end);
    }
    return out;
}

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

// What the devices of one rank do.
struct RankWork {
    std::vector<TaskId> kernels;  // in issue order
    Times computing, exchanging;  // a kernel after the other; joined
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
        (computes ? work.computing : work.exchanging).emplace_back(timeline.start[t], timeline.finish[t]);
        if (computes) work.kernels.push_back(t);
    }
    work.exchanging = joined(std::move(work.exchanging));
    return work;
}

// Slots as the builder wrote them; kernels of none, and all kernels where there are no slots, by their phase.
std::vector<GanttBox> boxes_of(const RankWork& work, const Timeline& timeline, const TaskGraph& graph, int stage,
                               const WrittenSlots& written) {
    std::map<TaskId, const WrittenSlot*> by_first;  // slots of a stage do not overlap
    for (const WrittenSlot& w : written.pieces)
        if (w.stage == stage) by_first.emplace(w.first, &w);
    std::vector<GanttBox> boxes;
    const WrittenSlot* of_last = nullptr;
    for (const TaskId t : work.kernels) {
        const auto after = by_first.upper_bound(t);
        const WrittenSlot* slot = after == by_first.begin() ? nullptr : std::prev(after)->second;
        if (slot && t >= slot->last) slot = nullptr;
        const GanttKind kind = slot ? kind_of(slot->slot.pass) : kind_of(graph.phase(t));
        const bool waited = !slot && !boxes.empty() && timeline.start[t] - boxes.back().finish > long_wait * timeline.end;
        if (boxes.empty() || slot != of_last || boxes.back().kind != kind || waited)
            boxes.push_back({kind, timeline.start[t], {}, slot ? slot->slot.micro_batch : -1});
        boxes.back().finish = timeline.finish[t];  // kernels of a rank follow each other
        of_last = slot;
    }
    return boxes;
}

void add_waits(const RankWork& work, Seconds step, std::vector<GanttBox>& boxes) {
    for (const auto& [begin, end] : outside(work.exchanging, work.computing))
        boxes.push_back({GanttKind::exchange, begin, end, -1});
    Times busy = work.computing;
    busy.insert(busy.end(), work.exchanging.begin(), work.exchanging.end());
    for (const auto& [begin, end] : outside({{Seconds(0), step}}, joined(std::move(busy))))
        boxes.push_back({GanttKind::idle, begin, end, -1});
}

Seconds busy(const RankWork& work) {
    Seconds sum;
    for (const auto& [begin, end] : work.computing) sum += end - begin;
    return sum;
}

// Ranks with what they are, in rising order.
std::vector<std::pair<int, std::string>> shown_ranks(const TaskGraph& graph, const Timeline& timeline) {
    const int ranks = graph.rank_count(), slowest = slowest_rank(graph, timeline);
    std::map<int, std::string> shown;
    const auto add = [&](int rank, const char* what) { shown[rank] += shown[rank].empty() ? what : std::string(", ") + what; };
    if (ranks <= most_rows)
        for (int rank = 0; rank < ranks; ++rank) shown[rank] = "";
    std::vector<int> by_work(static_cast<std::size_t>(ranks));
    std::iota(by_work.begin(), by_work.end(), 0);
    if (ranks > most_rows) {
        std::vector<Seconds> work;
        for (const int rank : by_work) work.push_back(busy(work_of(graph, timeline, rank)));
        std::ranges::stable_sort(by_work, {}, [&](int rank) { return work[static_cast<std::size_t>(rank)]; });
        add(by_work[by_work.size() / 2], "median");
    }
    add(0, "first");
    add(slowest, "slowest");
    return {shown.begin(), shown.end()};
}

void add_memory(const Experiment& e, const Routing& routing, const Timeline& timeline, const WrittenSlots& written,
                const TaskGraph& graph, Gantt& gantt) {
    std::vector<std::vector<SlotMemory>> stages;
    Bytes most;
    std::size_t fullest = 0;
    for (int stage = 0; stage < e.parallelism.pp; ++stage) {
        stages.push_back(memory_of_slots(e, stage, routing));
        for (const SlotMemory& m : stages.back())
            if (m.during > most) most = m.during, fullest = static_cast<std::size_t>(stage);
    }
    const auto rank = static_cast<int>(std::ranges::find(written.stage_of_rank, static_cast<int>(fullest)) -
                                       written.stage_of_rank.begin());
    gantt.memory_label = fmt::format("memory of rank {}", rank);
    gantt.capacity = e.cluster.gpu.memory;
    std::size_t slot = 0;
    for (const WrittenSlot& w : written.slots) {
        if (w.stage != static_cast<int>(fullest)) continue;
        Seconds start = timeline.end, finish;
        for (TaskId t = w.first; t < w.last; ++t)
            for (const Place& place : graph.places(t))
                if (place.rank() == rank && place.lane() == Lane::compute)
                    start = std::min(start, timeline.start[t]), finish = std::max(finish, timeline.finish[t]);
        const SlotMemory& m = stages[fullest][slot++];
        if (gantt.memory.empty()) gantt.memory.emplace_back(Seconds(0), m.after);
        gantt.memory.emplace_back(start, m.during);
        gantt.memory.emplace_back(finish, m.after);
    }
    if (gantt.memory.empty()) return;
    gantt.memory.front().second = gantt.memory.back().second;  // as after the step: nothing waits
    gantt.memory.emplace_back(timeline.end, gantt.memory.back().second);
}

}  // namespace

Gantt gantt_of(const Experiment& e, const Prediction& prediction) {
    return gantt_of(e, routing_of(e, prediction.forecast.median_draw), prediction.graph, prediction.timeline);
}

Gantt gantt_of(const Experiment& e, const Routing& routing, const TaskGraph& graph, const Timeline& timeline) {
    Gantt gantt{.title = e.name, .step = timeline.end, .rows = {}, .memory_label = {}, .memory = {}, .capacity = {}};
    const bool slots = e.workload.kind == Workload::Kind::transformer && !e.parallelism.eager_script;
    WrittenSlots written;
    if (slots) written = written_slots(e, routing);
    for (const auto& [rank, what] : shown_ranks(graph, timeline)) {
        const RankWork work = work_of(graph, timeline, rank);
        const int stage = slots ? written.stage_of_rank[static_cast<std::size_t>(rank)] : 0;
        GanttRow row{fmt::format("rank {}{}", rank, what.empty() ? "" : " (" + what + ")"),
                     boxes_of(work, timeline, graph, stage, written)};
        add_waits(work, timeline.end, row.boxes);
        gantt.rows.push_back(std::move(row));
    }
    if (slots) add_memory(e, routing, timeline, written, graph, gantt);
    return gantt;
}

}  // namespace stepcast
