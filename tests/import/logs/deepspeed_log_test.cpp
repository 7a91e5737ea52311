#include <catch2/catch.hpp>

#include "tests/calibrate/logs.h"

using namespace stepcast;
using Catch::Matchers::Contains;
using Points = std::vector<std::pair<int, double>>;

namespace {

std::string stamp(const std::string& clock) {
    return "[2024-02-20 " + clock + "] [INFO] [logging.py:77:log_dist] [Rank 0] ";
}
// As version 0.8 prints a step.
std::string old_step(const std::string& clock) {
    return stamp(clock) +
           "rank=0 time (ms) | optimizer_allgather: 47.66 | optimizer_gradients: 13.74 | "
           "optimizer_step: 11.75\n" +
           stamp(clock) +
           "rank=0 time (ms) | forward_microstep: 359.87 | backward_microstep: 1026.03 | "
           "backward_inner_microstep: "
           "1018.07 | backward_allreduce_microstep: 7.89 | step_microstep: 161.81\n" +
           stamp(clock) +
           "rank=0 time (ms) | forward: 359.87 | backward: 1026.01 | backward_inner: 1018.06 | "
           "backward_allreduce: "
           "7.89 | "
           "step: 161.82\n";
}

}  // namespace

// Wall time between the ends of steps: 09:55:07.252 - 09:55:05.562 = 1.69 s, then over midnight 0.1
// + 0.9 = 1 s.
TEST_CASE(
    "DeepSpeed's breakdown gives the phases of every step and the wall time between their ends") {
    const LogFolder folder;
    const std::string text =
        "2024-02-20,09:49:42 | INFO | Loaded CoCa-B-16 model config.\n" + stamp("09:49:52,918") +
        "DeepSpeed info: version=0.8.2, git-hash=unknown\n[2024-02-20 09:50:10,989] [INFO] "
        "[config.py:1014:print]   "
        "world_size ................... 4\n" +
        old_step("09:55:05,562") +
        "[2024-02-20 09:55:06,404] [INFO] [stage_1_and_2.py:1784:step] [deepspeed] OVERFLOW! Rank "
        "0 Skipping step.\n" +
        old_step("09:55:07,252") + old_step("23:59:59,900") + old_step("00:00:00,900") +
        "2024-02-20,09:58:06 | INFO | Global Steps: 4 Data (t): 0.001 Batch (t): 1.856, "
        "1,057.47/s\n";
    const ReadLog result = import_log(folder.file("a.log", text));
    REQUIRE(result.format == LogFormat::deepspeed);
    const ReadRun& run = result.runs.at(0);
    CHECK(run.run_id == "a-1-deepspeed-coca-b-16");
    CHECK(run.ranks == 4);
    CHECK(run.steps == 4);
    CHECK(series(run, "forward").at(0) == std::pair{1, 0.35987});
    CHECK(series(run, "backward").at(0) == std::pair{1, 1.01806});
    CHECK(series(run, "backward_and_sync").empty());  // what both of its parts say already
    CHECK(series(run, "gradient_sync").at(0) == std::pair{1, 0.00789});
    CHECK(series(run, "optimizer").at(3) == std::pair{4, 0.16182});
    CHECK(series(run, "optimizer_step").at(1) == std::pair{2, 0.01175});
    CHECK(series(run, "step").at(0) == std::pair{2, 1.69});
    CHECK(series(run, "step").at(2) == std::pair{4, 1.0});
    CHECK(series(run, "overflow") == Points{{2, 1}});
    CHECK(series(run, "mean_since_last.batch") == Points{{4, 1.856}});  // no sample of phase step
    CHECK(series(run, "samples_per_s") == Points{{4, 1057.47}});
    CHECK(result.lines.unknown == 0);
    // a clock that is none tells no time between steps
    const ReadLog blurred = import_log(folder.file(
        "b.log", old_step("09:55:05,562") + old_step("09:5x:07,252") + old_step("09:55:/8,252")));
    CHECK(blurred.runs.at(0).steps == 3);
    CHECK(series(blurred.runs.at(0), "step").empty());
}

TEST_CASE("recent and very old spellings of DeepSpeed's breakdown are the same step") {
    const LogFolder folder;
    const std::string recent =
        stamp("09:55:05,000") +
        "time (ms) | fwd_microstep: 10.00 | bwd_microstep: 20.00 | step_microstep: 3.00\n" +
        stamp("09:55:05,001") +
        "time (ms) | fwd: 10.00 | bwd: 20.00 | bwd_inner: 18.00 | bwd_allreduce: 1.50 | step: "
        "3.00\n";
    const ReadLog from_recent = import_log(folder.file("a.log", recent));
    CHECK(series(from_recent.runs.at(0), "forward") == Points{{1, 0.01}});
    CHECK(series(from_recent.runs.at(0), "backward") == Points{{1, 0.018}});
    CHECK(series(from_recent.runs.at(0), "gradient_sync") == Points{{1, 0.0015}});
    CHECK(series(from_recent.runs.at(0), "backward_and_sync").empty());
    CHECK(from_recent.lines == LineCounts{1, 1, 0});
    const ReadLog from_old = import_log(folder.file(
        "a.log", "[Rank 0] time (ms) | forward: 10.00 | backward: 20.00 | step: 3.00\n"));
    const ReadRun& run = from_old.runs.at(0);
    CHECK(series(run, "optimizer") == Points{{1, 0.003}});
    CHECK(series(run, "backward_and_sync") == Points{{1, 0.02}});
    CHECK(series(run, "step").empty());
    CHECK_THAT(run.notes.at(0), Contains("1 of its 1 steps have no time stamp"));
}

// 1.00 s lies between the ends of the two steps. A timer of nothing is a time; one below nothing is
// no timer.
TEST_CASE("a DeepSpeed timer may read 0, and a job may have one rank") {
    const LogFolder folder;
    const auto step = [](const std::string& clock, const std::string& update) {
        return stamp(clock) +
               "rank=0 time (ms) | forward: 4.00 | backward: 8.00 | step: " + update + "\n";
    };
    const ReadRun run =
        import_log(folder.file("a.log", stamp("09:55:04,000") + "world_size ....... 1\n" +
                                            step("09:55:05,000", "0.00") +
                                            step("09:55:06,000", "-1.00") +
                                            step("09:55:07,000", "2.00")))
            .runs.at(0);
    CHECK(run.ranks == 1);
    CHECK(run.steps == 2);
    CHECK(series(run, "optimizer") == Points{{1, 0}, {2, 0.002}});
    CHECK(series(run, "step") == Points{{2, 2.0}});
    CHECK_THAT(run.notes.at(0), Contains("a.log:3: ") && Contains("is cut or not understood"));
}

// A job that begins again in the same file: what it says of its world is said anew, and no step of
// the first is the second's.
TEST_CASE("two jobs in one DeepSpeed log are two runs") {
    const LogFolder folder;
    const auto job = [](const std::string& hour, const std::string& ms) {
        std::string text = stamp(hour + ":55:04,000") +
                           "DeepSpeed info: version=0.6.0, git-hash=unknown, git-branch=unknown\n" +
                           stamp(hour + ":55:04,500") + "world_size ....... 1\n";
        for (const char* second : {"05", "06"})
            text += stamp(hour + ":55:" + second + ",000") + "rank=0 time (ms) | forward: " + ms +
                    " | backward: 8.00 | step: 1.00\n";
        return text;
    };
    const ReadLog result = import_log(folder.file("a.log", job("09", "4.00") + job("10", "5.00")));
    REQUIRE(result.runs.size() == 2);
    CHECK(series(result.runs[0], "forward") == Points{{1, 0.004}, {2, 0.004}});
    CHECK(series(result.runs[1], "forward") == Points{{1, 0.005}, {2, 0.005}});
    CHECK(series(result.runs[1], "step") == Points{{2, 1.0}});
    // a job of a single step is one, too
    const std::string info =
        stamp("10:00:00,000") + "DeepSpeed info: version=0.8.2, git-hash=unknown\n";
    CHECK(import_log(folder.file("b.log",
                                 info + old_step("10:00:05,000") + info + old_step("10:01:05,000")))
              .runs.size() == 2);
}

TEST_CASE(
    "several ranks, cut lines and carriage returns in a DeepSpeed log are kept apart, counted and "
    "said") {
    const LogFolder folder;
    std::string other = old_step("09:55:05,562");
    for (std::size_t at; (at = other.find("Rank 0")) != std::string::npos;)
        other.replace(at, 6, "Rank 2");
    const std::string text = old_step("09:55:05,562") + other + "junk\xff\r" +
                             stamp("09:55:08,000") +
                             "rank=0 time (ms) | forward: 359.87 | backward: 10\xfe\n" +
                             stamp("09:55:09,000") + "rank=0 time (ms) | forward: 359.87 | backw";
    const ReadLog result = import_log(folder.file("a.log", text));
    const ReadRun& run = result.runs.at(0);
    CHECK(run.steps == 1);
    CHECK(series(run, "forward") == Points{{1, 0.35987}});
    CHECK(series(run, "forward", 2) == Points{{1, 0.35987}});
    CHECK(result.lines == LineCounts{4, 2, 3});
    REQUIRE(run.notes.size() == 2);
    CHECK_THAT(
        run.notes[0],
        Contains("a.log:7: \" | forward: 359.87 | backward: 10?\" is cut or not understood"));
    CHECK_THROWS_WITH(import_log(folder.file("b.log", "time (ms) | forwa\n"), LogFormat::deepspeed),
                      Contains("b.log:1: the log ends without a step"));
    CHECK_THROWS_WITH(
        import_log(folder.file("b.log", "[Rank 2000000000] time (ms) | forward: 1.0\n"),
                   LogFormat::deepspeed),
        Contains("b.log:1: rank 2000000000 is absurd"));
}
