#include <catch2/catch.hpp>

#include <unistd.h>

#include <cmath>
#include <functional>
#include <memory>
#include <thread>

#include "exec/rendezvous.h"
#include "model/errors.h"

using namespace stepcast;

namespace {

// Ranks as threads that talk over the loopback; each test has a port of its own, apart from other processes' tests.
std::vector<std::string> run_ranks(int ranks, int test,
                                   const std::function<std::string(int rank, Rendezvous& rendezvous)>& body) {
    const int port = 20000 + static_cast<int>(getpid()) % 4000 * 8 + test;
    std::vector<std::string> results(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
            std::string& result = results[static_cast<std::size_t>(rank)];
            try {
                Rendezvous rendezvous({rank, ranks, rank, "127.0.0.1", port}, Seconds(20));
                result = body(rank, rendezvous);
            } catch (const DeviceError& error) {
                result = error.what();
            }
        });
    for (std::thread& thread : threads) thread.join();
    return results;
}

}  // namespace

TEST_CASE("processes gather at rank 0 in the order of their ranks and hear what it says") {
    const auto results = run_ranks(3, 0, [](int rank, Rendezvous& rendezvous) {
        std::string joined;
        for (const std::string& text : rendezvous.gather("r" + std::to_string(rank))) joined += text;
        rendezvous.meet();
        return rendezvous.broadcast(joined);
    });
    CHECK(results == std::vector<std::string>(3, "r0r1r2"));
}

TEST_CASE("values longer than a socket's buffer arrive whole") {
    const std::string large(8 << 20, 'x');
    const auto results =
        run_ranks(2, 1, [&](int rank, Rendezvous& rendezvous) { return rendezvous.broadcast(rank == 0 ? large : ""); });
    CHECK(results[0] == large);
    CHECK(results[1] == large);
}

TEST_CASE("clocks of one machine are found to agree") {
    // Both read the same steady clock, so the offset is the round trip's asymmetry: far below a tenth of a second.
    const auto results = run_ranks(2, 2, [](int, Rendezvous& rendezvous) {
        return std::string(std::abs(rendezvous.clock_offset().si()) < 0.1 ? "same" : "apart");
    });
    CHECK(results == std::vector<std::string>(2, "same"));
}

TEST_CASE("all ranks learn which rank failed, also those that talk to rank 0 only") {
    const auto results = run_ranks(3, 3, [](int rank, Rendezvous& rendezvous) -> std::string {
        rendezvous.meet();
        if (rank == 2) {
            rendezvous.fail();
            return "failed";
        }
        try {
            rendezvous.meet();
        } catch (const DeviceError& error) {
            rendezvous.fail();
            return error.what();
        }
        return "met";
    });
    CHECK(results == std::vector<std::string>{"given up because rank 2 failed", "given up because rank 2 failed",
                                              "failed"});
}

TEST_CASE("a rank that ends without a word is named") {
    const auto results = run_ranks(2, 4, [](int rank, Rendezvous& rendezvous) -> std::string {
        if (rank == 1) return "left";
        for (;;) {
            rendezvous.check_others();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    CHECK(results[0] == "rank 1 has gone");
}

TEST_CASE("a rank that never arrives ends the wait") {
    const auto results = run_ranks(2, 5, [](int rank, Rendezvous& rendezvous) -> std::string {
        rendezvous.set_timeout(Seconds(0.2));
        if (rank == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(600));
            return "late";
        }
        rendezvous.gather("");
        return "gathered";
    });
    CHECK(results[0] == "rank 1 did not arrive within 200 ms");
}
