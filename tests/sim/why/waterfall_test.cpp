#include "sim/why/waterfall.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "model/base/errors.h"
#include "sim/predict.h"
#include "tests/literals.h"
#include "tests/transformers.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

Experiment split(int tp, int pp, int dp) {
    Experiment e = small_gpt();
    e.parallelism.tp = tp;
    e.parallelism.pp = pp;
    e.parallelism.dp = dp;
    e.parallelism.global_batch = 8;
    e.cluster.nodes = 2;
    return e;
}

Waterfall between(const Experiment& a, const Experiment& b, Seconds measured_a = {},
                  Seconds measured_b = {}) {
    return waterfall({"a", a, measured_a}, {"b", b, measured_b}, 1);
}

double sum_of(const Waterfall& w) {
    double sum = 0;
    for (const WaterfallBar& bar : w.bars) sum += bar.cost.si();
    return sum;
}

}  // namespace

// Two players: v(1) = 10, v(2) = 20, v(both) = 50. Player 1 adds 10 if it comes first, 50 - 20 = 30
// if second: 20 in the mean. Player 2 adds 20 or 40: 30.
// Three: only all together reach 12: each is the last in a third of the orders, so 4.
TEST_CASE("a cost is the mean over all orders of what changing the key adds") {
    const std::vector<double> two = shapley_values(2, {0, 10, 20, 50});
    CHECK(two[0] == Approx(20));
    CHECK(two[1] == Approx(30));
    for (const double v : shapley_values(3, {0, 0, 0, 0, 0, 0, 0, 12}))
        CHECK(v == Approx(4).margin(1e-9));
    CHECK_THROWS_AS(shapley_values(2, {0, 1, 2}), std::logic_error);
}

// One key alone costs the difference of the two forecasts.
TEST_CASE("one differing key costs the whole difference") {
    const Experiment a = split(2, 1, 4);
    Experiment b = a;
    b.workload.seq = 256;
    const Waterfall w = between(a, b);
    REQUIRE(w.bars.size() == 1);
    CHECK(w.bars[0].keys == std::vector<KeyChange>{{"workload.seq", "128", "256"}});
    CHECK(w.bars[0].cost == predict(b).step.p50 - predict(a).step.p50);
    CHECK(w.bars[0].cost > 0_us);
    CHECK(w.unexplained == 0_us);
}

// tp 2 -> 4 and pp 1 -> 2 with eight ranks: dp follows (4 -> 1), and is no key of its own.
TEST_CASE("costs add up to the difference, and replicas follow") {
    const Experiment a = split(2, 1, 4);
    Experiment b = split(4, 2, 1);
    b.workload.seq = 256;
    b.parallelism.recompute = Recompute::full;
    const Waterfall w = between(a, b);
    CHECK(w.bars.size() == 4);
    CHECK(sum_of(w) == Approx((w.to.step - w.from.step).si()).epsilon(1e-12));
    CHECK(w.from.step == predict(a).step.p50);
    CHECK(w.to.step == predict(b).step.p50);
    CHECK(w.follows == std::vector<KeyChange>{{"parallelism.dp", "4", "1"}});
    for (std::size_t i = 1; i < w.bars.size(); ++i)
        CHECK(std::abs(w.bars[i - 1].cost.si()) >= std::abs(w.bars[i].cost.si()));
}

// 64 is no multiple of 6, so heads 4 -> 6 needs hidden 64 -> 96: one bar, and recompute another.
TEST_CASE("keys that are legal only together are one bar") {
    const Experiment a = split(2, 1, 4);
    Experiment b = a;
    b.workload.heads = 6;
    b.workload.hidden = 96;
    b.parallelism.recompute = Recompute::full;
    const Waterfall w = between(a, b);
    REQUIRE(w.bars.size() == 2);
    std::vector<std::size_t> sizes{w.bars[0].keys.size(), w.bars[1].keys.size()};
    std::ranges::sort(sizes);
    CHECK(sizes == std::vector<std::size_t>{1, 2});
    CHECK(sum_of(w) == Approx((w.to.step - w.from.step).si()).epsilon(1e-12));
}

// A key that no step reads (the memory of the device) is listed without a bar.
TEST_CASE("keys without effect are named, not priced") {
    const Experiment a = split(2, 1, 4);
    Experiment b = a;
    b.cluster.gpu.memory = Bytes(40e9);
    b.workload.seq = 256;
    const Waterfall w = between(a, b);
    CHECK(w.bars.size() == 1);
    REQUIRE(w.without_effect.size() == 1);
    CHECK(w.without_effect[0].key == "cluster.gpu.memory");
}

// Forecasts say a difference of d; 5 ms and 9 ms were measured: 4 ms - d is left.
TEST_CASE("what measured steps say beyond the configuration is named apart") {
    const Experiment a = split(2, 1, 4);
    Experiment b = a;
    b.workload.seq = 256;
    const Waterfall both = between(a, b, 5_ms, 9_ms);
    const double d = (both.to.step - both.from.step).si();
    CHECK(both.unexplained.si() == Approx(4e-3 - d));
    // with the measured step of one side only, the other end is its forecast
    const Waterfall one = between(a, b, {}, 9_ms);
    CHECK(one.unexplained.si() == Approx(9e-3 - one.to.step.si()));
}

// Another device: its constants are one bar, the rest keep theirs.
TEST_CASE("another machine is one bar") {
    const Experiment a = split(2, 1, 4);
    Experiment b = a;
    b.cluster.gpu.name = "other";
    b.cluster.kernel.launch = 9_us;
    b.cluster.intra.bandwidth = BytesPerSecond(50e9);
    b.parallelism.micro_batch = 2;
    const Waterfall w = between(a, b);
    REQUIRE(w.bars.size() == 2);
    CHECK((w.bars[0].group == "the machine" || w.bars[1].group == "the machine"));
    CHECK(sum_of(w) == Approx((w.to.step - w.from.step).si()).epsilon(1e-12));
}

TEST_CASE("more than twelve differing keys are grouped by table") {
    const Experiment a = split(2, 1, 4);
    Experiment b = a;
    b.workload.seq = 256;
    HostCosts& h = b.cluster.host;
    for (Seconds* s : {&h.call, &h.framework, &h.layer, &h.micro_batch, &h.exchange, &h.update,
                       &h.flatten, &h.input})
        *s = *s * 3 + 400_us;
    KernelCosts& k = b.cluster.kernel;
    k.launch = 9_us;
    b.parallelism.micro_batch = 2;
    b.runtime.gradients.bucket = BucketSize(Bytes(1e5));
    b.parallelism.zero = 1;
    b.parallelism.recompute = Recompute::full;
    b.cluster.intra.bandwidth = BytesPerSecond(50e9);
    b.cluster.inter.bandwidth = BytesPerSecond(5e9);
    b.workload.layers = 8;
    b.workload.vocab = 2000;
    REQUIRE(changes_between(a, b).size() > most_bars + 3);
    const Waterfall w = between(a, b);
    CHECK(w.bars.size() <= most_bars);
    CHECK(sum_of(w) == Approx((w.to.step - w.from.step).si()).epsilon(1e-12));
}

// 85,000 x 2^12 = 348 million tasks, 86,000 x 2^12 = 352 million; 169,205 x 2^11 = 347 million.
TEST_CASE("of long steps fewer keys are told apart") {
    CHECK(bars_of(1000) == most_bars);
    CHECK(bars_of(85'000) == 12);
    CHECK(bars_of(86'000) == 11);
    CHECK(bars_of(169'205) == 11);
    CHECK(bars_of(50'000'000) == 6);
}

TEST_CASE("two kinds of workload have no keys in common") {
    Experiment layer = small_gpt();
    layer.workload.kind = Workload::Kind::mlp;
    CHECK_THROWS_AS(between(small_gpt(), layer), ConfigError);
}
