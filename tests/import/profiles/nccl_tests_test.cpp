#include "import/profiles/nccl_tests.h"

#include "import/profiles/import_profiles.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

const std::string nccl_header =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time "
    "  algbw   busbw #wrong\n";

NcclTestsLog read(const std::string& name, const std::string& text,
                  const NcclTestsContext& context = {}) {
    const TestFolder folder;
    return read_nccl_tests(folder.write(name, text), context);
}

}  // namespace

TEST_CASE("nccl-tests: ranks and nodes from the device lines, the operation from the bandwidths") {
    // 2 x 1.5 = 3/2 of the algorithm bandwidth: an all-reduce over 4.
    std::string text = "# Using devices\n";
    for (int r = 0; r < 4; ++r)
        text += "#  Rank  " + std::to_string(r) + " Group  0 Pid 1 on node" +
                std::to_string(r / 2) + " device 0 [0000:04:00] NVIDIA H100\n";
    const auto log = read(
        "a.log",
        text + nccl_header +
            "  1048576  262144  float  sum  -1  100.0  10.00  15.00  0  90.0  11.0  16.5  0\n");
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

TEST_CASE(
    "nccl-tests: launchers' prefixes, colours, a missing root column and N/A are passed over") {
    const std::string old =
        "0: #       size         count      type   redop     time   algbw   busbw    error     "
        "time   algbw   busbw    error\n"
        "0: \x1b[1m  8388608  2097152  float  sum  800.0  10.0  18.75  N/A  790.0  10.6  19.9  "
        "N/A\x1b[0m\n";
    const auto log = read("x.log", old);
    REQUIRE(log.rows.size() == 1);
    REQUIRE(log.rows[0].out_of_place.ranks == 16);  // 2 - 18.75 / 10 = 2 / 16
    REQUIRE(log.rows[0].out_of_place.time.si() == Approx(800e-6));
    REQUIRE(log.rows[0].out_of_place.nodes == 0);
    REQUIRE_THAT(log.notes.back(), Contains("--nodes"));
}

// To version 2.11 the column redop stays blank where nothing is summed.
TEST_CASE("nccl-tests: a blank operation of sums moves no column") {
    const auto log = read("alltoall.log",
                          "# nThread 1\n#       size         count    type   redop     time   "
                          "algbw   busbw  error     time   algbw   busbw  error\n"
                          "     1048576         32768   float             60.5   17.33   15.17  "
                          "0e+00     61.5   17.05   14.92    N/A\n");
    REQUIRE(log.rows.size() == 1);
    REQUIRE(log.rows[0].out_of_place.time.si() == Approx(60.5e-6));
    REQUIRE(log.rows[0].in_place.si() == Approx(61.5e-6));
    REQUIRE(log.rows[0].out_of_place.ranks == 8);  // 15.17 / 17.33 = 7 / 8
}

TEST_CASE("nccl-tests: several tests in one file, wrong rows and empty ones left out") {
    const std::string devices =
        "#  Rank  0 Group  0 Pid 1 on n0 device 0 [0x04] GPU\n#  Rank  1 Group  0 Pid 1 on n0 "
        "device 1 [0x05] GPU\n";
    const auto table = [&](const std::string& name, const std::string& rows) {
        return "# Collective test starting: " + name + "_perf\n" + devices + nccl_header + rows;
    };
    const auto log =
        read("x.log", table("all_gather",
                            " 0 0 float none -1 5.0 0.00 0.00 0 5.0 0 0 0\n 1024 128 float none -1 "
                            "7.5 0.1 0.1 0 7.5 0.1 0.1 0\n") +
                          table("alltoall",
                                " 1024 128 float none -1 9.5 0.1 0.1 3 9.5 0.1 0.1 0\n 2048 256 "
                                "float none -1 1.2e+07 0.1 0.1 0 9 0 0 0\n"));
    REQUIRE(log.rows.size() == 2);
    REQUIRE(log.rows[0].out_of_place.op == "all_gather");
    REQUIRE(log.rows[1].out_of_place.op == "all_to_all");
    REQUIRE(log.rows[1].out_of_place.time.si() == Approx(12));
    const std::string gathered =
        table("all_gather", " 1024 128 float none -1 7.5 0.1 0.1 0 7.5 0.1 0.1 0\n");
    REQUIRE_THROWS_WITH(read("x.log", gathered, {.op = "all_to_all"}),
                        Contains("it says that it timed all_gather, --op says all_to_all"));
    REQUIRE_THROWS_WITH(read("x.log", gathered, {.op = "foo"}),
                        Contains("--op foo: no operation of nccl-tests"));
}

// Of 2019: no root, a column "error" with the largest deviation (1e-06 of floats passes its own
// check at 1e-05, 1e-03 does not), lines of devices without a group. 2 x 4 / 5 = 1.6: five ranks,
// as the lines say.
TEST_CASE("nccl-tests: a deviation below what the type allows is no wrong result") {
    std::string text = "./all_reduce_perf -g 5\n# Using devices\n";
    for (int r = 0; r < 5; ++r)
        text += "#   Rank  " + std::to_string(r) + " Pid  77 on tower device  " +
                std::to_string(r) + " [0x1a] Quadro GV100\n";
    text +=
        "#       size         count    type   redop     time   algbw   busbw  error     time   "
        "algbw   busbw  error\n";
    const std::string good =
        "    16777216       4194304   float     sum    400.0   41.94   67.11  1e-06    402.0   "
        "41.73   66.77  1e-06\n";
    const auto log = read("x.log", text + good);
    REQUIRE(log.rows.size() == 1);
    REQUIRE(log.rows[0].out_of_place.ranks == 5);
    REQUIRE(log.rows[0].out_of_place.nodes == 1);
    REQUIRE(log.rows[0].out_of_place.time.si() == Approx(400e-6));
    REQUIRE(log.rows[0].in_place.si() == Approx(402e-6));
    std::string half = good;
    half.replace(half.find("float"), 5, " half").replace(half.find("1e-06"), 5, "9e-03");
    REQUIRE(read("x.log", text + half).rows.size() == 1);
    std::string bad = good;
    bad.replace(bad.find("1e-06"), 5, "1e-03");
    REQUIRE_THROWS_WITH(
        read("x.log", text + bad),
        Contains("no row of results that counts: all_reduce: 1 rows with wrong results left out"));
}

// Two programs without MPI below mpirun, each with rank 0; one rank alone; and eight lines of
// devices whose bandwidths (x 1.5) are those of four.
TEST_CASE("nccl-tests: processes that do not communicate are no collective") {
    const auto device = [](int rank, const std::string& host) {
        return "#  Rank  " + std::to_string(rank) + " Group  0 Pid 1 on " + host +
               " device 0 [0x07] GPU\n";
    };
    const std::string silent =
        nccl_header + " 1048576 262144 float sum -1 5.0 209.7 0.00 0 0.3 9 0 0\n";
    const std::string run = "srun ./all_reduce_perf -g 1\n# nThread 1 nGpus 1\n";
    REQUIRE_THROWS_WITH(
        read("x.log", run + device(0, "n3") + device(0, "n4") + device(0, "n5") + silent),
        Contains("rank 0 of group 0 is there twice: 3 device lines of separate processes") &&
            Contains("MPI=1"));
    REQUIRE_THROWS_WITH(read("x.log", run + device(0, "n3") + run + device(0, "n4") + silent),
                        Contains("a run of one rank"));
    std::string eight;
    for (int r = 0; r < 8; ++r) eight += device(r, "n3");
    const std::string of_four =
        nccl_header + " 1048576 262144 float sum -1 100.0 20.00 30.00 0 90.0 11.0 16.5 0\n";
    REQUIRE_THROWS_WITH(read("x.log", run + eight + of_four),
                        Contains("20 GB/s and 30 on the bus are not those of all_reduce between "
                                 "the 8 ranks of its device lines"));
    REQUIRE(read("x.log", run + eight + of_four, {.op = "", .ranks = 4, .nodes = 1}).rows.size() ==
            1);
    // A run that broke off before its table, and another in the same file.
    REQUIRE(read("x.log", run + eight + run + device(0, "n3") + device(1, "n3") + nccl_header +
                              " 1048576 262144 float sum -1 100.0 20.00 20.00 0 90.0 11.0 11 0\n")
                .rows[0]
                .out_of_place.ranks == 2);
}

TEST_CASE("nccl-tests: what is not told is asked for") {
    const std::string rows =
        nccl_header + " 1024 128 float none -1 7.5 0.14 0.10 0 7.5 0.1 0.1 0\n";
    REQUIRE_THROWS_WITH(read("x.log", rows), Contains("--op"));
    REQUIRE_THROWS_WITH(read("all_gather.log", rows), Contains("--ranks"));
    const auto log = read("all_gather.log", rows, {.op = "", .ranks = 8, .nodes = 1});
    REQUIRE(log.rows[0].out_of_place.ranks == 8);
    REQUIRE_THROWS_WITH(read("all_reduce.log", "# nThread 1\n" + nccl_header), Contains("no row"));
}

// Host names and time stamps before each line, in UTF-16; times of the host are none of a transfer;
// gathers are no part of a step.
TEST_CASE(
    "nccl-tests: whatever stands before a line, another encoding, times of the host, operations "
    "that no step has") {
    const std::string devices =
        "#  Rank  0 Group  0 Pid 1 on n0 device 0 [0x04] GPU\n#  Rank  1 Group  0 Pid 1 on n0 "
        "device 1 [0x05] GPU\n";
    const std::string table =
        "# Collective test starting: all_gather_perf\n" + devices + nccl_header +
        "  1048576  262144  float  none  -1  100.0  10.00  5.00  0  90.0  11.0  5.5  0\n";
    std::string stamped, wide = "\xff\xfe";
    for (const char c : "\n" + table)
        stamped += c == '\n' ? "\n2024-05-01T10:00:00.1Z node-a: " : std::string(1, c);
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

namespace {

const char* const json_run = R"({"args": ["/opt/all_reduce_perf", "-J", "x"],
 "devices": [{"group": 0, "host": "a", "name": "H100"}, {"group": 0, "hostname": "b"}, {"group": 0, "host": "a", "device_name": "H200"}, {"group": 1, "host": "c"}],
 "results": [{"size": 1024, "redop": "sum", "out_of_place": {"time": 7.5, "nwrong": 0, "alg_bw": 1, "bus_bw": 1.2}, "in_place": {"time": 6.5}},
             {"size": 2048, "out_of_place": {"time": 9.5}},
             {"size": 4096, "out_of_place": {"time": 9.5, "nwrong": 2}},
             {"size": 0, "out_of_place": {"time": 9.5}},
             {"size": 4096, "out_of_place": {"time": 0}},
             {"size": 4096}]})";

}  // namespace

// Three devices of the first group on two hosts; two rows without a time and one without bytes, one
// wrong.
TEST_CASE("nccl-tests: its JSON file says what its text does") {
    const TestFolder folder;
    const std::string path = folder.write("run.json", json_run);
    CHECK(is_nccl_tests(path));
    const auto log = read_nccl_tests(path);
    REQUIRE(log.rows.size() == 2);
    const CollectiveRow& first = log.rows[0].out_of_place;
    CHECK(first == CollectiveRow{"all_reduce", 3, 2, Bytes(1024), first.time});
    CHECK(first.time.si() == Approx(7.5e-6));
    CHECK(log.rows[0].in_place.si() == Approx(6.5e-6));
    CHECK(log.rows[0].gpu == "H200");
    CHECK(log.rows[1].in_place == Seconds(0));
    CHECK(log.notes ==
          std::vector<std::string>{"all_reduce: 1 rows with wrong results left out",
                                   "all_reduce: 3 rows without bytes or time left out"});
    CHECK_THROWS_WITH(read("x.json", "{\"args\": 1}"), Contains("no JSON of nccl-tests"));
    CHECK_THROWS_WITH(read("x.json", "{\"args\": "), Contains("no JSON of nccl-tests"));
}

TEST_CASE("nccl-tests: its output is known by any of its marks") {
    const TestFolder folder;
    for (const char* text : {"algbw busbw", "{\"out_of_place\" \"results\"", "# nThread 1",
                             "# nccl-tests version 2.18"}) {
        CAPTURE(text);
        CHECK(is_nccl_tests(folder.write("x", text)));
    }
    for (const char* text : {"algbw", "busbw", "\"out_of_place\"", "\"results\"", "nThread"}) {
        CAPTURE(text);
        CHECK_FALSE(is_nccl_tests(folder.write("x", text)));
    }
}

// Of an all-reduce 2 (n - 1) / n, of the others (n - 1) / n cross: 1.75 and 0.875 are eight ranks;
// a factor of 2 or 1 could be any number.
TEST_CASE("nccl-tests: ranks from the widest bandwidths, where they tell") {
    const auto ranks = [](const char* name, const char* bandwidths, const char* more = "") {
        const std::string rows = nccl_header +
                                 " 1024 128 float sum -1 7.5 0.14 0.10 0 7.5 0.1 0.1 0\n 1048576 "
                                 "262144 float sum -1 100.0 " +
                                 bandwidths + " 0 90.0 11.0 16.5 0\n" + more;
        try {
            const auto log = read(name, rows);
            return std::to_string(log.rows[0].out_of_place.ranks) + " " +
                   log.rows[0].out_of_place.op;
        } catch (const ConfigError&) {
            return std::string("none");
        }
    };
    CHECK(ranks("all_reduce.log", "10.00 17.50") == "8 all_reduce");
    CHECK(ranks("all_reduce.log", "10.00 20.00") == "none");
    CHECK(ranks("all_gather.log", "10.00 8.75") == "8 all_gather");
    CHECK(ranks("reduce_scatter.log", "10.00 5.00") == "2 reduce_scatter");
    CHECK(ranks("all_gather.log", "10.00 9.999") == "none");
    CHECK(ranks("all_gather.log", "10.00 3.00") == "none");
    // counted more than once: an all-reduce's
    CHECK(ranks("all_gather.log", "10.00 15.00") == "none");
    CHECK(ranks("alltoall.log", "10.00 7.50") == "4 all_to_all");
    CHECK(ranks("broadcast.log", "10.00 10.00") == "none");
    // nothing else counts its bytes more than once
    CHECK(ranks("x.log", "10.00 17.50") == "8 all_reduce");
    CHECK(ranks("x.log", "10.00 8.75") == "8 reduce_scatter");  // sums
    CHECK(ranks("x.log", "10.00 10.00") == "none");
    CHECK(ranks("all_reduce.log", "0.99 1.7325") == "none");  // too few digits
    CHECK(ranks("all_reduce.log", "10.00 17.50",
                " 2097152 262144 float sum -1 100.0 20.00 30.00 0 90.0 11.0 16.5 0\n") ==
          "4 all_reduce");
    const auto log =
        read("all_reduce.log",
             nccl_header + " 1048576 262144 float sum -1 100.0 10.00 17.50 0 90.0 11.0 16.5 0\n");
    CHECK(log.notes ==
          std::vector<std::string>{"all_reduce: 8 ranks, from bus over algorithm bandwidth",
                                   "all_reduce: nodes not stated; use --nodes N"});
}

// Launchers' tags, a blank after the tag or none; tables of several headers keep the devices.
TEST_CASE("nccl-tests: tags of mpirun, and a second table over the same devices") {
    const std::string tag = "[1,0]<stdout>:",
                      devices =
                          tag +
                          "#  Rank  0 Group  0 Pid 1 on n0 device 0 [0x04] NVIDIA H100 80GB\n" +
                          tag +
                          " #  Rank  1 Group  0 Pid 1 on n1 device 1 [0x05] NVIDIA H100 80GB\n";
    const std::string row = " 1024 128 float none -1 7.5 0.14 0.10 0 8.5 0.1 0.1 0\n";
    const auto log = read("all_gather.log", "#\n" + devices + tag + nccl_header + tag + row + tag +
                                                row + nccl_header + row);
    REQUIRE(log.rows.size() == 3);
    for (const NcclTestsRow& r : log.rows) {
        CHECK((r.out_of_place.ranks == 2 && r.out_of_place.nodes == 2));
        CHECK(r.gpu == "NVIDIA H100 80GB");
        CHECK(r.in_place.si() == Approx(8.5e-6));
    }
    // A wide number leaves no blank behind the tag.
    const auto wide = read("all_gather.log",
                           devices + nccl_header + tag +
                               "137438953472 128 float none -1 7.5 0.14 0.10 0 8.5 0.1 0.1 0\n");
    REQUIRE(wide.rows.size() == 1);
    CHECK(wide.rows[0].out_of_place.bytes == Bytes(137438953472.0));
}

// What `import` writes of it; rows whose nodes are not told stay out.
TEST_CASE("nccl-tests: imported as a table of collectives") {
    const TestFolder folder;
    const std::string json = folder.write("run.json", json_run), out = folder.path() + "/out.csv";
    const std::string untold = folder.write(
        "all_reduce.log",
        nccl_header + " 1048576 262144 float sum -1 100.0 10.00 17.50 0 90.0 11.0 16.5 0\n");
    CHECK(are_profiles({json, untold}));
    CHECK_FALSE(are_profiles({}));
    CHECK_FALSE(are_profiles({json, folder.write("x.txt", "x")}));
    CHECK_FALSE(are_profiles({json, folder.path() + "/none"}));
    std::filesystem::create_directory(folder.path() + "/empty");
    CHECK_FALSE(are_profiles({folder.path() + "/empty"}));
    const auto said = import_profiles(
        {.paths = {json, untold}, .out = out, .system = "", .model = "", .context = {}});
    std::ifstream in(out);
    CHECK(std::string((std::istreambuf_iterator<char>(in)), {}) ==
          "op,ranks,nodes,bytes,time_us,in_place_us,gpu\nall_reduce,3,2,1024,7.5,6.5,H200\nall_"
          "reduce,3,2,2048,9.5,,H200\n");
    REQUIRE(said.size() == 7);
    CHECK(said[0] == json + ": nccl-tests, 2 rows");
    CHECK(said[1] == "  all_reduce: 1 rows with wrong results left out");
    CHECK(said[6] == out + ": 2 rows of collectives");
    CHECK(complaint(
              [&] {
                  import_profiles(
                      {.paths = {untold}, .out = out, .system = "", .model = "", .context = {}});
              },
              folder.path()) ==
          "all_reduce.log: 1 rows whose nodes are not stated; expected --nodes N");
    const std::string trace = folder.write(
        "rank0.json",
        R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":5,"args":{"device":0,"stream":7}}]})");
    CHECK(complaint([&] {
              import_profiles(
                  {.paths = {json, trace}, .out = out, .system = "", .model = "", .context = {}});
          }) == "import: profiles and nccl-tests output together; expected one kind a call");
}

// A table of nothing but one wrong row says so beside the one that has results.
TEST_CASE("nccl-tests: a table of wrong rows alone is said") {
    const std::string devices =
        "#  Rank  0 Group  0 Pid 1 on n0 device 0 [0x04] GPU\n#  Rank  1 Group  0 Pid 1 on n0 "
        "device 1 [0x05] GPU\n#  Rank  2 Group  7 Pid 1 on n2 device 1 [0x05] GPU\n";
    const auto table = [&](const char* op, const char* wrong) {
        return std::string("# Collective test starting: ") + op + "_perf\n" + devices +
               nccl_header + " 1024 128 float none -1 7.5 0.1 0.1 " + wrong + " 7.5 0.1 0.1 0\n";
    };
    const auto log = read("x.log", table("all_gather", "0") + table("alltoall", "1"));
    CHECK(log.rows.size() == 1);
    // of the first group
    CHECK((log.rows[0].out_of_place.ranks == 2 && log.rows[0].out_of_place.nodes == 1));
    CHECK(log.notes == std::vector<std::string>{"all_to_all: 1 rows with wrong results left out"});
    CHECK_THAT(complaint([&] {
                   (void)read("x.log", devices + nccl_header +
                                           " 1024 128 float sum -1 7.5 0.1 0.1 1 7.5 0.1 0.1 0\n");
               }),
               Contains("which operation it timed, and 1 of its 1 rows have wrong results or no "
                        "time"));
}
