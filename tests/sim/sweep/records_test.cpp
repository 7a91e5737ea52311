#include "sim/sweep/records.h"

#include <catch2/catch.hpp>

#include "model/base/errors.h"

using namespace stepcast;

TEST_CASE("jobs and results of a sweep come back from records as they were") {
    const Candidate candidate{{1, 2}, Seconds(0.1), Seconds(0.2), Bytes(3e9), 4096,
                              0.25,   -3,           true,         1ULL << 63};
    const SweepJob job{.items = {7, 1ULL << 60},
                       .scouted = 5,
                       .points = {candidate},
                       .incumbents = {{{1.5, 2.5, true}, {3, 4}, 16, 1ULL << 63}},
                       .cells = {{{3, 4}, Seconds(0.1)}}};
    const SweepJob same = job_of(records_of(job));
    CHECK(same.items == job.items);
    CHECK(same.scouted == job.scouted);
    CHECK(same.points == job.points);
    CHECK(same.incumbents == job.incumbents);
    CHECK(same.cells == job.cells);

    SweepJobResult result;
    result.screened = {.legal = 5,
                       .bounded_away = 6,
                       .tight = 3,
                       .illegal = {{"tp", 7}},
                       .infeasible = {{"does not fit", 8}, {"", 9}},
                       .candidates = {candidate, candidate},
                       .cells = {{{-1, 2}, Seconds(0.3)}}};
    result.simulated = {{{5, 6}, Seconds(0.7), ""},
                        {{5, 7}, Seconds(0), "because \"so\""},
                        {{5, 8}, Seconds(0.8), "", true},
                        {{5, 9}, Seconds(0.9), "", false, true}};
    const SweepJobResult back = result_of(records_of(result));
    CHECK(back.screened == result.screened);
    CHECK(back.simulated == result.simulated);
}

TEST_CASE("records that are cut off, or of another kind, are refused") {
    const std::string records = records_of(SweepJob{.items = {1, 2, 3}});
    CHECK_THROWS_AS(job_of(records.substr(0, records.size() - 3)), ConfigError);
    CHECK_THROWS_AS(result_of(records), ConfigError);
}
