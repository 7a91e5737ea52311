#include <catch2/catch.hpp>

#include <unistd.h>
#include <filesystem>
#include <fstream>

#include "model/errors.h"
#include "model/run_folder.h"

using namespace stepcast;
namespace fs = std::filesystem;

namespace {

struct Folder {
    fs::path path = fs::temp_directory_path() / ("stepcast_run_" + std::to_string(getpid()));
    Folder() { fs::remove_all(path); }
    ~Folder() { fs::remove_all(path); }
};

Trace trace_of(double begin) {
    return {Trace::Origin::executed,
            {{0, Place(0, Lane::compute), Seconds(begin), Seconds(begin + 0.1)},
             {1, Place(1, Lane::send_up), Seconds(begin + 1.0 / 3), Seconds(begin + 0.5)}}};
}

RunRecord two_samples() {
    RunRecord record;
    record.experiment = "host_moe";
    record.overrides = {{"workload.hidden", "128"}};
    record.cluster = read_experiment("host_moe").cluster;
    Measurement& m = record.measurement;
    m.device = "host, 2 \"ranks\"";
    m.date = "2026-11-21";
    m.versions = {"OpenBLAS 0.3.21", "GCC 12"};
    m.warmup = 3;
    m.quiet = false;
    m.idle_share = 0.5;
    m.warnings = {"busy: very"};
    m.steps = {{{Seconds(0.5), Seconds(0.1), Seconds(0.2), Seconds(0.05), Seconds(0.15)}, true, 0.99},
               {{Seconds(0.7), Seconds(0.3), Seconds(0.2), Seconds(0.05), Seconds(0.15)}, false, 1.0 / 3}};
    m.traces = {trace_of(0), trace_of(0.001)};
    return record;
}

}  // namespace

TEST_CASE("a run reads back as it was written") {
    const Folder folder;
    const RunRecord record = two_samples();
    write_run(folder.path.string(), record, read_experiment("host_moe"));
    const RunRecord back = read_run(folder.path.string());
    CHECK(back.measurement == record.measurement);
    CHECK(back.cluster == record.cluster);
    CHECK(experiment_of(back).workload.hidden == 128);
}

TEST_CASE("a run that is written sample by sample can be read after each, and keeps a copy of its experiment") {
    const Folder folder;
    RunRecord record = two_samples();
    fs::create_directories(folder.path);
    const std::string file = (folder.path / "mine.toml").string();
    std::ofstream(file) << "[workload]\npreset = \"moe_layer\"\n";
    record.experiment = file;
    const Measurement whole = record.measurement;
    record.measurement.steps.resize(1);
    record.measurement.traces.resize(1);
    const std::string run = (folder.path / "run").string();
    write_run(run, record, Experiment{});
    CHECK(read_run(run).measurement == record.measurement);
    record.measurement = whole;
    write_run(run, record, Experiment{});
    CHECK(read_run(run).measurement == whole);
    CHECK(read_run(run).experiment == run + "/experiment.toml");
}

TEST_CASE("a damaged run says which file and line is wrong") {
    const Folder folder;
    const std::string run = folder.path.string();
    CHECK_THROWS_AS(read_run(run), ConfigError);
    write_run(run, two_samples(), Experiment{});
    std::ofstream(folder.path / "trace_0001.csv")
        << "# stepcast trace 1, executed\ntask,rank,lane,start_s,finish_s\n0,0,nowhere,0,1\n";
    CHECK_THROWS_WITH(read_run(run), (folder.path / "trace_0001.csv").string() + ":3: \"nowhere\" is no lane");
}
