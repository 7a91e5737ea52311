#include <cmath>
#include <map>

#include <catch2/catch.hpp>

#include "model/experiment.h"
#include "model/input/check_experiment.h"
#include "sim/as_run.h"
#include "sim/predict.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

// Llama 3 8B on one A100 node; `more` are further lines of the experiment.
Experiment eight_ranks(const std::string& framework, int nodes = 1) {
    Experiment e = read_experiment("llama3_8b_h100_fsdp",
                                   std::vector<Override>{{"framework.preset", framework}});
    e.workload.layers = 2;
    e.cluster.nodes = nodes;
    e.parallelism.dp = rank_count(e.cluster);
    e.parallelism.global_batch = 2 * e.parallelism.dp;
    check_experiment(e);
    return e;
}

Seconds step_of(const Experiment& e) { return predict(e).step.p50; }

}  // namespace

// Six readings: the fourth of their steps is the forecast's, and the others are told relative to
// it.
TEST_CASE("an unnamed framework is the median of those that it may be") {
    const Experiment e = eight_ranks("default");
    REQUIRE(e.framework.may_be.size() == 5);
    std::vector<Seconds> steps{step_of(e)};
    for (const std::string& other : e.framework.may_be)
        steps.push_back(step_of(eight_ranks(other)));
    const AsRun run = as_run(e, {.by = RunBy::anyone});
    CHECK(run.experiment.framework.name == "default");
    CHECK(run.experiment.framework.may_be.empty());
    REQUIRE(run.readings.size() == 5);
    const Seconds middle = step_of(run.experiment);
    int faster = 0;
    for (const OtherReading& r : run.readings) faster += r.step <= 1;
    CHECK(faster == 3);
    std::ranges::sort(steps);
    CHECK(middle.si() == Approx(steps[3].si()).epsilon(0.01));
    CHECK(run.said.size() == 1);
    // a named one is no question, and the user's own experiment is what it states
    CHECK(as_run(e, {}).experiment == e);
    CHECK(as_run(eight_ranks("fsdp"), {.by = RunBy::anyone}).readings.empty());
}

// Two nodes of a user who does not say what links them: 25 and 12.5 GB/s a node beside the
// machine's own rate. The three steps grow, so the median is the one at 25 GB/s: an eighth of it
// for each of eight NICs.
TEST_CASE("an unstated network of a user's nodes is the median of what such networks reach") {
    const Experiment e = eight_ranks("fsdp", 2);
    const Circumstances user{.by = RunBy::thread, .network_stated = false};
    const AsRun run = as_run(e, user);
    REQUIRE(run.readings.size() == 2);
    CHECK(run.experiment.cluster.inter.bandwidth.si() == Approx(25e9 / 8));
    CHECK(as_run(e, {.by = RunBy::thread}).readings.empty());
    CHECK(as_run(e, {.by = RunBy::anyone, .network_stated = false}).readings.empty());
    CHECK(as_run(eight_ranks("fsdp"), user).readings.empty());
}

// Six kinds of software by three networks. A slower network of the same software is never faster.
TEST_CASE("neither software nor network stated: each software with each network") {
    const Experiment e = eight_ranks("default", 2);
    const AsRun run = as_run(e, {.by = RunBy::thread, .network_stated = false});
    CHECK(run.readings.size() + 1 == 3 * (e.framework.may_be.size() + 1));
    std::map<std::string, double> own;
    for (const OtherReading& r : run.readings)
        if (r.what.find(" between nodes") == std::string::npos) own[r.what] = r.step;
    CHECK(own.size() + 1 >= e.framework.may_be.size() + 1);
    int slower = 0;
    for (const OtherReading& r : run.readings)
        if (const auto known = own.find(r.what.substr(0, r.what.find(',')));
            known != own.end() && r.what.find(" between nodes") != std::string::npos) {
            CHECK(r.step >= known->second);
            ++slower;
        }
    CHECK(slower >= 9);
}

TEST_CASE("steps are of a class unless a recipe or the user's own fit tells of them") {
    Experiment e;
    const auto name = [&](const char* framework, RunBy by) {
        e.framework.name = framework;
        return class_name(e, {.by = by});
    };
    CHECK(name("nemo", RunBy::anyone) == "named");
    CHECK(name("default", RunBy::anyone) == "unnamed");
    CHECK(name("megatron-lm-untuned", RunBy::anyone) == "untuned");
    CHECK(name("default", RunBy::thread) == "thread");
    CHECK(name("nemo", RunBy::complaint) == "complaint");
    CHECK(name("nemo", RunBy::own) == "named");
    CHECK(name("nemo", RunBy::recipe).empty());
    CHECK(name("native", RunBy::anyone).empty());
    CHECK(name("", RunBy::thread).empty());
    e.framework.fitted.emplace();
    CHECK(name("mine", RunBy::anyone).empty());
}

// Neither the step nor p50 is another one, whoever runs it; p10 and p90 are the class's, and of the
// user's own steps at least those of the recipe.
TEST_CASE("steps of those who follow no recipe scatter as those of others did") {
    const Experiment e = eight_ranks("fsdp");
    const ClassScatter* const named = class_of(shipped_scatter(), e, {.by = RunBy::anyone});
    REQUIRE(named);
    const Forecast recipe = predict(AsRun{e, {.by = RunBy::recipe}});
    const Forecast anybody = predict(AsRun{e, {.by = RunBy::anyone}});
    CHECK(anybody.step.p50 == recipe.step.p50);
    CHECK(anybody.doubts.slower == Approx(named->scatter.slower));
    CHECK(anybody.doubts.faster == Approx(named->scatter.faster));
    const Forecast own = predict(e);
    CHECK(own.step.p50 == recipe.step.p50);
    CHECK(own.doubts.slower == Approx(std::max(named->scatter.slower, recipe.doubts.slower)));
    CHECK(own.doubts.faster == Approx(std::max(named->scatter.faster, recipe.doubts.faster)));
}
