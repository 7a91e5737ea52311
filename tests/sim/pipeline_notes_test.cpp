#include "sim/pipeline_notes.h"

#include <catch2/catch.hpp>

#include <fmt/format.h>

#include "sim/predict.h"
#include "tests/graphs.h"
#include "tests/literals.h"
#include "tests/transformers.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// Stages of 1, 1, 2 and 4 s of 5: the mean is 2, the median 2.
TEST_CASE("unequal stages cost what the fullest works beyond the mean") {
    TaskGraph graph{4};
    Timeline timeline;
    const auto add = [&](const char* name, const Op& op, std::vector<Place> places, double start,
                         double finish) {
        graph.add(name, Phase::forward, op, places, {});
        timeline.start.emplace_back(start);
        timeline.finish.emplace_back(finish);
        timeline.end = std::max(timeline.end, timeline.finish.back());
    };
    for (const auto& [rank, time] : {std::pair{0, 1.0}, {1, 1.0}, {2, 2.0}, {3, 4.0}})
        add(rank == 3 ? "logits" : "gemm", graphs::small_gemm(), {{rank, Lane::compute}}, 0, time);
    CHECK_FALSE(unequal_stages(graph, timeline));  // no pipeline
    for (int rank = 0; rank < 3; ++rank)
        add("send", SendRecv{8_B}, {{rank, Lane::send_down}, {rank + 1, Lane::receive_up}}, 4, 5);
    const auto found = unequal_stages(graph, timeline);
    REQUIRE(found);
    CHECK((found->stage == 3 && found->stages == 4 && found->logits));
    CHECK(found->over_median == 2);
    CHECK(found->lost == 2_s);
    timeline.end = 21_s;  // less than a tenth
    CHECK_FALSE(unequal_stages(graph, timeline));
}

Experiment blocking_stages() {
    Experiment e = small_gpt();
    e.cluster.nodes = 1;
    e.cluster.gpus_per_node = 2;
    e.cluster.host.message = 3_ms;
    e.parallelism.pp = 2;
    e.parallelism.global_batch = 4;
    e.runtime.pipeline.blocking = true;
    e.runtime.pipeline.messages_per_tensor = 3;
    e.runtime.pipeline.messages_per_tuple = 2;
    return e;
}

double ms_of(const Experiment& e) { return steps_of_draws(e).front().si() * 1e3; }

// Of 10 s: rank 0 computes 3 s; rank 1 computes 4 s and spends 2 s in a message; rank 2 exchanges 5
// s within its stage; rank 3 computes 1 s. Other host work, and a send on a lane of its own, do not
// count as busy.
struct Busy {
    TaskGraph graph{4};
    Timeline timeline;
    void add(const Op& op, Place place, double start, double finish) {
        graph.add("task", Phase::forward, op, {place}, {});
        timeline.start.emplace_back(start);
        timeline.finish.emplace_back(finish);
    }
    explicit Busy(const Op& message) {
        add(graphs::small_gemm(), {0, Lane::compute}, 0, 3);
        add(graphs::small_gemm(), {1, Lane::compute}, 1, 5);
        add(message, {1, Lane::host}, 5, 7);
        add(AllReduce{8_B}, {2, Lane::collective}, 2, 7);
        add(HostWork{}, {0, Lane::host}, 0, 9);
        add(AllReduce{8_B}, {0, Lane::data}, 3, 10);
        add(graphs::small_gemm(), {3, Lane::compute}, 0, 1);
        timeline.end = 10_s;
    }
};

}  // namespace

TEST_CASE("what limits a pipeline is the rank that is busiest, else the one that ends last") {
    const Busy pipelined(SendRecv{8_B, 1});
    CHECK(limiting_rank(pipelined.graph, pipelined.timeline) == 1);
    const Busy alone(HostWork{});
    CHECK(limiting_rank(alone.graph, alone.timeline) == 0);
    const std::vector<std::string> notes =
        pipeline_notes(blocking_stages(), pipelined.graph, pipelined.timeline);
    REQUIRE(notes.size() == 3);
    CHECK(notes[0] ==
          "rank 1 limits the pipeline: 60 % of the step computing or in messages, rank 2 as the "
          "next 50 %");
    Busy first(SendRecv{8_B, 1});  // 4 s more on rank 0: 7 s against 6 s on rank 1
    first.add(graphs::small_gemm(), {0, Lane::compute}, 6, 10);
    CHECK(pipeline_notes(blocking_stages(), first.graph, first.timeline)[0] ==
          "rank 0 limits the pipeline: 70 % of the step computing or in messages, rank 1 as the "
          "next 60 %");
    Experiment other = blocking_stages();
    other.runtime.pipeline.blocking = false;
    CHECK(pipeline_notes(other, pipelined.graph, pipelined.timeline).empty());
    other = blocking_stages();
    other.parallelism.pp = 1;
    CHECK(pipeline_notes(other, pipelined.graph, pipelined.timeline).empty());
}

// Each figure of a note is the step of the experiment with that one thing changed.
TEST_CASE(
    "notes on blocking messages say what the step would be without them, and what it cannot tell") {
    const Experiment e = blocking_stages();
    const Busy any(SendRecv{8_B, 1});
    const auto notes = [&](const Experiment& of) {
        return pipeline_notes(of, any.graph, any.timeline);
    };
    Experiment free = e, data_alone = e, gpipe = e, faster = e;
    free.cluster.host.message = Seconds(0);
    data_alone.runtime.pipeline.messages_per_tensor = 1;
    data_alone.runtime.pipeline.messages_per_tuple = 0;
    gpipe.parallelism.schedule = Schedule::gpipe;
    faster.cluster.intra.bandwidth *= 2;
    const double step = ms_of(e);
    REQUIRE(ms_of(free) < 0.9 * step);
    REQUIRE(ms_of(data_alone) < 0.9 * step);
    CHECK(notes(e)[1] == fmt::format("what the messages between stages cost the hosts is {:.0f} % "
                                     "of the step ({:.0f} ms without; {:.0f} ms with one "
                                     "message a tensor and no headers)",
                                     100 * (1 - ms_of(free) / step), ms_of(free),
                                     ms_of(data_alone)));
    CHECK(notes(e)[2] == fmt::format("schedule and link speed are not determined by such a step, "
                                     "their priors are used: gpipe instead of 1f1b {:.0f} ms, "
                                     "a link twice as fast {:.0f} ms, against {:.0f} ms; the cost "
                                     "of a message makes up for either",
                                     ms_of(gpipe), ms_of(faster), step));
    CHECK_THAT(notes(gpipe)[2],
               Catch::Contains(fmt::format("1f1b instead of gpipe {:.0f} ms", step)));

    Experiment fitted = e;
    fitted.cluster.fitted.emplace();
    fitted.cluster.fitted->parameters = {{"host.call", "5 us", "7 us", 0.1, true},
                                         {"host.message", "3 ms", "5 ms", 0.1, false}};
    CHECK(notes(fitted).size() == 3);  // not determined
    fitted.cluster.fitted->parameters[1].determined = true;
    Experiment before = e;
    before.cluster.host.message = 5_ms;
    REQUIRE(notes(fitted).size() == 4);
    CHECK(notes(fitted)[0] ==
          fmt::format("from priors alone (datasheet, the run's layer timers, one message 5 ms; "
                      "nothing fitted to a step): {:.0f} ms; with "
                      "the message fitted to steps of the run (3 ms): {:.0f} ms",
                      ms_of(before), step));
    fitted.cluster.fitted->parameters[1].prior = "3 ms";
    CHECK(notes(fitted)[0] == "from priors alone: no constant was fitted to a step time");
}
