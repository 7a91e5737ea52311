#include <cmath>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "measured/read.h"
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

Seconds predicted_step(const Experiment& e) { return predict(e).step.p50; }

}  // namespace

// Seven kinds of software, of which four run weights sharded over one node (zero 3): no Megatron
// (zero 0 and 1), whatever its host takes, and no nanotron. The third of four steps is the
// forecast's, the slower one of the two in the middle, and the others are told relative to it.
TEST_CASE("an unnamed framework is the median of those that it may be and that can run the split") {
    const Experiment e = eight_ranks("default");
    REQUIRE(e.parallelism.zero == 3);
    REQUIRE(e.framework.may_be.size() == 6);
    std::vector<Seconds> steps{predicted_step(e)};
    for (const char* other : {"eager", "deepspeed-transformers", "fsdp"})
        steps.push_back(predicted_step(eight_ranks(other)));
    const AsRun run = as_run(e, {.by = RunBy::anyone});
    CHECK(run.experiment.framework.name == "default");
    CHECK(run.experiment.framework.may_be.empty());
    REQUIRE(run.readings.size() == 3);
    const Seconds middle = predicted_step(run.experiment);
    int faster = 0;
    for (const OtherReading& r : run.readings) faster += r.step <= 1;
    CHECK(faster == 2);
    std::ranges::sort(steps);
    CHECK(middle.si() == Approx(steps[2].si()).epsilon(0.01));
    CHECK(run.said.size() == 1);
    // a named one is no question, and the user's own experiment is what it states
    CHECK(as_run(e, {}).experiment == e);
    CHECK(as_run(eight_ranks("fsdp"), {.by = RunBy::anyone}).readings.empty());
}

// In 8 bits neither an eager loop nor Transformers under DeepSpeed is left of them: the default and
// FSDP compiled are. Unsharded and split over tensors, Megatron's three are, and the eager loop and
// nanotron, but neither Transformers nor FSDP alone.
TEST_CASE("software that cannot run what is stated is no reading of an unnamed one") {
    const auto readings = [](std::initializer_list<Override> keys) {
        Experiment e = eight_ranks("default");
        for (const Override& key : keys) set_key(e, key);
        check_experiment(e);
        std::set<std::string> found;
        const AsRun run = as_run(e, {.by = RunBy::anyone});
        for (const OtherReading& r : run.readings) found.insert(r.what);
        return std::pair(found.size() + 1, found);
    };
    CHECK(readings({{"workload.dtype", "fp8"}}).first == 2);
    const auto [count, split] =
        readings({{"parallelism.zero", "0"}, {"parallelism.tp", "2"}, {"parallelism.dp", "4"}});
    CHECK(count == 5);
    CHECK_FALSE(split.contains("deepspeed-transformers"));
    CHECK_FALSE(split.contains("fsdp"));
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
    REQUIRE(run.networks.size() == 3);
    CHECK(run.networks[1].of_node.si() == Approx(25e9));
    CHECK(run.networks[2].of_node.si() == Approx(12.5e9));
    CHECK(run.networks[2].step > run.networks[1].step);
    CHECK(as_run(e, {.by = RunBy::thread}).readings.empty());
    CHECK(as_run(e, {.by = RunBy::anyone, .network_stated = false}).readings.empty());
    CHECK(as_run(eight_ranks("fsdp"), user).readings.empty());
}

// Steps of 1 s at 400 GB/s, 1.6 s at 25 and 2.2 s at 12.5 GB/s a node, which are 0.0025, 0.04 and
// 0.08 s/GB. 1.3 s lies half way to the second: 1 / 0.02125; 1.9 s half way to the third: 1 / 0.06.
// 4.0 s is 1.8 s beyond it, three times the 0.6 s of its last 0.04: 1 / 0.2.
TEST_CASE("the rate of an unstated network that would explain a step") {
    const std::vector<NetworkStep> steps{{BytesPerSecond(400e9), Seconds(1)},
                                         {BytesPerSecond(25e9), Seconds(1.6)},
                                         {BytesPerSecond(12.5e9), Seconds(2.2)}};
    const auto rate = [&](double measured) {
        const auto found = rate_explaining(steps, Seconds(measured));
        return found ? found->si() / 1e9 : 0;
    };
    CHECK(rate(1) == Approx(400));
    CHECK(rate(1.3) == Approx(1 / 0.02125));
    CHECK(rate(1.9) == Approx(1 / 0.06));
    CHECK(rate(4) == Approx(5));
    CHECK(rate(0.9) == 0);  // faster than any network makes it
    CHECK_FALSE(rate_explaining({steps[0], {BytesPerSecond(25e9), Seconds(1.005)}}, Seconds(2)));
    CHECK_FALSE(rate_explaining({}, Seconds(1)));
}

// Four kinds of software that shard weights by three networks. A slower network of the same
// software is never faster.
TEST_CASE("neither software nor network stated: each software with each network") {
    const Experiment e = eight_ranks("default", 2);
    const AsRun run = as_run(e, {.by = RunBy::thread, .network_stated = false});
    CHECK(run.readings.size() + 1 == 3 * 4);
    std::map<std::string, double> own;
    for (const OtherReading& r : run.readings)
        if (r.what.find(" between nodes") == std::string::npos) own[r.what] = r.step;
    CHECK(own.size() + 1 >= 4);
    int slower = 0;
    for (const OtherReading& r : run.readings)
        if (const auto known = own.find(r.what.substr(0, r.what.find(',')));
            known != own.end() && r.what.find(" between nodes") != std::string::npos) {
            CHECK(r.step >= known->second);
            ++slower;
        }
    CHECK(slower >= 5);
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
    // what a row says that its software is made of narrows its forecast, not its width
    e.framework.name = "fsdp-eager";
    CHECK(class_name(e, {.by = RunBy::anyone, .software_named = false}) == "unnamed");
    CHECK(name("native", RunBy::anyone).empty());
    CHECK(name("", RunBy::thread).empty());
    e.framework.fitted.emplace();
    CHECK(name("mine", RunBy::anyone).empty());
}

TEST_CASE("experts, products in 8 bits and a device without fitted steps are traits of a step") {
    Experiment e;
    e.workload.moe.experts = 0;
    e.cluster.fitted.emplace().parameters = {{.key = "kernel.training_gemm", .value = "0.9"}};
    CHECK(traits_of(e).empty());
    e.workload.dtype = Dtype::fp8;
    CHECK(traits_of(e) == std::vector<std::string>{"narrow"});
    e.workload.moe.experts = 8;
    e.cluster.fitted->parameters[0].key = "kernel.gemm_k0";
    CHECK(traits_of(e) == std::vector<std::string>{"experts", "narrow", "device"});
    // 0.3^2 + 0.4^2 = 0.5^2
    ScatterTable table;
    table.classes = {{"named", 1, 1, {0.3, 0}}};
    table.traits = {{"experts", 1, 1, {0.4, 0}}, {"device", 1, 1, {0, 0.2}}};
    e.framework.name = "nemo";
    const auto found = class_of(table, e, {.by = RunBy::anyone});
    REQUIRE(found);
    CHECK(found->scatter.faster == Approx(0.5));
    CHECK(found->scatter.slower == Approx(0.2));
    CHECK_FALSE(class_of(table, e, {.by = RunBy::thread}));
    // a stranger's: 0.5^2 + 1.2^2 = 1.3^2, 0.2^2 + 0.15^2 = 0.25^2
    table.traits.push_back({first_contact, 1, 1, {1.2, 0.15}});
    const auto stranger = class_of(table, e, {.by = RunBy::stranger});
    REQUIRE(stranger);
    CHECK(stranger->scatter.faster == Approx(1.3));
    CHECK(stranger->scatter.slower == Approx(0.25));
    CHECK(class_of(table, e, {.by = RunBy::anyone})->scatter.faster == Approx(0.5));
}

// Neither the step nor p50 is another one, whoever runs it; p10 and p90 are the class's, and of the
// user's own steps at least those of the recipe.
TEST_CASE("steps of those who follow no recipe scatter as those of others did") {
    const Experiment e = eight_ranks("fsdp");
    const auto named = class_of(shipped_scatter(), e, {.by = RunBy::anyone});
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
