#include "sim/campaign.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/input/presets.h"
#include "sim/predict.h"
#include "tests/model/files.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

constexpr double hour = 3600;

Failures failing(double mtbf_hours, double checkpoint_s, double restart_s) {
    return {Seconds(mtbf_hours * hour), Seconds(checkpoint_s), Seconds(restart_s), ""};
}

}  // namespace

// 1,000 ranks with one failure per 10,000 h each: one in M = 10 h = 36,000 s. A checkpoint of 20 s:
// sqrt(2 x 20 x 36000) = 1200, times the corrections 1 + sqrt(1/3600)/3 + 1/32400 = 1.005586, less
// 20: 1186.70 s. A piece then takes 36000 (e^(1206.7/36000) - 1) e^(600/36000) = 1247.61 s, of
// which 1186.70 are useful: 0.951.
TEST_CASE("goodput is Daly's, at his optimal interval") {
    const Goodput g = goodput(failing(10'000, 20, 600), 1000);
    CHECK(g.failure_every.si() == Approx(10 * hour));
    const double t = 1200 * (1 + 1.0 / 180 + 20.0 / (18 * 36'000)) - 20;
    CHECK(g.checkpoint_every.si() == Approx(t).epsilon(1e-12));
    CHECK(g.checkpoint_every.si() == Approx(1186.70).epsilon(1e-5));
    CHECK(g.share ==
          Approx(t / (36'000 * std::exp(600 / 36'000.0) * (std::exp((t + 20) / 36'000) - 1))));
    CHECK(g.share == Approx(0.951).epsilon(1e-3));
}

TEST_CASE("no interval does better than the optimal one by more than its approximation") {
    for (const double checkpoint : {5.0, 60.0, 600.0}) {
        const Goodput g = goodput(failing(50'000, checkpoint, 300), 16'384);
        const double m = g.failure_every.si();
        for (double t = 10; t < 10 * m; t *= 1.05)
            CHECK(t / (m * std::exp(300 / m) * (std::exp((t + checkpoint) / m) - 1)) <=
                  g.share * 1.001);
    }
}

TEST_CASE(
    "goodput at the ends: nothing fails, checkpoints cost nothing, checkpoints outlast the "
    "machine") {
    CHECK(goodput(failing(0, 20, 600), 1000) == Goodput{});
    CHECK(goodput(failing(10'000, 0, 600), 1000).share == Approx(std::exp(-600 / 36'000.0)));
    // d = 2 M: the interval is M
    const Goodput worst = goodput(failing(10, 72'000, 0), 1);
    CHECK(worst.checkpoint_every.si() == Approx(10 * hour));
    CHECK(worst.share == Approx(1 / std::expm1(3.0)));
    double before = 1;
    for (const int ranks : {1, 8, 512, 16'384, 131'072}) {
        const double share = goodput(read_market().failures, ranks).share;
        CHECK(share < before);
        before = share;
    }
}

namespace {

// 4 ranks at 3 money per hour; 300 W computing, 100 W waiting, 50 W for the node's other parts,
// PUE 1.2. A step of 2 s computes for 1.5 s and waits for 0.5 s.
struct Trained {
    Experiment e = small_gpt();
    Training training;
    Forecast f;

    Trained() {
        e.cluster.nodes = 1;
        e.parallelism.global_batch = 16;
        e.cluster.gpu.aliases = "test 2000, T2";
        training.tokens = 1e6;
        training.market = {
            "USD",
            {},
            {{"other", 9, "", Watts(1), {}, {}, 1, ""},
             {"t2", 3, "a list", Watts(300), Watts(100), Watts(50), 1.2, "a datasheet"},
             {"Test 2000", 7, "a later list", Watts(1), {}, {}, 1, ""}}};
        f.step = {Seconds(2), Seconds(1.9), Seconds(2), Seconds(2.4)};
        f.breakdown = {Seconds(1),    Seconds(0.25), Seconds(0.25),
                       Seconds(0.25), Seconds(0),    Seconds(0.25)};
    }
    [[nodiscard]] Campaign campaign() const { return campaign_of(training, e, f); }
};

}  // namespace

// 4 x 1.2 x (450 + 50 + 100) = 2880 J. With 2048 tokens per step, 1e6 tokens take 489 steps: 978
// s, 3.26 money, 1.408 MJ.
TEST_CASE("time, money and energy of a training follow from its step") {
    const Trained of;
    REQUIRE(rank_count(of.e.cluster) == 4);
    REQUIRE(tokens_per_step(of.e) == 2048);
    CHECK(step_energy(of.training.market.offers[1], 4, of.f).si() == Approx(2880));
    const Campaign c = of.campaign();
    CHECK(c.steps == 489);
    CHECK(c.tokens == 489 * 2048);
    CHECK(c.time[0].si() == Approx(489 * 1.9));
    CHECK(c.time[1].si() == Approx(978));
    CHECK(c.time[2].si() == Approx(489 * 2.4));
    CHECK(c.money[1] == Approx(4 * 3 * 978 / 3600.0));
    CHECK(c.energy[1].si() == Approx(489 * 2880.0));
    CHECK(c.energy[2].si() == Approx(489 * 2880.0 * 1.2));
    CHECK(c.offer.price_source == "a list");
}

TEST_CASE(
    "steps win over tokens, the cluster's price over the market's, and what is lost to failures "
    "costs as well") {
    Trained of;
    of.training.steps = 100;
    of.training.market.failures = failing(1, 10, 60);
    of.e.cluster.price_per_gpu_hour = 6;
    const Campaign failed = of.campaign();
    CHECK(failed.steps == 100);
    CHECK(failed.goodput == goodput(of.training.market.failures, 4));
    CHECK(failed.time[1].si() == Approx(200 / failed.goodput.share));
    CHECK(failed.money[1] == Approx(4 * 6 * failed.time[1].si() / 3600));
    CHECK(failed.offer.price_source == "cluster.price_per_gpu_hour");
    of.training.steps = 1;
    CHECK(of.campaign().steps == 1);
}

// Four ranks spend two seconds at the 600 W of the board's limit; the market still provides PUE and
// node power.
TEST_CASE("power that the market does not know is that of the cluster's board") {
    Trained of;
    of.e.cluster.gpu.name = of.e.cluster.gpu.aliases = "X9";
    of.e.cluster.power.limit = 600;
    of.e.cluster.power.idle = 60;
    const Offer offer = offer_for(of.training.market, of.e.cluster);
    CHECK(std::tuple(offer.board, offer.idle, offer.rest, offer.power_source) ==
          std::tuple(Watts(600), Watts(60), Watts(0),
                     std::string("X9 600 W (cluster.power.limit_w)")));
    CHECK(of.campaign().energy[1] > Joules(0));
}

// A device without an idle power waits at its limit: 4 x 1.2 x (300 x 2 + 50 x 2).
TEST_CASE("without the power of a board no energy is known, without an offer only the time") {
    Trained of;
    Offer& offer = of.training.market.offers[1];
    offer.idle = Watts(0);
    CHECK(step_energy(offer, 4, of.f).si() == Approx(3360));
    offer.board = Watts(0);  // that of its node is
    CHECK(of.campaign().energy[1] == Joules(0));
    of.e.cluster.gpu.aliases = "";
    CHECK(of.campaign().money[1] == 0);
    CHECK(of.campaign().energy[1] == Joules(0));
}

TEST_CASE(
    "the shipped market knows the price or the power of every shipped GPU, each with its source") {
    const Market market = read_market();
    CHECK(market.currency == "USD");
    for (const std::string& name : preset_names(PresetKind::cluster)) {
        const Cluster cluster = read_cluster(name);
        if (name == "host") continue;
        const Offer offer = offer_for(market, cluster);
        INFO(name << ", " << cluster.gpu.name);
        CHECK(offer.board > Watts(0));
        CHECK_FALSE(offer.power_source.empty());
        CHECK((offer.price_per_gpu_hour == 0) == offer.price_source.empty());
    }
    CHECK(market.failures.mtbf_per_gpu.si() == Approx(50'700 * hour));
}

TEST_CASE("a market file that is not understood is refused with its position") {
    const TestFolder folder;
    const auto refused = [&](const std::string& text) { return folder.write("market.toml", text); };
    CHECK_THROWS_WITH(
        read_market(refused("[failures]\nmtbf_per_gpu = \"3 parsecs\"\n")),
        Catch::Contains(":2:") &&
            Catch::Contains("\"3 parsecs\" has the unknown unit \"parsecs\"; expected a time"));
    CHECK_THROWS_WITH(read_market(refused("[[gpu]]\nname = \"X\"\nprize = 3\n")),
                      Catch::Contains(":3:1") && Catch::Contains("gpu.0.prize") &&
                          Catch::Contains("no key of a market"));
    CHECK_THROWS_WITH(read_market(refused("[[gpu]]\nboard_power = 700\n")), Catch::Contains(":2:"));
    CHECK_THROWS_WITH(read_market(refused("[[gpu]]\nprice_per_gpu_hour = -1\n")),
                      Catch::Contains("-1 is out of range; expected 0 to"));
    CHECK_THROWS_AS(read_market("/nowhere.toml"), ConfigError);
}

TEST_CASE("durations and counts are read with their units") {
    CHECK(parse_seconds("60d") == Seconds(60 * 86'400.0));
    CHECK(parse_seconds("90 min") == Seconds(5400));
    CHECK(parse_count("15T") == 15e12);
    CHECK(parse_count("100k") == 1e5);
    CHECK(parse_count("2048") == 2048);
    for (const char* bad : {"", "d", "60", "3 months", "nan d"})
        CHECK_THROWS_AS(parse_seconds(bad), ConfigError);
    CHECK(parse_count("1000T") == 1e15);
    for (const char* bad : {"", "T", "-1T", "1e400", "3 Z", "1e300", "1e19"})
        CHECK_THROWS_AS(parse_count(bad), ConfigError);
}
