#include "sim/sweep/file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/model/files.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

struct Folder {
    TestFolder own;
    std::string path = own.path();
    [[nodiscard]] std::string file() const { return path + "/sweep.csv"; }
    [[nodiscard]] std::string text() const {
        std::ostringstream text;
        text << std::ifstream(file()).rdbuf();
        return text.str();
    }
    void cut(std::size_t size) const { std::filesystem::resize_file(file(), size); }
};

SweepQuestion question() {
    SweepQuestion q;
    q.experiment = small_gpt();
    q.axes = {parse_axis("parallelism.tp=1,2,4"), parse_axis("parallelism.dp=rest")};
    return q;
}

Screened round_of(std::uint64_t legal) {
    return {.legal = legal,
            .bounded_away = 1,
            .illegal = {{"tp, \"quoted\"", 4}},
            .infeasible = {{"not step < 1 s", 2}},
            .candidates = {{{0, 1}, Seconds(0.1), Seconds(1.0 / 3), Bytes(2e9), 4096, 0.1, 4}},
            .cells = {{{1, 2}, Seconds(1.0 / 7)}}};
}

const SimulatedPoint simulated{{0, 1}, Seconds(1.0 / 3), ""},
    refused{{0, 2}, Seconds(0), "cannot, so far"};

}  // namespace

TEST_CASE("a sweep's file gives back exactly what was written, and goes on") {
    const Folder folder;
    {
        SweepFile file(folder.path, question(), false);
        file.add_round(0, round_of(10));
        file.add(simulated, {{"parallelism.tp", "2"}});
        file.add(refused, {});
        file.add_round(1, round_of(20));
    }
    CHECK_THAT(folder.text(), Catch::Contains("simulated,0,1,0.3333333333333333,"));
    CHECK_THAT(folder.text(), Catch::Contains("parallelism.tp=2"));
    for (int again = 0; again < 2; ++again) {
        SweepFile file(folder.path, question(), true);
        CHECK(file.round(0) == round_of(10));
        CHECK(file.round(1) == round_of(20));
        CHECK_FALSE(file.round(2));
        REQUIRE(file.simulated({0, 1}));
        CHECK(*file.simulated({0, 1}) == simulated);
        CHECK(*file.simulated({0, 2}) == refused);
        CHECK_FALSE(file.simulated({0, 3}));
    }
}

// The process may be killed within any line: after a cut at any byte of the second round only the
// first round is whole.
TEST_CASE("a file that ends anywhere is read up to its last whole round") {
    const Folder folder;
    std::size_t first = 0;
    {
        SweepFile file(folder.path, question(), false);
        file.add_round(0, round_of(10));
        file.add(simulated, {});
        first = folder.text().size();
        file.add_round(1, round_of(20));
    }
    for (std::size_t size = folder.text().size() - 1; size > first; size -= 17) {
        folder.cut(size);
        SweepFile file(folder.path, question(), true);
        REQUIRE(file.round(0));
        CHECK(*file.round(0) == round_of(10));
        CHECK_FALSE(file.round(1));
        REQUIRE(file.simulated({0, 1}));
        CHECK(*file.simulated({0, 1}) == simulated);
        if (size < first + 17) break;
        // reading drops the incomplete round, so the next shorter cut needs it written again
        file.add_round(1, round_of(20));
    }
}

TEST_CASE("a sweep's file belongs to one question, and is not thrown away unasked") {
    const Folder folder;
    { SweepFile file(folder.path, question(), false); }
    CHECK_THROWS_WITH(SweepFile(folder.path, question(), false),
                      Catch::Contains("expected --resume"));
    SweepQuestion other = question();
    other.top = 3;
    CHECK_THROWS_WITH(SweepFile(folder.path, other, true), Catch::Contains("holds another sweep"));
    CHECK(fingerprint(question()) == fingerprint(question()));
    other = question();
    other.experiment.cluster.intra.latency *= 1.001;
    CHECK(fingerprint(other) != fingerprint(question()));
    {
        SweepFile file(folder.path, question(), true);
        file.add(simulated, {});
        file.complete();
    }
    // a finished question may be asked again from the start
    SweepFile file(folder.path, question(), false);
    CHECK_FALSE(file.simulated({0, 1}));
    CHECK(folder.text().find("simulated,0,1") == std::string::npos);
}

// Draws of a changed file under the same name are another question; otherwise points of both would
// be compared.
TEST_CASE("what a routing file holds belongs to the question") {
    const Folder folder;
    SweepQuestion q = question();
    q.experiment.routing.file = folder.path + "/r.csv";
    const auto print = [&](const char* text) {
        std::ofstream(q.experiment.routing.file) << text;
        return fingerprint(q);
    };
    const std::string first = print("one");
    CHECK(print("two") != first);
    CHECK(print("one") == first);
}

TEST_CASE("a sweep takes no folder that holds another verb's tables") {
    const Folder folder;
    std::ofstream(folder.path + "/top.csv") << "mine\n";
    CHECK_THROWS_WITH(SweepFile(folder.path, question(), false),
                      Catch::Contains("top.csv: is of no sweep"));
    CHECK_FALSE(std::filesystem::exists(folder.file()));
    std::filesystem::remove(folder.path + "/top.csv");
    { SweepFile file(folder.path, question(), false); }
    std::ofstream(folder.path + "/top.csv") << "of the sweep\n";
    CHECK_NOTHROW(SweepFile(folder.path, question(), true));
}

TEST_CASE("a broken line of a sweep's file is named") {
    const Folder folder;
    { SweepFile file(folder.path, question(), false); }
    const auto lines = [&] {
        std::ifstream in(folder.file());
        return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
    }();
    std::ofstream(folder.file(), std::ios::app) << "simulated,0,one,0.5,,,,,,,,\n";
    CHECK_THROWS_WITH(
        SweepFile(folder.path, question(), true),
        Catch::Contains("sweep.csv:" + std::to_string(lines + 1) + ": \"one\" is no number"));
    std::ofstream(folder.file()) << "a,b\n1,2\n";
    CHECK_THROWS_WITH(SweepFile(folder.path, question(), true),
                      Catch::Contains("is no file of a sweep"));
}
