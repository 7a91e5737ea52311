#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/experiment.h"
#include "model/routing.h"
#include "model/routing_file.h"
#include "model/step.h"
#include "tests/model/files.h"

using namespace stepcast;

TEST_CASE("routing files read back as written") {
    const TestFolder folder;
    const Routing counts{2, 4, {1, 2, 3, 4, 5, 6, 7, 8}, {}};
    const Routing totals{2, 8, {}, {{288, 77}, {264, 58}}};
    CHECK(write_routing(totals) ==
          "# stepcast routing 1, block_totals, ranks 2, experts "
          "8\nrank,blocks,remote_blocks\n0,288,77\n1,264,58\n");
    CHECK(read_routing(folder.write("r.csv", write_routing(counts))) == counts);
    CHECK(read_routing(folder.write("r.csv", write_routing(totals))) == totals);
}

TEST_CASE("routing files of the wrong shape are refused with their line") {
    const TestFolder folder;
    const auto read = [&](const std::string& text) {
        const auto path = folder.write("r.csv", text);
        return complaint([&] { read_routing(path); }, folder.path());
    };
    const std::string first = "# stepcast routing 1, counts, ranks 1, experts 2\n",
                      header = "source,expert,slots\n";
    const std::string not_one =
        "r.csv:1: not a routing file; expected the first line "
        "\"# stepcast routing 1, counts|block_totals, ranks R, experts E\"";
    CHECK(read("") == not_one);
    CHECK(read("source,expert,slots\n0,0,1\n") == not_one);
    CHECK(read("# stepcast routing 1, sums, ranks 1, experts 2\n") ==
          "r.csv:1: found \" sums\"; expected counts or block_totals");
    CHECK(read("# stepcast routing 1, counts, ranks x, experts 2\n") ==
          "r.csv:1: ranks: \"x\" is no integer of at least 1");
    CHECK(read("# stepcast routing 1, counts, ranks 2, experts 3\n") ==
          "r.csv:1: 3 experts cannot be spread over 2 ranks; expected a multiple");
    CHECK(read("# stepcast routing 1, counts, ranks 65537, experts 2\n") ==
          "r.csv:1: ranks: 65537 is out of range; expected at most 65536");
    CHECK(read(first + "rank,blocks\n") ==
          "r.csv:2: found \"rank,blocks\"; expected the header \"source,expert,slots\"");
    CHECK(read(first + header + "0,0,5\n") ==
          "r.csv:4: file ends after 1 rows; expected 2 (ranks and experts are in its first line)");
    CHECK(read(first + header + "0,2,5\n") ==
          "r.csv:3: expert: 2 is out of range; expected at most 1");
    CHECK(read(first + header + "0,0,-5\n") ==
          "r.csv:3: slots: \"-5\" is no integer of at least 0");
    CHECK(read(first + header + "0,0,5\n0,0,5\n") ==
          "r.csv:4: source 0, expert 0 was given before");
    CHECK(read(first + header + "0,0\n") == "r.csv:3: found 2 fields; expected 3 as in the header");
    CHECK(read("# stepcast routing 1, block_totals, ranks 1, experts "
               "2\nrank,blocks,remote_blocks\n0,3,4\n") ==
          "r.csv:3: remote_blocks: 4 is out of range; expected at most 3");
}

// An experiment from a file has that file's experts and the cluster's ranks; one that a program
// made may differ.
TEST_CASE(
    "a routing file of other ranks or experts than the experiment's is refused by both numbers") {
    const TestHome home;
    const TestFolder folder;
    Experiment e = read_experiment("moe_layer_mix_moe");
    e.routing.kind = RoutingSpec::Kind::file;
    const Routing two{2, 64, std::vector<int>(128, 1), {}}, few{4, 8, std::vector<int>(32, 1), {}};
    const auto told = [&](const Routing& routing) {
        e.routing.file = folder.write("r.csv", write_routing(routing));
        return complaint([&] { (void)routing_of(e, 0); });
    };
    const std::string expected = "; expected 4 ranks and 64 experts";
    CHECK(told(two) == "routing: holds 2 ranks and 64 experts" + expected);
    CHECK(told(few) == "routing: holds 4 ranks and 8 experts" + expected);
    CHECK(complaint([&] { (void)build_step(e, two); }) ==
          "routing: holds 2 ranks and 64 experts" + expected);
}

// 32 tokens with two slots on each of 4 ranks are 256 rows: at least 4 blocks of 64, and at most
// one partial block more for each of 4 sources and 8 experts: 36.
TEST_CASE("block totals of a file are as many as the experiment's slots make") {
    const TestHome home;
    const TestFolder folder;
    const auto told = [&](int blocks) {
        const auto file = folder.write("r.csv",
                                       "# stepcast routing 1, block_totals, ranks 4, experts "
                                       "8\nrank,blocks,remote_blocks\n0," +
                                           std::to_string(blocks) + ",0\n1,0,0\n2,0,0\n3,0,0\n");
        const std::vector<Override> overrides{
            {"routing.file", file}, {"workload.seq", "32"}, {"workload.moe.top_k", "2"}};
        const Experiment e = read_experiment("moe_layer_mix_moe", overrides);
        return complaint([&] { (void)routing_of(e, 0); }, folder.path());
    };
    CHECK(told(4).empty());
    CHECK(told(36).empty());
    CHECK(told(3) ==
          "routing.file: r.csv: holds 3 blocks of 64 rows; expected 4 to 36 for tokens x top_k = "
          "64 slots of each rank");
    CHECK(told(37) ==
          "routing.file: r.csv: holds 37 blocks of 64 rows; expected 4 to 36 for tokens x top_k = "
          "64 slots of each rank");
}

// 32 tokens with two slots each: 64 slots per source.
TEST_CASE("counts of a file are the slots of each source") {
    const TestHome home;
    const TestFolder folder;
    Routing routing{4, 8, std::vector<int>(32, 8), {}};
    const auto told = [&] {
        const std::vector<Override> overrides{
            {"routing.file", folder.write("r.csv", write_routing(routing))},
            {"workload.seq", "32"},
            {"workload.moe.top_k", "2"}};
        const Experiment e = read_experiment("moe_layer_mix_moe", overrides);
        return complaint([&] { (void)routing_of(e, 0); }, folder.path());
    };
    CHECK(told().empty());
    routing.counts[31] = 9;
    CHECK(told() == "routing.file: r.csv: source 3 has 65 slots; expected tokens x top_k = 64");
}
