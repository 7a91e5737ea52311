#include "calibrate/fit_moe.h"
#include "calibrate/fit.h"
#include "calibrate/fit_parameter.h"
#include "calibrate/from_measurements.h"

#include <unistd.h>
#include <catch2/catch.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "measured/medians.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/experiment.h"
#include "model/graph/step_times.h"
#include "model/input/presets.h"
#include "model/records/measurements.h"
#include "model/step.h"
#include "sim/costs/costs.h"
#include "sim/engine/simulate.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;
using Catch::Matchers::Contains;

namespace {

Cluster four_ranks() {
    Cluster c = read_cluster("pcie-a100-x4");
    c.fitted.reset();
    return c;
}

Sample row(const std::string& run, const std::string& system, int experts, const std::string& phase,
           int rank, double value, const std::string& unit = "s") {
    return {run,   system, "moe_layer-1024x4096-fp16-8192-top2", experts, 4, phase, rank, -1,
            value, unit};
}

// The recorded block totals for 16 experts per rank, with every time that such a run may record.
std::vector<Sample> traced_run() {
    std::vector<Sample> rows;
    for (const char* phase : {"step", "forward", "backward"})
        rows.push_back(row("traced", "mix_moe", 64, phase, -1, 1));
    rows.push_back(row("traced", "mix_moe", 64, "weight_grad.median", -1, 1));
    const std::vector<std::pair<int, int>> totals{{288, 77}, {264, 58}, {268, 60}, {244, 41}};
    for (int r = 0; r < 4; ++r) {
        for (const char* phase : {"AG.forward", "AG.backward", "GA.forward", "GA.backward",
                                  "wait_time", "process_time"}) {
            rows.push_back(row("traced", "mix_moe", 64, phase, r, 1));
        }
        rows.push_back(row("traced", "mix_moe", 64, "blocks", r,
                           totals[static_cast<std::size_t>(r)].first, "1"));
        rows.push_back(row("traced", "mix_moe", 64, "remote_blocks", r,
                           totals[static_cast<std::size_t>(r)].second, "1"));
    }
    return rows;
}

std::vector<Sample> step_run(const std::string& system, int experts) {
    std::vector<Sample> rows;
    const std::string id = system + std::to_string(experts);
    for (const char* phase : {"step", "forward", "backward"})
        rows.push_back(row(id, system, experts, phase, -1, 1));
    return rows;
}

struct File {
    std::string path;
    explicit File(const std::string& name, const std::string& text = "")
        : path((std::filesystem::temp_directory_path() /
                ("stepcast-fit-" + std::to_string(getpid()) + "-" + name))
                   .string()) {
        if (!text.empty()) std::ofstream(path) << text;
    }
    ~File() { std::filesystem::remove(path); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
};

}  // namespace

// 3 times + 4 ranks x (4 kernels + 1 wait) + 1 weight gradient; process_time and block counts give
// no cases.
TEST_CASE("a traced run offers its step, its kernels per rank and its waits") {
    const std::vector<FitCase> cases = moe_cases(traced_run(), four_ranks());
    CHECK(cases.size() == 3 + 20 + 1);
    for (const FitCase& c : cases) CHECK(c.group == "traced");
    CHECK(moe_cases(step_run("fast_moe", 16), four_ranks()).size() == 3);
}

// Each row with its relative scatter: 1 with a known routing, 4 for the bytes of a scatter, 10 for
// a host's wait; and the time that predicts it.
TEST_CASE("a traced run's cases have their kind, their scatter and their time") {
    const Cluster c = four_ranks();
    const std::vector<Sample> rows = traced_run();
    std::map<std::string, FitCase> cases;
    for (const FitCase& one : moe_cases(rows, c)) {
        CHECK(one.measured == 1_s);
        CHECK(cases.emplace(one.name, one).second);
    }
    Routing routing;
    routing.ranks = 4;
    routing.experts = 64;
    routing.totals = {{288, 77}, {264, 58}, {268, 60}, {244, 41}};
    Experiment e;
    e.cluster = c;
    e.workload.name = "moe_layer";
    e.workload.hidden = 1024;
    e.workload.ffn = 4096;
    e.workload.seq = 8192;
    e.workload.dtype = Dtype::fp16;
    e.workload.moe = {.experts = 64, .top_k = 2, .capacity_factor = 0, .shared_experts = 0};
    e.parallelism.dp = e.parallelism.ep = 4;
    e.parallelism.moe_system = MoeSystem::mix_moe;
    const TaskGraph graph = build_step(e, routing);
    Timeline timeline;
    run_in_order(graph, price(graph, c), timeline);
    const StepTimes times = step_times(graph, timeline, 0);
    const auto kernel = [&](const std::string& name, Phase phase, int rank) {
        Seconds sum;
        for (TaskId t = 0; t < graph.size(); ++t)
            if (graph.name(t) == name && graph.phase(t) == phase &&
                graph.places(t)[0] == Place(rank, Lane::compute))
                sum += timeline.finish[t] - timeline.start[t];
        return sum;
    };
    const auto check = [&](const std::string& name, const char* kind, double spread,
                           Seconds predicted) {
        CAPTURE(name);
        REQUIRE(cases.contains(name));
        const FitCase& one = cases.at(name);
        CHECK((one.kind == kind && one.spread == spread));
        CHECK(one.predict(c).si() == Approx(predicted.si()));
        CHECK(predicted > Seconds(0));
    };
    check("traced step", "step", 1, times.step);
    check("traced forward", "forward", 1, times.forward);
    check("traced backward", "backward", 1, times.backward);
    std::vector<double> weights;
    for (int rank = 0; rank < 4; ++rank) {
        const std::string who = " rank " + std::to_string(rank);
        check("traced AG.forward" + who, "AG", 1, kernel("AG", Phase::forward, rank));
        check("traced AG.backward" + who, "AG", 1, kernel("AG", Phase::backward, rank));
        check("traced GA.forward" + who, "GA", 4, kernel("GA", Phase::forward, rank));
        check("traced GA.backward" + who, "GA", 4, kernel("GA", Phase::backward, rank));
        check("traced wait_time" + who, "assignment", 10, c.host.assignment);
        weights.push_back(kernel("wgrad1", Phase::backward, rank).si());
    }
    check("traced weight_grad.median", "weight_grad", 1, Seconds(median(weights)));
    Cluster slower = c;
    slower.host.assignment = 7_s;
    CHECK(cases.at("traced wait_time rank 0").predict(slower) == 7_s);
    CHECK_THROWS_WITH(MoeRunModel(e, routing).times(c).kernel({"none", Phase::forward, 3}),
                      Contains("the graph has no kernel none on rank 3"));
}

// For an unknown routing 31 draws of the gate are simulated. The prediction is their median; the
// scatter is half of the distance between the 16th and the 84th percentile of the logarithm,
// relative to the 2 % of a run with known routing.
TEST_CASE("a run of unknown routing scatters as the draws of its gate do") {
    const Cluster c = four_ranks();
    const std::vector<Sample> rows = step_run("fast_moe", 16);
    Experiment e;
    e.cluster = c;
    e.workload.name = "moe_layer";
    e.workload.hidden = 1024;
    e.workload.ffn = 4096;
    e.workload.seq = 8192;
    e.workload.dtype = Dtype::fp16;
    e.workload.moe = {.experts = 16, .top_k = 2, .capacity_factor = 0, .shared_experts = 0};
    e.parallelism.dp = e.parallelism.ep = 4;
    e.parallelism.moe_system = MoeSystem::fast_moe;
    e.routing.kind = RoutingSpec::Kind::random_gate;
    std::vector<double> steps, backwards;
    for (int draw = 0; draw < 31; ++draw) {
        const TaskGraph graph = build_step(e, routing_of(e, draw));
        Timeline timeline;
        run_in_order(graph, price(graph, c), timeline);
        const StepTimes times = step_times(graph, timeline, 0);
        steps.push_back(times.step.si());
        backwards.push_back(times.backward.si());
    }
    const auto spread = [](const std::vector<double>& values) {
        return std::hypot(1, std::log(quantile(values, 0.84) / quantile(values, 0.16)) / 2 / 0.02);
    };
    for (const FitCase& one : moe_cases(rows, c)) {
        if (one.kind == "step") CHECK(one.predict(c).si() == Approx(median(steps)));
        if (one.kind == "step") CHECK(one.spread == Approx(spread(steps)));
        if (one.kind == "backward") CHECK(one.predict(c).si() == Approx(median(backwards)));
        if (one.kind == "backward") CHECK(one.spread == Approx(spread(backwards)));
    }
    CHECK(spread(steps) > 1);
}

// Times predicted by a cluster with other constants are the measurements; the fit starts from the
// preset.
TEST_CASE("the constants behind simulated runs are recovered") {
    Cluster truth = four_ranks();
    truth.host.module_forward = 0.9_ms;
    truth.host.module_backward = 0.3_ms;
    truth.kernel.fused_tail = 1.06_ms;  // below the 1.1 ms of a wave, at which it would be limited
    std::vector<Sample> rows = traced_run();
    for (const int experts : {4, 8}) {
        const std::vector<Sample> more = step_run("fast_moe", experts);
        rows.insert(rows.end(), more.begin(), more.end());
    }
    std::vector<FitCase> cases = moe_cases(rows, truth);
    for (FitCase& c : cases) c.measured = c.predict(truth);
    const FitResult result =
        fit(four_ranks(), {{{"host.module_forward", "0.5 ms", 0.7, "10 us", "10 ms"},
                            {"host.module_backward", "0.5 ms", 0.7, "10 us", "10 ms"},
                            {"kernel.fused_tail", "1 ms", 0.7, "10 us", "10 ms"}},
                           cases});
    for (const ParameterReport& report : result.parameters) CHECK(report.parameter.determined);
    CHECK(result.cluster.host.module_forward.si() == Approx(0.9e-3).epsilon(0.01));
    CHECK(result.cluster.host.module_backward.si() == Approx(0.3e-3).epsilon(0.01));
    CHECK(result.cluster.kernel.fused_tail.si() == Approx(1.06e-3).epsilon(0.01));
}

TEST_CASE("every parameter of the table is a key whose prior lies within its bounds") {
    const FitCase any{"any", "step", "any", 1_s, [](const Cluster&) { return 1_s; }};
    const FitResult result = fit(four_ranks(), {fit_priors({"moe_layers"}), {any}});
    for (const ParameterReport& report : result.parameters)
        CHECK_FALSE(report.parameter.determined);
}

TEST_CASE("the shipped medians are cases of eleven runs, nine of unknown routing") {
    int rows = 0;
    for (const auto& [name, cases] :
         {std::pair("moe_layer_bench", 27u), std::pair("moe_phase_trace", 2 * 24u)}) {
        const std::vector<Sample> samples =
            read_measurements(home_folder() + "/calibrate/measurements/" + name + ".csv");
        rows += static_cast<int>(samples.size());
        CHECK(moe_cases(samples, four_ranks()).size() == cases);
    }
    CHECK(rows == 27 + 162);
}

TEST_CASE("runs that do not belong to the cluster or the model are refused by name") {
    Cluster eight = four_ranks();
    eight.nodes = 2;
    CHECK_THROWS_WITH(moe_cases(step_run("fast_moe", 16), eight),
                      Contains("fast_moe16: measured on 4 ranks, but cluster pcie-a100-x4 has 8"));
    std::vector<Sample> other = step_run("fast_moe", 16);
    for (Sample& s : other) s.model = "gpt2";
    CHECK_THROWS_WITH(moe_cases(other, four_ranks()),
                      Contains("fast_moe16: model \"gpt2\" is not a layer this fit knows"));
    CHECK_THROWS_AS(moe_cases(step_run("fastest_moe", 16), four_ranks()), ConfigError);
    std::vector<Sample> raw = step_run("fast_moe", 16);
    for (Sample& s : raw) s.step = 0;
    CHECK_THROWS_WITH(moe_cases(raw, four_ranks()),
                      Contains("fast_moe16: no medians: 0 of its 1 steps"));
}

// A link's prior is the value in the start cluster (0.5 GB/s is far from usual values), or the one
// stated before an earlier fit; host constants start from the usual values.
TEST_CASE("a layer's links start from what was measured apart") {
    std::vector<Sample> rows = traced_run();
    std::erase_if(rows, [](const Sample& s) { return s.unit == "s" && s.phase != "step"; });
    rows.front().value = 0.039;
    const auto prior = [](const FitResult& result, const std::string& key) {
        for (const ParameterReport& p : result.parameters)
            if (p.parameter.key == key) return p.parameter.prior;
        return std::string("none");
    };
    std::vector<Sample> twice = rows;
    twice.insert(twice.end(), rows.begin(), rows.end());
    Cluster start = four_ranks();
    start.intra.bandwidth = BytesPerSecond(0.5e9);
    start.intra.ring_efficiency = 0.4375;
    start.host.framework = 13_us;
    const FitResult fresh = fit_moe(start, twice);
    CHECK(fresh.cases.size() == 2);
    CHECK(prior(fresh, "link.intra.bandwidth") == to_string(start.intra.bandwidth));
    CHECK(prior(fresh, "link.intra.ring_efficiency") == "0.4375");
    CHECK(prior(fresh, "host.framework") == "50 us");
    start.fitted.emplace().parameters = {{"link.intra.ring_efficiency", "0.4375", "0.625"},
                                         {"host.framework", "13 us", "17 us"}};
    const FitResult again = fit_moe(start, rows);
    CHECK(prior(again, "link.intra.ring_efficiency") == "0.625");
    CHECK(prior(again, "link.intra.bandwidth") == to_string(start.intra.bandwidth));
    CHECK(prior(again, "host.framework") == "50 us");
}

// With three cases of one run most parameters keep their priors; the file must say so and must be
// readable.
TEST_CASE("a calibration writes a cluster file with provenance that reads back") {
    std::vector<Sample> rows = step_run("fast_moe", 4);
    for (Sample& s : rows)
        s.value = s.phase == "step" ? 0.039 : s.phase == "forward" ? 0.0187 : 0.0202;
    const File in("in.csv", write_measurements(rows)), out("fitted.toml");
    const std::string text = calibrate_from_measurements({.measurements = {in.path},
                                                          .cluster = "pcie-a100-x4",
                                                          .out = out.path,
                                                          .date = "2026-01-01"});
    CHECK_THAT(text, Contains("3 cases, start pcie-a100-x4"));
    CHECK_THAT(text, Contains("no held-out errors: all cases are of one group"));
    const Cluster fitted = read_cluster(out.path);
    REQUIRE(fitted.fitted);
    CHECK(fitted.fitted->date == "2026-01-01");
    CHECK(fitted.fitted->sources ==
          std::vector<std::string>{std::filesystem::path(in.path).filename().string()});
    CHECK(fitted.fitted->parameters.size() == fit_priors({"moe_layers"}).size());
    // A second fit, from its own output, gives the same result: fitted values do not become priors,
    // and no datum counts twice.
    const File again("again.toml");
    calibrate_from_measurements(
        {.measurements = {in.path}, .cluster = out.path, .out = again.path, .date = "2026-01-01"});
    CHECK(read_cluster(again.path).fitted->parameters == fitted.fitted->parameters);
}
