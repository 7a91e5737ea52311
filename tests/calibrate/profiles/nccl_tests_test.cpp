#include "calibrate/profiles/nccl_tests.h"

#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

const std::string header = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n";

NcclTestsLog read(const std::string& name, const std::string& text, const NcclTestsContext& context = {}) {
    const TestFolder folder;
    return read_nccl_tests(folder.write(name, text), context);
}

}  // namespace

TEST_CASE("nccl-tests: ranks and nodes from the device lines, the operation from the bandwidths") {
    // 2 x 1.5 = 3/2 of the algorithm bandwidth: an all-reduce over 4.
    std::string text = "# Using devices\n";
    for (int r = 0; r < 4; ++r)
        text += "#  Rank  " + std::to_string(r) + " Group  0 Pid 1 on node" + std::to_string(r / 2) + " device 0 [0000:04:00] NVIDIA H100\n";
    const auto log = read("a.log", text + header + "  1048576  262144  float  sum  -1  100.0  10.00  15.00  0  90.0  11.0  16.5  0\n");
    REQUIRE(log.rows.size() == 1);
    const CollectiveRow& row = log.rows[0].out_of_place;
    REQUIRE(row.op == "all_reduce");
    REQUIRE(row.ranks == 4);
    REQUIRE(row.nodes == 2);
    REQUIRE(row.bytes == Bytes(1048576));
    REQUIRE(row.time.si() == Approx(100e-6));
    REQUIRE(log.rows[0].in_place.si() == Approx(90e-6));
    REQUIRE(log.rows[0].gpu == "NVIDIA H100");
}

TEST_CASE("nccl-tests: launchers' prefixes, colours, a missing root column and N/A are passed over") {
    const std::string old = "0: #       size         count      type   redop     time   algbw   busbw    error     time   algbw   busbw    error\n"
                            "0: \x1b[1m  8388608  2097152  float  sum  800.0  10.0  18.75  N/A  790.0  10.6  19.9  N/A\x1b[0m\n";
    const auto log = read("x.log", old);
    REQUIRE(log.rows.size() == 1);
    REQUIRE(log.rows[0].out_of_place.ranks == 16);  // 2 - 18.75 / 10 = 2 / 16
    REQUIRE(log.rows[0].out_of_place.time.si() == Approx(800e-6));
    REQUIRE(log.rows[0].out_of_place.nodes == 0);
    REQUIRE_THAT(log.notes.back(), Contains("--nodes"));
}

// To version 2.11 the column redop stays blank where nothing is summed.
TEST_CASE("nccl-tests: a blank operation of sums moves no column") {
    const auto log = read("alltoall.log", "# nThread 1\n#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
                                          "     1048576         32768   float             60.5   17.33   15.17  0e+00     61.5   17.05   14.92    N/A\n");
    REQUIRE(log.rows.size() == 1);
    REQUIRE(log.rows[0].out_of_place.time.si() == Approx(60.5e-6));
    REQUIRE(log.rows[0].in_place.si() == Approx(61.5e-6));
    REQUIRE(log.rows[0].out_of_place.ranks == 8);  // 15.17 / 17.33 = 7 / 8
}

TEST_CASE("nccl-tests: several tests in one file, wrong rows and empty ones left out") {
    const std::string devices = "#  Rank  0 Group  0 Pid 1 on n0 device 0 [0x04] GPU\n#  Rank  1 Group  0 Pid 1 on n0 device 1 [0x05] GPU\n";
    const auto table = [&](const std::string& name, const std::string& rows) {
        return "# Collective test starting: " + name + "_perf\n" + devices + header + rows;
    };
    const auto log = read("x.log", table("all_gather", " 0 0 float none -1 5.0 0.00 0.00 0 5.0 0 0 0\n 1024 128 float none -1 7.5 0.1 0.1 0 7.5 0.1 0.1 0\n") +
                                       table("alltoall", " 1024 128 float none -1 9.5 0.1 0.1 3 9.5 0.1 0.1 0\n 2048 256 float none -1 1.2e+07 0.1 0.1 0 9 0 0 0\n"));
    REQUIRE(log.rows.size() == 2);
    REQUIRE(log.rows[0].out_of_place.op == "all_gather");
    REQUIRE(log.rows[1].out_of_place.op == "all_to_all");
    REQUIRE(log.rows[1].out_of_place.time.si() == Approx(12));
}

TEST_CASE("nccl-tests: what is not told is asked for") {
    const std::string rows = header + " 1024 128 float none -1 7.5 0.14 0.10 0 7.5 0.1 0.1 0\n";
    REQUIRE_THROWS_WITH(read("x.log", rows), Contains("--op"));
    REQUIRE_THROWS_WITH(read("all_gather.log", rows), Contains("--ranks"));
    const auto log = read("all_gather.log", rows, {.op = "", .ranks = 8, .nodes = 1});
    REQUIRE(log.rows[0].out_of_place.ranks == 8);
    REQUIRE_THROWS_WITH(read("all_reduce.log", "# nThread 1\n" + header), Contains("no row"));
}

// Host names and time stamps before each line, in UTF-16; times of the host are none of a transfer; gathers are no part of a step.
TEST_CASE("nccl-tests: whatever stands before a line, another encoding, times of the host, operations that no step has") {
    const std::string devices = "#  Rank  0 Group  0 Pid 1 on n0 device 0 [0x04] GPU\n#  Rank  1 Group  0 Pid 1 on n0 device 1 [0x05] GPU\n";
    const std::string table = "# Collective test starting: all_gather_perf\n" + devices + header +
                              "  1048576  262144  float  none  -1  100.0  10.00  5.00  0  90.0  11.0  5.5  0\n";
    std::string stamped, wide = "\xff\xfe";
    for (const char c : "\n" + table) stamped += c == '\n' ? "\n2024-05-01T10:00:00.1Z node-a: " : std::string(1, c);
    for (const char c : table) wide += {c, '\0'};
    for (const std::string& text : {table, stamped, wide}) {
        const auto log = read("x.log", text);
        REQUIRE(log.rows.size() == 1);
        REQUIRE(log.rows[0].out_of_place.op == "all_gather");
        REQUIRE(log.rows[0].out_of_place.ranks == 2);
        REQUIRE(log.rows[0].out_of_place.time.si() == Approx(100e-6));
    }
    std::string host = table;
    host.replace(host.find(" time "), 6, "cputime");
    REQUIRE_THROWS_WITH(read("x.log", host), Contains("times of the host"));
    std::string gather = table;
    gather.replace(gather.find("all_gather"), 10, "gather");
    REQUIRE(read("x.log", gather + table).rows.size() == 1);
}
