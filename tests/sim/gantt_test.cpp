#include "sim/gantt.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/step.h"
#include "model/transformer/step.h"
#include "sim/memory/memory.h"
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

}  // namespace

// Two stages, four micro-batches. GPipe: all forwards, then all backwards. 1F1B: the last stage alternates, the first keeps
// one forward ahead.
TEST_CASE("a picture of a pipeline has the slots of its schedule, in their order") {
    constexpr auto F = GanttKind::forward, B = GanttKind::backward;
    const Gantt gpipe = picture(pipeline(Schedule::gpipe));
    REQUIRE(gpipe.rows.size() == 2);
    for (const GanttRow& row : gpipe.rows) {
        const auto slots = slots_of(row);
        REQUIRE(slots.size() == 8);
        CHECK(std::all_of(slots.begin(), slots.begin() + 4, [](const auto& s) { return s.first == F; }));
        CHECK(std::all_of(slots.begin() + 4, slots.end(), [](const auto& s) { return s.first == B; }));
    }
    const Gantt one = picture(pipeline(Schedule::one_f_one_b));
    CHECK(slots_of(one.rows[0]) == std::vector<std::pair<GanttKind, int>>{
                                       {F, 0}, {F, 1}, {B, 0}, {F, 2}, {B, 1}, {F, 3}, {B, 2}, {B, 3}});
    CHECK(slots_of(one.rows[1]) == std::vector<std::pair<GanttKind, int>>{
                                       {F, 0}, {B, 0}, {F, 1}, {B, 1}, {F, 2}, {B, 2}, {F, 3}, {B, 3}});
    CHECK(one.rows[0].label.find("first") != std::string::npos);
}

// What the devices of a rank do and do not do fills the step; kernels and exchanges never lie in idle time.
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
        CHECK((sum(gantt.rows[0], GanttKind::weight_backward) > Seconds(0)) == (schedule == Schedule::zb_h1));
    }
}

// Four stages that end at different times and clip by one norm of all: between the norm of a rank's own gradients and the
// norm of all it waits for the others, which is no time in its optimizer.
TEST_CASE("a picture's optimizer does not reach over the wait for other stages") {
    Experiment e = pipeline(Schedule::one_f_one_b);
    e.cluster.gpus_per_node = 4;
    e.parallelism.pp = 4;
    const Gantt gantt = picture(e);
    REQUIRE(gantt.rows.size() == 4);
    Seconds waited;
    for (const GanttRow& row : gantt.rows)
        for (const GanttBox& idle : row.boxes) {
            if (idle.kind != GanttKind::idle || idle.finish - idle.start < 0.005 * gantt.step) continue;
            waited += idle.finish - idle.start;
            for (const GanttBox& box : row.boxes)
                CHECK((box.kind != GanttKind::optimizer || box.finish <= idle.start || box.start >= idle.finish));
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
        CHECK(most == transformer_memory(e).peak);
        CHECK(gantt.memory.front().second == gantt.memory.back().second);
        CHECK(std::ranges::is_sorted(gantt.memory, {}, [](const auto& point) { return point.first; }));
    }
}

// What the builder says of its slots: they are there once each, and cover every forward and backward kernel.
TEST_CASE("the slots of a step are the tasks that were written for them") {
    const Experiment e = pipeline(Schedule::one_f_one_b);
    const TaskGraph graph = build_transformer_step(e, {});
    const WrittenSlots written = written_slots(e, {});
    CHECK(written.stage_of_rank == std::vector<int>{0, 1});
    CHECK(written.slots.size() == 16);
    std::vector<bool> in_slot(graph.size());
    for (const WrittenSlot& w : written.slots) {
        REQUIRE(w.first < w.last);
        for (TaskId t = w.first; t < w.last; ++t) in_slot[t] = true;
    }
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.places(t).front().lane() == Lane::compute && graph.phase(t) != Phase::optimizer)
            CHECK((in_slot[t] || graph.phase(t) == Phase::gradient_sync));
}
