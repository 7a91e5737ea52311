// execute() on a device whose clocks are written down.
#include <catch2/catch.hpp>

#include "exec/execute.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// One sample of two ranks, in seconds after it begins.
struct ScriptedSample {
    double end = 6;  // of the exchange on rank 0; on rank 1 a quarter earlier
    double begins = 0;
    double cpu_share = 1, clock_error = 0;  // of rank 1
    bool asks_to_stop = false;
};

// Holds rank 0 of two; what another process's rank 1 would report is in the script too. Rank 0
// begins at 10 and computes to 11, rank 1 begins at 9 and computes from 9.5 to 12, then both
// exchange. The last sample repeats.
class ScriptedDevice final : public Device {
public:
    explicit ScriptedDevice(std::vector<ScriptedSample> samples) : samples_(std::move(samples)) {}

    std::vector<std::string> calls;

    [[nodiscard]] std::string description() const override { return "a script"; }
    [[nodiscard]] std::vector<std::string> versions() const override { return {"script 3"}; }
    [[nodiscard]] int rank_count() const override { return 2; }
    [[nodiscard]] std::vector<int> local_ranks() const override { return {0}; }
    std::vector<std::string> prepare(const TaskGraph&, Seconds timeout) override {
        return {"prepared for " + to_string(timeout)};
    }
    void attach(int rank) override { call("attach", rank); }
    Seconds begin_step(int rank) override {
        call("begin", rank);
        return Seconds(10 + now().begins);
    }
    void wait(TaskId task, int rank, TaskId predecessor) override {
        call("wait " + std::to_string(task) + " for " + std::to_string(predecessor), rank);
    }
    void launch(TaskId task, const Op&, int rank) override {
        call("launch " + std::to_string(task), rank);
    }
    void record(TaskId task, int rank, Edge edge) override {
        call((edge == Edge::start ? "start " : "finish ") + std::to_string(task), rank);
    }
    void synchronize(int rank) override { call("synchronize", rank); }
    [[nodiscard]] Seconds elapsed(TaskId task, int, Edge edge) const override {
        const double since = edge == Edge::start ? (task == 0 ? 10 : 11)
                             : task == 0         ? 11
                                                 : 9 + now().end;
        return Seconds(since + now().begins);
    }
    [[nodiscard]] std::vector<std::string> kernels() const override { return {"a kernel"}; }
    [[nodiscard]] Seconds clock_error(int) const override { return Seconds(0.001); }
    [[nodiscard]] double cpu_share(int) const override { return 0.99; }
    std::vector<std::string> doubts() override { return {"a doubt"}; }
    std::vector<std::vector<double>> gather(int rank, std::vector<double> values) override {
        call("gather", rank);
        const ScriptedSample& s = now();
        std::vector<double> other{9,  s.cpu_share, s.clock_error,   s.asks_to_stop ? 1.0 : 0.0, 9.5,
                                  12, 12,          9 + s.end - 0.25};
        for (const std::size_t i : {0u, 4u, 5u, 6u, 7u}) other[i] += s.begins;
        ++taken_;
        return {std::move(values), std::move(other)};
    }
    double broadcast(int, double value) override { return value; }
    void abort(int) noexcept override {}

private:
    void call(const std::string& what, int rank) {
        calls.push_back(what + " on " + std::to_string(rank));
    }
    [[nodiscard]] const ScriptedSample& now() const {
        return samples_[std::min(taken_, samples_.size() - 1)];
    }
    std::vector<ScriptedSample> samples_;
    std::size_t taken_ = 0;
};

TaskGraph passes_and_exchange() {
    TaskGraph graph(2, true);
    const TaskId zero =
        graph.add("pass", Phase::forward, MemoryPass{64_B, 64_B}, {Place(0, Lane::compute)}, {});
    const TaskId one =
        graph.add("pass", Phase::forward, MemoryPass{64_B, 64_B}, {Place(1, Lane::compute)}, {});
    graph.add("exchange", Phase::gradient_sync, AllReduce{64_B},
              {Place(0, Lane::collective), Place(1, Lane::collective)}, {zero, one});
    return graph;
}

ExecuteOptions so_many(int steps, int extra = 0) {
    ExecuteOptions options;
    options.steps = steps;
    options.warmup = 0;
    options.check_idle = false;
    options.retry.extra_steps = extra;
    options.timeout = 17_s;
    return options;
}

Measurement measured(std::vector<ScriptedSample> samples, const ExecuteOptions& options) {
    ScriptedDevice device(std::move(samples));
    return execute(passes_and_exchange(), device, options);
}

std::vector<ScriptedSample> of_lengths(const std::vector<double>& ends) {
    std::vector<ScriptedSample> samples;
    for (const double end : ends) samples.push_back({.end = end});
    return samples;
}

}  // namespace

// Times count from rank 1's begin, at 9: its pass from 0.5 to 3, that of rank 0 from 1 to 2. The
// exchange starts when the later arrives, at 3, and ends at 6 and 5.75.
TEST_CASE(
    "a sample's trace counts from the earliest begin, and exchanges from the latest arrival") {
    const TaskGraph graph = passes_and_exchange();
    ExecuteOptions options = so_many(1);
    options.warmup = 2;
    std::vector<std::size_t> seen;
    std::vector<std::string> progress;
    options.on_step = [&](const Measurement& m) { seen.push_back(m.traces.size()); };
    options.progress = [&](std::string_view text) { progress.emplace_back(text); };
    ScriptedDevice device(std::vector<ScriptedSample>{{.cpu_share = 0.98}});
    const Measurement m = execute(graph, device, options);
    REQUIRE(m.traces.size() == 1);
    const Trace expected{Trace::Origin::executed,
                         {{0, Place(0, Lane::compute), 1_s, 2_s},
                          {1, Place(1, Lane::compute), Seconds(0.5), 3_s},
                          {2, Place(0, Lane::collective), 3_s, 6_s},
                          {2, Place(1, Lane::collective), 3_s, Seconds(5.75)}}};
    CHECK(m.traces[0] == expected);
    CHECK(m.steps == std::vector<MeasuredStep>{{step_times(graph, expected), true, 0.98}});
    CHECK(m.steps[0].times.step == 6_s);
    CHECK(m.device == "a script");
    CHECK(m.versions == std::vector<std::string>{"script 3"});
    CHECK(m.kernels == std::vector<std::string>{"a kernel"});
    CHECK(m.warmup == 2);
    CHECK(m.date.size() == 20);
    CHECK(m.idle_share == 1);
    CHECK(m.warnings ==
          std::vector<std::string>{"prepared for 17 s", "too few: 1 undisturbed steps", "a doubt"});
    CHECK(m.quiet);
    CHECK(seen == std::vector<std::size_t>{1});
    CHECK(progress == std::vector<std::string>{"step 1 of 1"});
    // Each of two steps to warm up and one that counts: what rank 0 takes part in, after what it
    // waits for.
    std::vector<std::string> calls{"attach on 0"};
    for (int step = 0; step < 3; ++step)
        for (const char* one : {"begin", "start 0", "launch 0", "finish 0", "wait 2 for 0",
                                "wait 2 for 1", "start 2", "launch 2", "finish 2", "synchronize"})
            calls.push_back(std::string(one) + " on 0");
    calls.emplace_back("gather on 0");
    CHECK(device.calls == calls);
    options.steps = 0;
    CHECK(execute(graph, device, options).steps.empty());
}

// A rank that may leave early, before the last has arrived at 3, starts no later than it leaves.
TEST_CASE("who leaves an exchange early has no negative time in it") {
    const Trace trace = measured({{.end = 2.5, .clock_error = 1}}, so_many(1)).traces[0];
    CHECK(trace.spans[2].start == Seconds(2.5));
    CHECK(trace.spans[2].finish == Seconds(2.5));
    CHECK(trace.spans[3].start == Seconds(2.25));
}

// Below 97 % of a core a sample is kept and not counted. Of three that were asked for one is
// repeated, by at most two extra ones.
TEST_CASE("disturbed samples are repeated and named") {
    const ScriptedSample good{}, bad{.cpu_share = 0.9};
    const auto accepted = [](const Measurement& m) {
        std::vector<bool> all;
        for (const MeasuredStep& step : m.steps) all.push_back(step.accepted);
        return all;
    };
    std::vector<std::string> progress;
    ExecuteOptions told = so_many(3, 2);
    told.progress = [&](std::string_view text) { progress.emplace_back(text); };
    Measurement m = measured({good, bad, good, good}, told);
    CHECK(progress == std::vector<std::string>{"step 1 of 3", "step 2 of 3", "step 3 of 3",
                                               "step 4, 3 of 3 undisturbed"});
    CHECK(accepted(m) == std::vector<bool>{true, false, true, true});
    CHECK(m.warnings ==
          std::vector<std::string>{"prepared for 17 s", "too few: 3 undisturbed steps", "a doubt"});
    m = measured({bad}, so_many(3, 2));
    CHECK(accepted(m) == std::vector<bool>(5, false));
    CHECK_FALSE(m.quiet);
    CHECK(m.warnings ==
          std::vector<std::string>{
              "prepared for 17 s",
              "busy: 5 of 5 steps had a rank off its core for more than 3 % of the time",
              "no step of 5 was undisturbed; medians are over all", "a doubt"});
    // No extra sample later than the time for them, counted from the first sample's begin.
    ExecuteOptions soon = so_many(3, 5);
    soon.retry.wall_time = 20_s;
    const auto later = [&](double begins) {
        ScriptedSample s = bad;
        s.begins = begins;
        return s;
    };
    CHECK(measured({later(100), later(110), later(119), later(119.5), later(121)}, soon)
              .steps.size() == 5);
}

// Of 6 samples of 4 to 6 s the median lies between the first and the last: 5 +- 20 %, so that
// samples go on while there are extra ones. Of six equal ones it is known.
TEST_CASE("samples go on until their median is known well enough") {
    const std::vector<double> apart{4, 6, 4, 6, 4, 6};
    CHECK(measured(of_lengths({6, 6, 6, 6, 6, 6}), so_many(6, 3)).steps.size() == 6);
    CHECK(measured(of_lengths(apart), so_many(6, 0)).steps.size() == 6);
    CHECK(measured(of_lengths(apart), so_many(6, 3)).steps.size() == 9);
    // too few to know
    CHECK(measured(of_lengths({4, 6, 4, 6, 4}), so_many(5, 3)).steps.size() == 5);
    ExecuteOptions vague = so_many(6, 3);
    vague.median_width = 0.2;
    CHECK(measured(of_lengths(apart), vague).steps.size() == 6);
    ExecuteOptions soon = so_many(6, 3);
    soon.retry.wall_time = 0_s;
    CHECK(measured(of_lengths(apart), soon).steps.size() == 6);
}

// 4 and 6 in turn spread by 1 of 5 s. 4.9 and 5.1: by 2 %, and the median is known to 2 %. A fourth
// of 8 s widens neither.
TEST_CASE("steps that spread and medians that are not known are doubts") {
    const std::vector<std::string> none{"prepared for 17 s", "a doubt"};
    CHECK(measured(of_lengths({4.9, 5.1, 4.9, 5.1, 4.9, 5.1}), so_many(6)).warnings == none);
    CHECK(measured(of_lengths({4, 6, 4, 6, 4, 6}), so_many(6)).warnings ==
          std::vector<std::string>{"prepared for 17 s", "noisy: undisturbed steps spread by 20 %",
                                   "noisy: the median step is known to +- 20 % only", "a doubt"});
    CHECK(measured(of_lengths({4, 6, 4, 6}), so_many(4)).warnings ==
          std::vector<std::string>{"prepared for 17 s", "too few: 4 undisturbed steps",
                                   "noisy: undisturbed steps spread by 20 %", "a doubt"});
    // of five no median is known
    CHECK(measured(of_lengths({5, 5, 5, 5, 5}), so_many(5)).warnings ==
          std::vector<std::string>{"prepared for 17 s", "too few: 5 undisturbed steps", "a doubt"});
}

// The end that a signal asks one process for is everybody's, after the sample that is taken.
TEST_CASE("a run ends after the sample in which any rank was asked to stop") {
    const Measurement m = measured({{}, {.asks_to_stop = true}, {}}, so_many(9));
    CHECK(m.steps.size() == 2);
    CHECK(std::ranges::count(m.warnings, "ended by a signal before all samples were taken") == 1);
    ExecuteOptions options = so_many(9);
    int asked = 0;
    options.stop_asked = [&] { return ++asked == 3; };
    CHECK(measured({{}}, options).steps.size() == 3);
}

// The exchange ends 0.5 s before a rank's pass: wrong, but for clocks that are off by as much
// against each other, each by half.
TEST_CASE("a trace is refused unless its clocks are known to be off by as much") {
    CHECK_THROWS_AS(measured({{.end = 1.5}}, so_many(1)), std::logic_error);
    CHECK_NOTHROW(measured({{.end = 1.5, .clock_error = 1}}, so_many(1)));
    CHECK_THROWS_AS(measured({{.end = 1.5, .clock_error = 0.7}}, so_many(1)), std::logic_error);
}

TEST_CASE("a run's options are the experiment's, and a captured step wants two to warm up") {
    Run run;
    run.steps = 7;
    run.warmup = 1;
    run.timeout = 11_s;
    CHECK(execute_options(run).steps == 7);
    CHECK(execute_options(run).warmup == 1);
    CHECK(execute_options(run).timeout == 11_s);
    run.cuda_graph = true;
    CHECK_THROWS_WITH(execute_options(run), Catch::Contains("1 warm-up step with run.cuda_graph") &&
                                                Catch::Contains("expected at least 2"));
    run.warmup = 0;
    CHECK_THROWS_WITH(execute_options(run), Catch::Contains("0 warm-up steps with"));
    run.warmup = 2;
    CHECK_NOTHROW(execute_options(run));
    CHECK(sweep_options().steps == 11);
    CHECK(sweep_options(3).steps == 3);
    CHECK(sweep_options().warmup == 1);
    CHECK_FALSE(sweep_options().check_idle);
    CHECK(sweep_options().retry.extra_steps == 5);
    CHECK(sweep_options().retry.wall_time == 2_s);
    CHECK(sweep_options().median_width == 1);
}
