#include <catch2/catch.hpp>

#include "import/logs/import.h"
#include "import/logs/run_summary.h"

using namespace stepcast;

namespace {

Sample at(int step, double value, int rank = -1) {
    Sample s;
    s.run_id = "run";
    s.phase = "step";
    s.rank = rank;
    s.step = step;
    s.value = value;
    return s;
}

}  // namespace

TEST_CASE("the steady part is steps 30.. of a hundred and the last 70 percent of fewer") {
    CHECK(first_steady_step(100) == 30);
    CHECK(first_steady_step(500) == 30);
    CHECK(first_steady_step(20) == 6);
    CHECK(first_steady_step(15) == 5);  // floor(10.5) = 10 steady
}

// 15 steps of value = step: steady are 5 .. 14, median 9.5.
TEST_CASE("a summary is the median of steady steps and ignores the warm-up") {
    std::vector<Sample> samples;
    for (int s = 0; s < 15; ++s) samples.push_back(at(s, s < 5 ? 1e6 : s));
    const Summaries result = summaries(samples);
    REQUIRE(result.rows.size() == 1);
    CHECK(result.rows[0].step == -1);
    CHECK(result.rows[0].value == 9.5);
    CHECK(result.refused.empty());
}

TEST_CASE("a run with fewer than ten steady steps has no medians and the reason is given") {
    std::vector<Sample> samples;
    for (int s = 0; s < 14; ++s) samples.push_back(at(s, 1));  // floor(9.8) = 9 steady
    const Summaries result = summaries(samples);
    CHECK(result.rows.empty());
    CHECK(result.refused ==
          std::vector<std::string>{
              "run: no medians: 9 of its 14 steps are steady, expected at least 10"});
}

// Every step has the values 1, 2 and 9 of ranks not told apart.
TEST_CASE("several values a step give the medians of the least, the middle and the greatest") {
    std::vector<Sample> samples;
    for (int s = 0; s < 20; ++s) {
        for (const double v : {9.0, 1.0, 2.0}) samples.push_back(at(s, v));
    }
    const Summaries result = summaries(samples);
    REQUIRE(result.rows.size() == 3);
    CHECK(result.rows[0].phase == "step.least");
    CHECK(result.rows[0].value == 1);
    CHECK(result.rows[1].value == 2);
    CHECK(result.rows[2].phase == "step.greatest");
    CHECK(result.rows[2].value == 9);
}

// Two ranks, two rows each; rows of other phases and of ranks that the run has not are not of the
// routing.
TEST_CASE("a recorded routing is written as rows of its ranks and read back from them") {
    ImportedRun run;
    run.run_id = "run";
    run.system = "fast_moe";
    run.model = "moe_layer";
    run.experts = 8;
    run.ranks = 2;
    CHECK(routing_rows(run).empty());
    run.routing = Routing{2, 8, {}, {{10, 4}, {20, 5}}};
    std::vector<Sample> rows = routing_rows(run);
    REQUIRE(rows.size() == 4);
    CHECK(rows[0].phase == "blocks");
    CHECK(rows[3].phase == "remote_blocks");
    CHECK(rows[3].run_id == "run");
    CHECK(rows[3].rank == 1);
    CHECK(rows[3].step == -1);
    CHECK(rows[3].value == 5);
    CHECK(rows[3].unit == "1");
    Sample other = rows[3];
    other.rank = 2;
    rows.push_back(other);
    other.rank = -1;
    rows.push_back(other);
    other.rank = 1;
    other.phase = "step";
    other.value = 7;
    rows.push_back(other);
    CHECK(recorded_routing(rows) == run.routing);
    rows.erase(rows.begin() + 2);  // one row of rank 1 is missing: not known
    CHECK_FALSE(recorded_routing(rows));
}
