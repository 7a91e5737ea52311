#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <memory>
#include <thread>

#include "exec/rendezvous.h"
#include "model/base/errors.h"

using namespace stepcast;

namespace {

// Each test has a port of its own, apart from other processes' tests.
int port_of(int test) { return 20000 + static_cast<int>(getpid()) % 2000 * 16 + test; }

Launch launch_of(int rank, int ranks, int test, const std::string& token) {
    return {rank, ranks, rank, "127.0.0.1", port_of(test), true, token};
}

// Ranks as threads that talk over the loopback.
std::vector<std::string> run_ranks(
    int ranks, int test, const std::function<std::string(int rank, Rendezvous& rendezvous)>& body,
    const std::function<void()>& before_others = {}) {
    std::vector<std::string> results(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
            std::string& result = results[static_cast<std::size_t>(rank)];
            try {
                if (rank > 0 && before_others) before_others();
                Rendezvous rendezvous(launch_of(rank, ranks, test, "ours"), Seconds(20));
                result = body(rank, rendezvous);
            } catch (const DeviceError& error) {
                result = error.what();
            }
        });
    for (std::thread& thread : threads) thread.join();
    return results;
}

// Who is no rank of the run but reaches its port.
class Stranger {
public:
    explicit Stranger(int test, const char* host = "127.0.0.1")
        : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_port = htons(static_cast<std::uint16_t>(port_of(test)));
        inet_pton(AF_INET, host, &at.sin_addr);
        for (int look = 0; look < 500 && !connected_; ++look) {
            connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
            if (!connected_) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    }
    ~Stranger() { close(socket_); }
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;

    [[nodiscard]] bool is_connected() const { return connected_; }
    void say(const std::string& bytes) const {
        (void)!send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    // Bytes up to a greeting or the end of the connection.
    [[nodiscard]] std::size_t hears() const {
        std::string bytes(16 + longest_token, '\0');
        return static_cast<std::size_t>(
            std::max<ssize_t>(0, recv(socket_, bytes.data(), bytes.size(), MSG_WAITALL)));
    }

private:
    int socket_;
    bool connected_ = false;
};

// As exec/door.cpp lays it out.
std::string hello(std::int32_t rank, std::int32_t ranks, const std::string& token) {
    std::string text = "stepcast";
    text.append(reinterpret_cast<const char*>(&rank), sizeof rank);
    text.append(reinterpret_cast<const char*>(&ranks), sizeof ranks);
    text += token;
    text.resize(16 + longest_token, '\0');
    return text;
}

// Rank 1 comes after `strangers` have done what they do; both must meet, long before the 20 s of
// patience.
std::vector<std::string> meet_among(int test, const std::function<void()>& strangers) {
    return run_ranks(
        2, test,
        [&](int, Rendezvous& rendezvous) {
            rendezvous.meet();
            return std::string("met");
        },
        strangers);
}

}  // namespace

TEST_CASE("processes gather at rank 0 in the order of their ranks and hear what it says") {
    const auto results = run_ranks(3, 0, [](int rank, Rendezvous& rendezvous) {
        std::string joined;
        for (const std::string& text : rendezvous.gather("r" + std::to_string(rank)))
            joined += text;
        rendezvous.meet();
        return rendezvous.broadcast(joined);
    });
    CHECK(results == std::vector<std::string>(3, "r0r1r2"));
}

TEST_CASE("values longer than a socket's buffer arrive whole") {
    const std::string large(8 << 20, 'x');
    const auto results = run_ranks(2, 1, [&](int rank, Rendezvous& rendezvous) {
        return rendezvous.broadcast(rank == 0 ? large : "");
    });
    CHECK(results[0] == large);
    CHECK(results[1] == large);
}

TEST_CASE("clocks of one machine are found to agree") {
    // Both read the same steady clock, so the offset is the round trip's asymmetry: far below a
    // tenth of a second.
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
    CHECK(results == std::vector<std::string>{"given up because rank 2 failed",
                                              "given up because rank 2 failed", "failed"});
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

TEST_CASE("rank 0 that waits for a rank which waits for a failed one hears of the failed one") {
    // Rank 1 never sends: it stands for one that hangs in a collective with rank 2. Far sooner than
    // the 20 s of patience.
    const auto results = run_ranks(3, 6, [](int rank, Rendezvous& rendezvous) -> std::string {
        if (rank == 2) {
            rendezvous.fail();
            return "failed";
        }
        try {
            if (rank == 0) rendezvous.gather("");
            for (;;) {
                rendezvous.check_others();
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        } catch (const DeviceError& error) {
            rendezvous.fail();
            return error.what();
        }
    });
    CHECK(results[0] == "given up because rank 2 failed");
    CHECK(results[1] == "given up because rank 2 failed");
}

// Garbage, silence, half a greeting, a greeting of another run, of no rank, of another size, and a
// flood of callers.
TEST_CASE("strangers neither take a rank's place nor hold the others up") {
    const std::vector<std::string> met(2, "met");
    std::vector<std::unique_ptr<Stranger>> held;  // silent ones stay until the end
    const auto say = [&](int test, const std::vector<std::string>& texts) {
        for (const std::string& text : texts)
            held.push_back(std::make_unique<Stranger>(test)), held.back()->say(text);
    };
    CHECK(meet_among(7, [&] {
              say(7, {std::string(4096, 'x'), "GET / HTTP/1.1\r\n\r\n", "", "step"});
          }) == met);
    CHECK(meet_among(8, [&] {
              say(8, {hello(1, 2, "theirs"), hello(1, 2, ""), hello(1, 2, "our"),
                      hello(1, 2, "ours2"), hello(0, 2, "ours"), hello(2, 2, "ours"),
                      hello(-1, 2, "ours"), hello(1, 3, "ours")});
          }) == met);
    CHECK(meet_among(9, [&] { say(9, std::vector<std::string>(600, "s")); }) == met);
}

// Three ranks, of which two are raw sockets that know the token: who comes second as rank 1 hears
// nothing and is hung up on.
TEST_CASE("a rank that asks twice has one place") {
    const std::uint64_t one = 1;
    const auto message = [&](const std::string& text) {
        return "d" + std::string(reinterpret_cast<const char*>(&one), sizeof one) + text;
    };
    std::vector<std::string> found;
    std::thread first(
        [&] { found = Rendezvous(launch_of(0, 3, 10, "ours"), Seconds(20)).gather("0"); });
    const Stranger rank_1(10);
    rank_1.say(hello(1, 3, "ours"));
    CHECK(rank_1.hears() == hello(0, 3, "ours").size());
    rank_1.say(message("1"));
    const Stranger again(10);
    again.say(hello(1, 3, "ours"));
    CHECK(again.hears() == 0);
    const Stranger rank_2(10);
    rank_2.say(hello(2, 3, "ours"));
    rank_2.say(message("2"));
    first.join();
    CHECK(found == std::vector<std::string>{"0", "1", "2"});
}

TEST_CASE("processes of one host listen on its loopback only") {
    bool reached = true;
    const auto results = meet_among(11, [&] {
        char name[256];
        REQUIRE(gethostname(name, sizeof name) == 0);
        // 127.0.0.2 is this host too, but not the address that was asked for.
        reached = Stranger(11, "127.0.0.2").is_connected();
    });
    CHECK_FALSE(reached);
    CHECK(results == std::vector<std::string>(2, "met"));
}

// As Debian's own host name leads to 127.0.1.1: rank 0 listens at every address, so that others
// reach it at one of theirs.
TEST_CASE("rank 0 whose name leads to the loopback listens at every address") {
    for (const std::string address : {"127.0.0.1", "::1"}) {
        const int test = address == "::1" ? 15 : 14;
        std::string found;
        std::thread first([&] {
            Launch launch = launch_of(0, 2, test, "ours");
            launch.one_host = false;
            launch.address = address;
            try {
                for (const std::string& text : Rendezvous(launch, Seconds(20)).gather("0"))
                    found += text;
            } catch (const std::exception& error) {
                found = error.what();
            }
        });
        Launch other = launch_of(1, 2, test, "ours");
        other.one_host = false;
        other.address = "127.0.0.2";
        try {
            Rendezvous(other, Seconds(20)).gather("1");
        } catch (const std::exception& error) {
            WARN("rank 1: " << error.what());
        }
        first.join();
        CHECK(found == "01");
    }
}

TEST_CASE("who answers in rank 0's place without the token is not rank 0") {
    const int impostor = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port_of(12)));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(impostor, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
    REQUIRE(listen(impostor, 8) == 0);
    std::thread answers([&] {
        const int caller = accept(impostor, nullptr, nullptr);
        const std::string text = hello(0, 2, "theirs");
        (void)!send(caller, text.data(), text.size(), MSG_NOSIGNAL);
        close(impostor);
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        close(caller);
    });
    CHECK_THROWS_WITH(
        Rendezvous(launch_of(1, 2, 12, "ours"), Seconds(0.2)),
        "rank 0 did not answer at 127.0.0.1:" + std::to_string(port_of(12)) + " within 200 ms");
    answers.join();
}

// A network may cut a greeting anywhere: here before and behind each of its bytes.
TEST_CASE("a rank whose greeting comes byte by byte is let in") {
    std::vector<std::string> heard;
    std::thread first([&] {
        try {
            heard = Rendezvous(launch_of(0, 2, 15, "ours"), Seconds(20)).gather("zero");
        } catch (const DeviceError& error) {
            heard = {error.what()};
        }
    });
    {
        const Stranger rank_1(15);
        for (const char byte : hello(1, 2, "ours")) {
            rank_1.say(std::string(1, byte));
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        const std::uint64_t size = 3;
        rank_1.say("d" + std::string(reinterpret_cast<const char*>(&size), sizeof size) + "one");
        CHECK(rank_1.hears() == 16 + longest_token);
        first.join();
    }
    CHECK(heard == std::vector<std::string>{"zero", "one"});
}

// Kind 'd', then a length that no memory holds; an unknown kind; a failure of no number. Rank 1 is
// a raw socket that knows the token.
TEST_CASE(
    "a message that is none names its sender instead of taking memory or ending the program") {
    const std::uint64_t huge = std::uint64_t{1} << 60, one = 1;
    const auto frame = [](char kind, std::uint64_t size, const std::string& text) {
        return std::string(1, kind) +
               std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
    };
    const std::vector<std::pair<std::string, std::string>> messages{
        {frame('d', huge, ""), "rank 1 sends what is no message of this program"},
        {frame('x', one, "a"), "rank 1 sends what is no message of this program"},
        {frame('f', one, "a"), "rank 1 sends what is no number"}};
    for (const auto& [bytes, expected] : messages) {
        std::string found;
        std::thread first([&] {
            try {
                Rendezvous(launch_of(0, 2, 13, "ours"), Seconds(10)).gather("");
            } catch (const DeviceError& error) {
                found = error.what();
            }
        });
        {
            const Stranger rank_1(13);
            rank_1.say(hello(1, 2, "ours"));
            rank_1.say(bytes);
            first.join();
        }
        CHECK(found == expected);
    }
}
