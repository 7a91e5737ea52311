#include "sim/levers.h"

#include <catch2/catch.hpp>

#include <algorithm>

#include "sim/predict.h"
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
    CHECK(std::ranges::is_sorted(all, {}, [](const Lever& l) { return l.step.p50; }));
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
