#include "sim/levers.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/interval.h"
#include "sim/predict.h"
#include "tests/random_experiments.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

// Eight ranks: two of each of tp, pp and dp, and four sequences a step and replica.
Experiment on_eight() {
    Experiment e = small_gpt();
    e.cluster.nodes = 2;
    e.cluster.gpus_per_node = 4;
    e.parallelism = {};
    e.parallelism.tp = e.parallelism.pp = e.parallelism.dp = 2;
    e.parallelism.global_batch = 8;
    return e;
}

}  // namespace

TEST_CASE("each lever is the forecast of the experiment with its keys set, and changes something") {
    const Experiment e = on_eight();
    const Forecast now = predict(e);
    const std::vector<Lever> all = levers(e);
    CHECK(all.size() > 12);
    for (const Lever& one : all) {
        INFO(one.set.front().key << " = " << one.set.front().value);
        const Forecast f = predict(with_lever(e, one.set));
        CHECK(f.step == one.step);
        CHECK(f.memory.peak + f.memory.overheads == one.memory);
        CHECK((f.step.p50 != now.step.p50 || f.memory != now.memory));
        CHECK(get_key(e, one.set.front().key) == one.from);
    }
    const auto machine =
        std::ranges::find_if(all, [](const Lever& l) { return !l.hardware.empty(); });
    CHECK(std::is_sorted(all.begin(), machine,
                         [](const Lever& a, const Lever& b) { return a.step.p50 < b.step.p50; }));
    CHECK(std::all_of(machine, all.end(), [](const Lever& l) { return !l.hardware.empty(); }));
}

// 500 levers of drawn experiments, some with experts, on one to four nodes.
TEST_CASE("levers of drawn experiments are the forecasts of their changes") {
    int pairs = 0, hardware = 0;
    for (std::uint64_t seed = 0; pairs < 500; ++seed) {
        const Experiment e = random_experiment(seed);
        const Forecast now = predict(e);
        for (const Lever& one : levers(e)) {
            INFO(seed << " " << one.set.front().key << " = " << one.set.front().value);
            const Experiment changed = with_lever(e, one.set);
            const Forecast f = predict(changed);
            REQUIRE(f.step.p50 == one.step.p50);
            if (!f.drawn) REQUIRE(f.step == one.step);
            REQUIRE(f.memory.peak + f.memory.overheads == one.memory);
            REQUIRE(f.memory.fits == one.fits);
            const double more = f.step.p50 / now.step.p50 - 1;
            CHECK(one.against.p50 == Approx(more).margin(1e-12));
            CHECK(one.against.p10 <= more + 1e-12);
            CHECK(one.against.p90 >= more - 1e-12);
            ++pairs;
            hardware += !one.hardware.empty();
        }
    }
    CHECK(hardware > 20);
}

TEST_CASE("each module that the model has is a lever where the framework can be told") {
    Experiment e = on_eight();
    const auto modules = [&] {
        std::set<std::string> found;
        for (const Lever& one : levers(e))
            if (one.set.size() == 2 && one.set.back().key == "parallelism.recompute_modules")
                found.insert(one.set.back().value);
        return found;
    };
    CHECK(modules().empty());
    e.framework.can.switches = {"parallelism.recompute_modules=[core_attn]|[mlp]"};
    CHECK(modules() == std::set<std::string>{"[mlp]"});
}

// With experts on other ranks p90 is wider by what a random gate does to the step. Levers take that
// from the step as it is, and simulate no rank but those of their own balanced step.
TEST_CASE("levers of balanced experts take what drawn ones do from the step as it is") {
    Experiment e = on_eight();
    e.workload.moe.experts = 8;
    e.workload.moe.top_k = 1;
    e.workload.moe.ffn = 8192;
    e.parallelism.tp = e.parallelism.pp = 1;
    e.parallelism.dp = e.parallelism.ep = 8;
    const Forecast now = predict(e);
    REQUIRE(now.drawn);
    CAPTURE(now.drawn->step, now.step.p50.si(), now.step.p90.si());
    REQUIRE(now.step.p90 / now.step.p50 == Approx(now.drawn->step));  // it decides p90
    int other = 0;
    for (const Lever& one : levers(e)) {
        const Experiment changed = with_lever(e, one.set);
        const Forecast f = predict(changed);
        INFO(one.set.front().key << " = " << one.set.front().value);
        CHECK(f.step.p50 == one.step.p50);
        Doubts doubts = f.doubts;
        if (changed.parallelism.ep > 1) doubts.experts = std::log(now.drawn->step);
        CHECK(predictive_interval(f.step.p50, f.step.mean, doubts) == one.step);
        other += f.step != one.step;
    }
    CHECK(other > 3);
}

// Memory and matrix units a quarter faster: of a step on one rank that only computes, with products
// wide enough for the matrix units to bound them, the step is shorter by at most a fifth with
// either.
TEST_CASE("rates of the machine are levers named as such, constants of the model none") {
    Experiment e = small_gpt();
    e.cluster.nodes = e.cluster.gpus_per_node = 1;
    e.parallelism = {};
    e.workload.hidden = 2048;
    e.workload.ffn = 8192;
    e.workload.seq = 2048;
    e.workload.heads = 16;
    e.workload.vocab = 32000;
    int found = 0;
    for (const Lever& one : levers(e)) {
        for (const Override& set : one.set) {
            CHECK(!set.key.starts_with("cluster.kernel."));
            CHECK(!set.key.starts_with("cluster.host."));
            CHECK(set.key.starts_with("cluster.") == !one.hardware.empty());
        }
        if (one.hardware.empty()) continue;
        ++found;
        CHECK(one.against.p50 < 0);
        CHECK(one.against.p50 >= -0.2);
        CHECK(one.hardware.find("links") == std::string::npos);
    }
    CHECK(found == 2);
}

// On the same eight ranks tp = 1 leaves four replicas, tp = 4 one.
TEST_CASE("neighbours of the split keep the ranks and the sequences of a step") {
    const Experiment e = on_eight();
    int sizes = 0;
    for (const Lever& one : levers(e)) {
        const Experiment changed = with_lever(e, one.set);
        const Parallelism& p = changed.parallelism;
        CHECK(p.tp * p.pp * p.cp * p.dp == 8);
        CHECK(p.global_batch == 8);
        sizes += one.set.front().key == "parallelism.tp" ? 1 : 0;
        if (one.set.front() == Override{"parallelism.tp", "4"}) CHECK(p.dp == 1);
    }
    CHECK(sizes == 2);
}

// A framework without pipelines marks what it cannot run; nothing is marked for what it ran before.
TEST_CASE("what a framework cannot run is said of the lever") {
    Experiment e = on_eight();
    e.parallelism.pp = 1;
    e.parallelism.dp = 4;
    e.framework.name = "mine";
    e.framework.can.pipeline = false;
    int marked = 0;
    for (const Lever& one : levers(e)) {
        CHECK(one.cannot.empty() == (one.set.front().key != "parallelism.pp"));
        marked += one.cannot.empty() ? 0 : 1;
    }
    CHECK(marked == 1);
    e.workload.kind = Workload::Kind::mlp;
    CHECK(levers(e).empty());
}
