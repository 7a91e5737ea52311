#include <algorithm>
#include <numeric>

#include <catch2/catch.hpp>

#include "measured/medians.h"
#include "model/records/measurements.h"
#include "model/routing.h"

using namespace stepcast;

namespace {

RoutingSpec spec_of(RoutingSpec::Kind kind, std::uint64_t seed = 1) {
    RoutingSpec spec;
    spec.kind = kind;
    spec.seed = seed;
    return spec;
}

int row_sum(const Routing& routing, int source) {
    int sum = 0;
    for (int e = 0; e < routing.experts; ++e) sum += routing.count(source, e);
    return sum;
}

// Share of all slots on the rank with most slots.
double hottest_rank_share(const Routing& routing) {
    std::vector<double> load(static_cast<std::size_t>(routing.ranks));
    for (int r = 0; r < routing.ranks; ++r)
        for (int e = 0; e < routing.experts; ++e)
            load[static_cast<std::size_t>(e / routing.experts_per_rank())] += routing.count(r, e);
    return *std::max_element(load.begin(), load.end()) /
           std::accumulate(load.begin(), load.end(), 0.0);
}

}  // namespace

// 10 tokens x 2 slots over 8 experts: 2 each, and 4 experts get one more, different ones on each
// rank.
TEST_CASE(
    "uniform routing gives every expert the same slots, the rest to different experts on different "
    "ranks") {
    const Routing routing = make_routing(spec_of(RoutingSpec::Kind::uniform), {2, 8, 10, 2});
    CHECK(routing.counts == std::vector<int>{3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3});
}

// 600 tokens, one slot each, exponent 1, 3 experts: weights 1, 1/2, 1/3 give 327.3, 163.6, 109.1,
// in an order that the seed chooses.
TEST_CASE("zipf routing falls as one over the rank of popularity") {
    const Routing routing = make_routing(spec_of(RoutingSpec::Kind::zipf), {1, 3, 600, 1});
    std::vector<int> sorted = routing.counts;
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == std::vector<int>{109, 164, 327});
}

TEST_CASE(
    "every routing gives each source rank exactly tokens times top-k slots, none above its "
    "tokens") {
    for (const auto kind :
         {RoutingSpec::Kind::uniform, RoutingSpec::Kind::zipf, RoutingSpec::Kind::random_gate}) {
        const Routing routing = make_routing(spec_of(kind, 7), {4, 16, 500, 2});
        for (int r = 0; r < 4; ++r) CHECK(row_sum(routing, r) == 1000);
        CHECK(*std::max_element(routing.counts.begin(), routing.counts.end()) <= 500);
    }
}

TEST_CASE("a seed and a draw give the same routing again, another draw a different one") {
    const RoutingSpec spec = spec_of(RoutingSpec::Kind::random_gate, 3);
    CHECK(make_routing(spec, {4, 64, 8192, 2}, 5) == make_routing(spec, {4, 64, 8192, 2}, 5));
    CHECK_FALSE(make_routing(spec, {4, 64, 8192, 2}, 5) == make_routing(spec, {4, 64, 8192, 2}, 6));
}

// Recorded gates of this kind put about half of all slots on the hottest of 4 ranks (uniform would
// be a quarter); the median over draws must lie near that, and the spread must be wide.
TEST_CASE("the random gate puts about half of all slots on one of four ranks") {
    for (const int experts : {16, 64, 256}) {
        std::vector<double> shares;
        for (int draw = 0; draw < 60; ++draw)
            shares.push_back(hottest_rank_share(make_routing(
                spec_of(RoutingSpec::Kind::random_gate), {4, experts, 8192, 2}, draw)));
        CHECK(median(shares) > 0.40);
        CHECK(median(shares) < 0.58);
        CHECK(quantile(shares, 0.9) / quantile(shares, 0.1) > 1.3);
    }
}

// Without skew all experts have the same chance: 8192 * 2 / 16 = 1024 slots each, standard
// deviation about 30.
TEST_CASE("a random gate without skew is uniform up to binomial scatter") {
    RoutingSpec spec = spec_of(RoutingSpec::Kind::random_gate);
    spec.skew = 0;
    const Routing routing = make_routing(spec, {4, 16, 8192, 2});
    for (const int slots : routing.counts) CHECK(std::abs(slots - 1024) < 150);
}

TEST_CASE("a routing of no tokens has no slots, one of sizes that nobody checked is our mistake") {
    const RoutingSpec spec = spec_of(RoutingSpec::Kind::uniform);
    CHECK(make_routing(spec, {2, 4, 0, 1}).counts == std::vector<int>(8));
    CHECK(make_routing(spec, {1, 1, 1, 1}).counts == std::vector<int>{1});
    CHECK_THROWS_AS(make_routing(spec, {0, 4, 1, 1}), std::logic_error);
    CHECK_THROWS_AS(make_routing(spec, {2, 0, 1, 1}), std::logic_error);
    CHECK_THROWS_AS(make_routing(spec, {2, 4, -1, 1}), std::logic_error);
    CHECK_THROWS_AS(make_routing(spec, {2, 4, 1, 0}), std::logic_error);
    CHECK_THROWS_AS(make_routing(spec, {2, 4, 1, 5}), std::logic_error);
}

// 65536 x 65536 = 2^32 counts: 16 GB, and more than an int counts.
TEST_CASE("a routing of more counts than can be held is refused with their number") {
    CHECK_THROWS_WITH(
        make_routing(spec_of(RoutingSpec::Kind::uniform), {65536, 65536, 1, 1}),
        Catch::Matchers::Contains(
            "65536 ranks x 65536 experts = 4294967296 counts; expected at most 67108864"));
}

// A token alone chooses two of eight experts that are equally likely. That none of eight drawn
// counts is above 0 has a chance of (1 - 2/8)^8 = 10 %: of 60 seeds and three ranks some surely.
TEST_CASE("the slots of one token, and of none, sum to what they must, whatever is drawn") {
    RoutingSpec spec = spec_of(RoutingSpec::Kind::random_gate);
    spec.skew = 0;
    for (spec.seed = 1; spec.seed <= 60; ++spec.seed)
        for (const int tokens : {1, 0}) {
            CAPTURE(spec.seed, tokens);
            const Routing routing = make_routing(spec, {3, 8, tokens, 2});
            for (int rank = 0; rank < 3; ++rank) {
                int sum = 0;
                for (int expert = 0; expert < 8; ++expert) {
                    const int count = routing.count(rank, expert);
                    CHECK((count >= 0 && count <= tokens));
                    sum += count;
                }
                CHECK(sum == 2 * tokens);
            }
        }
}
