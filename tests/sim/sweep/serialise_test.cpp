#include "sim/sweep/pool.h"

#include <catch2/catch.hpp>

using namespace stepcast;

TEST_CASE("jobs and results of a sweep come back from words as they were") {
    const Candidate candidate{{1, 2}, Seconds(0.1), Seconds(0.2), Bytes(3e9), 4096, 0.25, -3};
    const SweepJob job{.items = {7, 1ULL << 60}, .points = {candidate}, .incumbents = {{{1.5, 2.5}, {3, 4}, 16}}};
    const SweepJob same = job_of(serialised(job));
    CHECK(same.items == job.items);
    CHECK(same.points == job.points);
    CHECK(same.incumbents == job.incumbents);

    SweepJobResult result;
    result.screened = {.legal = 5,
                       .bounded_away = 6,
                       .illegal = {{"tp", 7}},
                       .infeasible = {{"does not fit", 8}, {"", 9}},
                       .candidates = {candidate, candidate},
                       .cells = {{{-1, 2}, Seconds(0.3)}}};
    result.simulated = {{{5, 6}, Seconds(0.7), ""}, {{5, 7}, Seconds(0), "because \"so\""}};
    const SweepJobResult back = result_of(serialised(result));
    CHECK(back.screened == result.screened);
    CHECK(back.simulated == result.simulated);
}

TEST_CASE("words that are cut off or go on are our mistake") {
    Words words = serialised(SweepJob{.items = {1, 2, 3}, .points = {}, .incumbents = {}});
    words.push_back(0);
    CHECK_THROWS_AS(job_of(words), std::logic_error);
    words.resize(2);
    CHECK_THROWS_AS(job_of(words), std::logic_error);
    CHECK_THROWS_AS(job_of(Words{1'000'000'000'000}), std::logic_error);
}
