#include "sim/on_threads.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

namespace stepcast {
namespace {

TEST_CASE("threads: each of them runs the work once, and all have ended before the call returns") {
    std::atomic<int> runs = 0;
    on_threads(5, [&] { ++runs; });
    CHECK(runs == 5);
    on_threads(1, [&] { ++runs; });
    CHECK(runs == 6);
    CHECK(threads_or_cores(3) == 3);
    CHECK(threads_or_cores(0) >= 1);
}

TEST_CASE("threads: each number below the size is worked on once, whichever thread takes it") {
    std::vector<std::atomic<int>> runs(100);
    each_on_threads(4, runs.size(), [&](std::size_t i) { ++runs[i]; });
    CHECK(std::ranges::all_of(runs, [](const std::atomic<int>& count) { return count == 1; }));
    each_on_threads(4, 0, [](std::size_t) { throw std::logic_error("there is none"); });
}

// An exception that leaves a thread would end the whole program. The call must rethrow it, also
// when the caller's own share went well, and the other threads must still finish theirs.
TEST_CASE(
    "threads: what one of them throws is thrown by the call, after the others have finished") {
    std::atomic<int> started = 0, finished = 0;
    const auto third_fails = [&] {
        if (++started == 3) throw std::runtime_error("the third");
        ++finished;
    };
    CHECK_THROWS_WITH(on_threads(4, third_fails), "the third");
    CHECK(finished == 3);
    CHECK_THROWS_AS(on_threads(3, [] { throw std::runtime_error("all"); }), std::runtime_error);
}

}  // namespace
}  // namespace stepcast
