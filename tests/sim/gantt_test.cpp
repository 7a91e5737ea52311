#include <algorithm>

#include <catch2/catch.hpp>

#include "model/step.h"
#include "sim/gantt.h"
#include "sim/memory/allocator_forecast.h"
#include "tests/graphs.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

Experiment pipeline(Schedule schedule) {
    Experiment e = small_gpt();
    e.cluster.nodes = 1;
    e.cluster.gpus_per_node = 2;
    e.parallelism.dp = 1;
    e.parallelism.pp = 2;
    e.parallelism.global_batch = 4;
    e.parallelism.schedule = schedule;
    return e;
}

Gantt picture(const Experiment& e) { return gantt_of(e, predict_step(e)); }

std::vector<std::pair<GanttKind, int>> slots_of(const GanttRow& row) {
    std::vector<std::pair<GanttKind, int>> slots;
    for (const GanttBox& box : row.boxes)
        if (box.micro_batch >= 0) slots.emplace_back(box.kind, box.micro_batch);
    return slots;
}

Seconds sum(const GanttRow& row, GanttKind kind) {
    Seconds total;
    for (const GanttBox& box : row.boxes)
        if (box.kind == kind) total += box.finish - box.start;
    return total;
}

// A model without slots (an MLP), so that boxes are phases.
Gantt picture_of_phases(const TaskGraph& graph, const Timeline& timeline) {
    Experiment e;
    e.name = "by hand";
    e.workload.kind = Workload::Kind::mlp;
    return gantt_of(e, {}, graph, timeline);
}

}  // namespace

// Of 1,000 s: a wait of more than 0.4 % of the step separates two boxes of a phase, a shorter wait
// does not. The first all-reduce begins within the first forward and runs alone from 3 to 5 s. The
// second begins when the first ends, runs beside the backward and ends within it. The call is host
// time.
TEST_CASE(
    "a picture of a graph without slots shows phases, exchanges that are alone and idle time") {
    using graphs::compute, graphs::collective;
    TaskGraph graph(1);
    Timeline timeline;
    const auto add = [&](Phase phase, const Op& op, Lane lane, double start, double finish) {
        graph.add("task", phase, op, {{0, lane}}, {});
        timeline.start.emplace_back(start);
        timeline.finish.emplace_back(finish);
        timeline.end = std::max(timeline.end, Seconds(finish));
    };
    add(Phase::forward, HostWork{}, Lane::host, 0, 900);
    add(Phase::forward, graphs::small_gemm(), Lane::compute, 0, 2);
    add(Phase::forward, AllReduce{Bytes(8)}, Lane::collective, 1, 5);
    add(Phase::forward, graphs::small_gemm(), Lane::compute, 2, 3);
    add(Phase::backward, AllReduce{Bytes(8)}, Lane::data, 5, 8);
    add(Phase::backward, graphs::small_gemm(), Lane::compute, 5, 11);
    // does not split idle time
    add(Phase::optimizer, AllReduce{Bytes(0)}, Lane::collective, 12, 12);
    add(Phase::optimizer, graphs::small_gemm(), Lane::compute, 13, 17);
    add(Phase::optimizer, graphs::small_gemm(), Lane::compute, 20.5, 23);
    add(Phase::optimizer, graphs::small_gemm(), Lane::compute, 27.5, 1000);
    const auto box = [](GanttKind kind, double start, double finish) {
        return GanttBox{kind, Seconds(start), Seconds(finish), -1};
    };
    const Gantt expected{
        .title = "by hand",
        .step = Seconds(1000),
        .rows = {{"rank 0 (first, slowest)",
                  {box(GanttKind::forward, 0, 3), box(GanttKind::backward, 5, 11),
                   box(GanttKind::optimizer, 13, 23), box(GanttKind::optimizer, 27.5, 1000),
                   box(GanttKind::exchange, 3, 5), box(GanttKind::idle, 11, 13),
                   box(GanttKind::idle, 17, 20.5), box(GanttKind::idle, 23, 27.5)}}},
        .memory_label = {},
        .memory = {},
        .capacity = {}};
    const Gantt found = picture_of_phases(graph, timeline);
    CHECK(found.rows[0].boxes == expected.rows[0].boxes);
    CHECK(found == expected);
}

// Nine ranks that compute from 0 on, each for its given time. The median of nine is the fifth, 5 of
// rank 7; the last to end is rank 3, which waits first. With eight ranks the picture shows all.
TEST_CASE("of many ranks a picture shows the first, the one of median work and the slowest") {
    const auto labels = [](const std::vector<double>& work, std::size_t late) {
        TaskGraph graph(static_cast<int>(work.size()));
        Timeline timeline;
        for (std::size_t r = 0; r < work.size(); ++r) {
            const double start = r == late ? 100 : 0;
            graph.add("task", Phase::forward, graphs::small_gemm(),
                      {graphs::compute(static_cast<int>(r))}, {});
            timeline.start.emplace_back(start);
            timeline.finish.emplace_back(start + work[r]);
            timeline.end = std::max(timeline.end, timeline.finish.back());
        }
        std::vector<std::string> found;
        for (const GanttRow& row : picture_of_phases(graph, timeline).rows)
            found.push_back(row.label);
        return found;
    };
    CHECK(labels({6, 1, 7, 2, 8, 3, 9, 5, 4}, 3) ==
          std::vector<std::string>{"rank 0 (first)", "rank 3 (slowest)", "rank 7 (median)"});
    CHECK(labels({5, 1, 7, 2, 8, 3, 9, 4, 6}, 0) ==
          std::vector<std::string>{"rank 0 (median, first, slowest)"});
    CHECK(labels({6, 1, 7, 2, 8, 3, 9, 5}, 3) ==
          std::vector<std::string>{"rank 0 (first)", "rank 1", "rank 2", "rank 3 (slowest)",
                                   "rank 4", "rank 5", "rank 6", "rank 7"});
}

// Two stages, four micro-batches. GPipe: all forwards, then all backwards. 1F1B: the last stage
// alternates, the first is one forward ahead.
TEST_CASE("a picture of a pipeline has the slots of its schedule, in their order") {
    constexpr auto F = GanttKind::forward, B = GanttKind::backward;
    const Gantt gpipe = picture(pipeline(Schedule::gpipe));
    REQUIRE(gpipe.rows.size() == 2);
    for (const GanttRow& row : gpipe.rows) {
        const auto slots = slots_of(row);
        REQUIRE(slots.size() == 8);
        CHECK(std::all_of(slots.begin(), slots.begin() + 4,
                          [](const auto& s) { return s.first == F; }));
        CHECK(std::all_of(slots.begin() + 4, slots.end(),
                          [](const auto& s) { return s.first == B; }));
    }
    const Gantt one = picture(pipeline(Schedule::one_f_one_b));
    CHECK(slots_of(one.rows[0]) ==
          std::vector<std::pair<GanttKind, int>>{
              {F, 0}, {F, 1}, {B, 0}, {F, 2}, {B, 1}, {F, 3}, {B, 2}, {B, 3}});
    CHECK(slots_of(one.rows[1]) ==
          std::vector<std::pair<GanttKind, int>>{
              {F, 0}, {B, 0}, {F, 1}, {B, 1}, {F, 2}, {B, 2}, {F, 3}, {B, 3}});
    CHECK(one.rows[0].label.find("first") != std::string::npos);
}

// A rank's kernels, exposed exchanges and idle time fill the step; kernels and exchanges never lie
// in idle time.
TEST_CASE("idle time, exchanges alone and kernels fill the step of every rank") {
    for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::zb_h1}) {
        Experiment e = pipeline(schedule);
        e.cluster.interference = {};
        const TaskGraph graph = build_step(e, {});
        Timeline timeline;
        run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
        const Gantt gantt = gantt_of(e, {}, graph, timeline);
        CHECK(gantt.step == timeline.end);
        for (int rank = 0; rank < 2; ++rank) {
            Seconds kernels;  // of one lane: they do not overlap
            for (TaskId t = 0; t < graph.size(); ++t)
                for (const Place& place : graph.places(t))
                    if (place.rank() == rank && place.lane() == Lane::compute)
                        kernels += timeline.finish[t] - timeline.start[t];
            const GanttRow& row = gantt.rows[static_cast<std::size_t>(rank)];
            CHECK((kernels + sum(row, GanttKind::exchange) + sum(row, GanttKind::idle)).si() ==
                  Approx(timeline.end.si()));
        }
        CHECK((sum(gantt.rows[0], GanttKind::weight_backward) > Seconds(0)) ==
              (schedule == Schedule::zb_h1));
    }
}

// Four stages that end at different times and clip by one global norm: between the norm of its own
// gradients and the global norm a rank waits for the others, and that wait is no time in its
// optimizer.
TEST_CASE("a picture's optimizer does not reach over the wait for other stages") {
    Experiment e = pipeline(Schedule::one_f_one_b);
    e.cluster.gpus_per_node = 4;
    e.parallelism.pp = 4;
    const Gantt gantt = picture(e);
    REQUIRE(gantt.rows.size() == 4);
    Seconds waited;
    for (const GanttRow& row : gantt.rows)
        for (const GanttBox& idle : row.boxes) {
            if (idle.kind != GanttKind::idle || idle.finish - idle.start < 0.005 * gantt.step)
                continue;
            waited += idle.finish - idle.start;
            for (const GanttBox& box : row.boxes)
                CHECK((box.kind != GanttKind::optimizer || box.finish <= idle.start ||
                       box.start >= idle.finish));
        }
    CHECK(waited > 0.1 * gantt.step);
}

TEST_CASE("the memory beneath a picture peaks at what the forecast says and ends where it began") {
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
        const Experiment e = pipeline(schedule);
        const Gantt gantt = picture(e);
        REQUIRE_FALSE(gantt.memory.empty());
        Bytes most;
        for (const auto& [time, bytes] : gantt.memory) most = std::max(most, bytes);
        CHECK(most == memory_forecast(e).peak);
        CHECK(gantt.memory.front().second == gantt.memory.back().second);
        CHECK(std::ranges::is_sorted(gantt.memory, {},
                                     [](const auto& point) { return point.first; }));
    }
}

// The first of two stages keeps two micro-batches and is the fuller one. Points: the start of the
// step, the begin and end of each of its eight slots, of which the update follows the last, and the
// end of the step.
TEST_CASE("the memory beneath a picture is the fullest stage's, slot by slot") {
    const Experiment e = pipeline(Schedule::one_f_one_b);
    const Gantt gantt = picture(e);
    const std::vector<SlotMemory> slots = memory_of_slots(e, {}, 0);
    REQUIRE(slots.size() == 9);
    std::vector<std::pair<Seconds, Bytes>> expected{{Seconds(0), slots.back().after}};
    std::size_t slot = 0;
    for (const GanttBox& box : gantt.rows[0].boxes) {
        if (box.micro_batch < 0) continue;
        expected.emplace_back(box.start, slots[slot].during);
        expected.emplace_back(box.finish, slots[slot++].after);
    }
    expected.back().second = slots.back().during;
    expected.emplace_back(gantt.step, slots.back().after);
    CHECK(gantt.memory == expected);
    CHECK(gantt.memory_label == "memory of rank 0");
    CHECK(gantt.capacity == e.cluster.gpu.memory);
    Experiment last = e;  // its head's logits outweigh what the first stage keeps
    last.workload.vocab = 200'000;
    CHECK(picture(last).memory_label == "memory of rank 1");
}
