#include <catch2/catch.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <tuple>

#include "measured/read.h"
#include "model/base/whole_files.h"
#include "model/graph/trace.h"
#include "model/input/presets.h"
#include "model/records/measurements.h"
#include "model/records/run_folder.h"
#include "tests/model/files.h"

using namespace stepcast;
namespace fs = std::filesystem;

namespace {

struct Folder {
    fs::path path = fs::temp_directory_path() / ("stepcast_run_" + std::to_string(getpid()));
    Folder() { fs::remove_all(path); }
    ~Folder() { fs::remove_all(path); }
    [[nodiscard]] std::string text(const std::string& name) const {
        return read_text((path / name).string(), "a text");
    }
    void change(const std::string& name, const std::string& from, const std::string& to) const {
        std::string all = text(name);
        REQUIRE(all.find(from) != std::string::npos);
        all.replace(all.find(from), from.size(), to);
        std::ofstream(path / name, std::ios::binary) << all;
    }
    [[nodiscard]] std::string error() const {
        return complaint([&] { read_run(path.string()); }, path.string());
    }
};

// Two ranks with one product each, one after the other.
TaskGraph two_tasks() {
    TaskGraph graph(2);
    graph.add("first", Phase::forward, Gemm{.m = 1, .n = 1, .k = 1}, {Place(0, Lane::compute)}, {});
    graph.add("second", Phase::forward, Gemm{.m = 1, .n = 1, .k = 1}, {Place(1, Lane::send_up)},
              {0});
    return graph;
}

Trace trace_of(double begin) {
    return {Trace::Origin::executed,
            {{0, Place(0, Lane::compute), Seconds(begin), Seconds(begin + 0.1)},
             {1, Place(1, Lane::send_up), Seconds(begin + 1.0 / 3), Seconds(begin + 0.5)}}};
}

Measurement two_samples() {
    Measurement m;
    m.device = "host, 2 \"ranks\"";
    m.date = "2026-11-21";
    m.versions = {"OpenBLAS 0.3.21", "GCC 12"};
    m.warmup = 3;
    m.quiet = false;
    m.idle_share = 0.5;
    m.warnings = {"busy: very"};
    m.steps = {
        {{Seconds(0.5), Seconds(0.1), Seconds(0.2), Seconds(0.05), Seconds(0.15)}, true, 0.99},
        {{Seconds(0.7), Seconds(0.3), Seconds(0.2), Seconds(0.05), Seconds(0.15)}, false, 1.0 / 3}};
    m.traces = {trace_of(0), trace_of(0.001)};
    return m;
}

Measurement one_sample() {
    Measurement m = two_samples();
    m.steps.resize(1);
    m.traces.resize(1);
    return m;
}

const std::vector<Override> overrides{{"workload.hidden", "128"}};
Experiment executed_moe() { return read_experiment("host_moe", overrides); }

void write(const Folder& folder, const Measurement& measurement) {
    RunFolder(folder.path.string(), executed_moe(), overrides, two_tasks()).finish(measurement);
}

}  // namespace

TEST_CASE("a run reads back as it was written") {
    const Folder folder;
    write(folder, two_samples());
    const RunRecord back = read_run(folder.path.string());
    CHECK(back.measurement == two_samples());
    CHECK(back.experiment == executed_moe());
    CHECK(back.overrides.size() == 1);
    CHECK_NOTHROW(require_traces_of(two_tasks(), back, folder.path.string()));
    // Accepted samples are 1, others 0, for other programs that read the file.
    std::vector<double> accepted;
    for (const Sample& s : read_measurements(folder.path.string() + "/run.csv"))
        if (s.phase == "accepted") accepted.push_back(s.value);
    CHECK(accepted == std::vector<double>{1, 0});
}

TEST_CASE("a run that is written sample by sample can be read after each") {
    const Folder folder;
    RunFolder run(folder.path.string(), executed_moe(), {}, two_tasks());
    run.add(one_sample());
    CHECK(read_run(folder.path.string()).measurement == one_sample());
    run.add(two_samples());
    CHECK(read_run(folder.path.string()).measurement == two_samples());
}

// For every preset the run folder holds the whole experiment, including all that the preset leaves
// out.
TEST_CASE("the experiment of a run is whole, whatever becomes of presets and files that it named") {
    for (const std::string& name : preset_names(PresetKind::experiment)) {
        INFO(name);
        const Folder folder;
        const Experiment experiment = read_experiment(name);
        RunFolder(folder.path.string(), experiment, {}, two_tasks()).finish(one_sample());
        const TestHome nowhere(folder.path.string());
        const RunRecord back = read_run(folder.path.string());
        Experiment expected = experiment;
        if (!expected.routing.file.empty())
            expected.routing.file = (folder.path / "routing.csv").string();
        CHECK(back.experiment == expected);
    }
}

// nemo-2 lets tensor-parallel collectives overlap where the sequence is split; before it never.
TEST_CASE("a folder of before November 2026 names keys and values as they were then") {
    const Folder folder;
    const Experiment e = read_experiment(
        "llama3_8b_h100_fsdp", std::vector<Override>{{"framework.preset", "nemo-2"},
                                                     {"runtime.gradients.bucket", "30 MB"}});
    RunFolder(folder.path.string(), e, {}, two_tasks()).finish(one_sample());
    const std::string path = (folder.path / "run.toml").string();
    std::string text = read_text(path, "a run", any_size);
    const auto rename = [&](const std::string& now, const std::string& old) {
        const auto at = text.find(now);
        REQUIRE(at != std::string::npos);
        text.replace(at, now.size(), old);
    };
    rename("\"runtime.gradients.bucket\"", "\"parallelism.bucket\"");
    rename("\"runtime.exchanges.tensor=never\"", "\"parallelism.overlap_tp=false\"");
    write_whole({{path, text}});
    CHECK(read_run(folder.path.string()).experiment.overlay == e.overlay);
}

TEST_CASE("a file of the working folder that has the preset's name is not taken for it") {
    const Folder folder;
    fs::create_directories(folder.path);
    const fs::path before = fs::current_path();
    fs::current_path(folder.path);
    std::ofstream("host_moe") << "what is this?";
    RunFolder("run", executed_moe(), overrides, two_tasks()).finish(one_sample());
    CHECK(read_run("run").experiment == executed_moe());
    fs::current_path(before);
}

TEST_CASE("a folder belongs to one run") {
    const Folder folder;
    const std::string path = folder.path.string();
    {
        RunFolder run(path, executed_moe(), {}, two_tasks());
        CHECK(complaint([&] { RunFolder(path, executed_moe(), {}, two_tasks()); }, "") ==
              path + ": another run is writing it; expected another folder for --out");
        run.finish(one_sample());
    }
    CHECK(complaint([&] { RunFolder(path, executed_moe(), {}, two_tasks()); }, "") ==
          path + ": holds a run already; expected another folder for --out");
    CHECK(read_run(path).measurement == one_sample());
}

// The user's own files have the names of a run's files; without run.toml they are no run, and they
// stay unchanged.
TEST_CASE("a folder with files of another origin is refused") {
    for (const char* name :
         {"experiment.toml", "cluster.toml", "framework.toml", "run.csv", "report.html"}) {
        const Folder folder;
        fs::create_directories(folder.path);
        std::ofstream(folder.path / name) << "mine\n";
        CHECK(complaint([&] { RunFolder(folder.path.string(), executed_moe(), {}, two_tasks()); },
                        "") ==
              folder.path.string() + ": holds a " + name +
                  " that is of no run and would be overwritten; expected another folder for --out");
        std::string text;
        std::getline(std::ifstream(folder.path / name), text);
        CHECK(text == "mine");
    }
}

TEST_CASE("a folder whose run ended before its first sample is free") {
    const Folder folder;
    RunFolder(folder.path.string(), executed_moe(), {}, two_tasks());
    CHECK_NOTHROW(write(folder, two_samples()));
    CHECK_FALSE(fs::exists(folder.path / "run.begun"));
    CHECK(read_run(folder.path.string()).measurement == two_samples());
}

TEST_CASE("a run whose files were changed afterwards is refused with the file that was") {
    using Catch::Contains;
    const std::vector<std::tuple<std::string, std::string, std::string, std::string>> changes{
        {"experiment.toml", "workload.hidden = 128", "workload.hidden = 256",
         "experiment.toml: is not what the run wrote"},
        {"cluster.toml", "nodes = 1", "nodes = 2", "cluster.toml: is not what the run wrote"},
        {"trace_0001.csv", "graph ", "graph 0", "trace_0001.csv: is of another run"},
        {"trace_0001.csv", "send_up", "nowhere", "trace_0001.csv:4: \"nowhere\" is not a lane"},
        {"trace_0001.csv", "1,1,send_up", "1,268435456,send_up",
         "trace_0001.csv:4: rank 268435456; expected fewer"},
        {"trace_0001.csv", "1,1,send_up", "4000000000,1,send_up",
         "trace_0001.csv:4: \"4000000000\" is out of range"},
        {"run.csv", "step,-1,1", "step,-1,7", "run.csv: step 7 after 1 steps"},
        {"run.csv", "cpu_share,-1,0", "accepted,-1,0",
         "run.csv: step 0 has two values of accepted; expected its phases once each"},
        {"run.csv", "optimizer,-1,1", "optimizer,-1,0",
         "run.csv: step 0 has two values of optimizer"},
        {"run.csv", "optimizer,-1,1", "optimizer,-1,2",
         "run.csv: step 1 has 6 values; expected its 7 phases, once each"},
        {"run.toml", "format = 2", "format = 3",
         "run.toml:1:10: format: 3 is out of range; expected 1 to 2"},
        {"run.toml", "workload.hidden=128", "128",
         "run.toml:3:13: overrides: --set 128: expected KEY=VALUE"},
    };
    for (const auto& [file, from, to, expected] : changes) {
        INFO(file << ": " << from << " -> " << to);
        const Folder folder;
        write(folder, two_samples());
        folder.change(file, from, to);
        CHECK_THAT(folder.error(), Contains(expected));
    }
    const Folder folder;
    write(folder, two_samples());
    fs::remove(folder.path / "trace_0001.csv");
    CHECK_THAT(folder.error(), Contains("trace_0001.csv: cannot be read"));
}

// A task of number 7 once wrote beyond the end of the table of durations.
TEST_CASE("a trace of another graph is refused before its times are given to tasks") {
    const Folder folder;
    Measurement other = one_sample();
    other.traces[0].spans[1].task = 7;
    write(folder, other);
    const RunRecord record = read_run(folder.path.string());
    CHECK(complaint([&] { require_traces_of(two_tasks(), record, "run"); }) ==
          "run/trace_0000.csv: span 1 is of task 7 on rank 1, expected task 1 (second) on rank 1; "
          "expected the trace of "
          "this experiment's step");
    other = one_sample();
    other.traces[0].spans.pop_back();
    CHECK(span_mismatch(two_tasks(), other.traces[0]) == "no span of task 1 (second) on rank 1");
}
