// What `calibrate` without --fit makes of measured steps and of a recorded run.
#include <catch2/catch.hpp>

#include <cmath>

#include <fmt/format.h>

#include "calibrate/from_measurements.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "model/records/measurement.h"
#include "model/records/measurements.h"
#include "sim/explain/cluster_parameters.h"
#include "tests/calibrate/step_rows.h"

using namespace stepcast;
using Catch::Contains;

// Nine steps of a machine whose products in steps reach 0.8 of the shipped rate; one of them took
// four times as long. A further row is of another device. Without --fit, `calibrate` moves the
// cluster's constants.
TEST_CASE("measured steps bring back the rate that made them, and a wild one counts little") {
    const TestFolder folder;
    std::vector<StepRow> rows;
    for (const int hidden : {2048, 4096, 8192})
        for (const int micro_batch : {1, 2, 4})
            rows.push_back({.id = fmt::format("r{}-{}", hidden, micro_batch),
                            .hidden = hidden,
                            .micro_batch = micro_batch});
    std::vector<Case> cases = cases_of(folder, rows);
    const Cluster start = read_cluster("dgx-a100");
    for (std::size_t i = 0; i < rows.size(); ++i) {
        Experiment& e = cases[i].experiment;
        e.cluster = with_scaled(e.cluster, "kernel.training_gemm", 0.8);
        rows[i].seconds = (i == 4 ? 4 : 1) * simulated_step(e);
    }
    rows.push_back({.id = "other", .device = "H100"});
    const std::string table = folder.write("steps.csv", steps_table(rows)),
                      out = folder.path() + "/fitted.toml";
    const std::string text = calibrate_from_measurements(
        {.measurements = {table}, .cluster = "dgx-a100", .out = out, .date = "2026-02-03"});
    CHECK_THAT(text, Contains("9 measured steps; passed over: 1 of other devices, 0 that cannot be "
                              "predicted\ncluster written to " +
                              out));
    CHECK_THAT(text,
               Contains("of little weight: r4096-2, ") && !Contains("of little weight: r2048"));
    const Cluster fitted = read_cluster(out);
    CHECK(fitted.kernel.training_gemm == Approx(0.8 * start.kernel.training_gemm).epsilon(0.05));
    CHECK(fitted.fitted->date == "2026-02-03");
    CHECK(fitted.fitted->sources.front() == "steps.csv");
    // What kernels told about the machine is still recorded, and counted.
    const auto steps = std::ranges::find_if(start.fitted->errors, [](const auto& e) {
        return e.kind == "step" && e.method == "fitted";
    });
    REQUIRE(steps != start.fitted->errors.end());
    // nine steps instead of the start's
    CHECK(fitted.fitted->samples == start.fitted->samples - steps->samples + 9);
    CHECK(fitted.fitted->measured == start.fitted->measured);
    CHECK_THAT(text, !Contains("not measured"));
    CHECK_THAT(complaint([&] {
                   calibrate_from_measurements(
                       {.measurements = {table}, .cluster = table, .out = table, .date = ""});
               }),
               Contains(table));
}

// Products at 200 TFLOP/s with 5 us to start, and steps of a machine: fitted at once as in two
// commands, tables first wherever they stand. A second part that fails says what was written.
TEST_CASE("tables and steps are fitted in one command, steps from what the tables told") {
    const TestFolder folder;
    std::string products = "m,n,k,dtype,time_us\n";
    for (const int m : {512, 1024, 2048, 4096, 8192})
        for (const int n : {1024, 2048, 4096, 8192})
            for (const int k : {1024, 2048, 4096})
                products +=
                    fmt::format("{},{},{},bf16,{:.3f}\n", m, n, k, 5 + 2e-8 * m * n * k / 2);
    std::vector<StepRow> rows;
    for (const int hidden : {1024, 2048, 4096})
        for (const int micro_batch : {1, 2, 4})
            rows.push_back({.id = fmt::format("r{}-{}", hidden, micro_batch),
                            .hidden = hidden,
                            .micro_batch = micro_batch});
    std::vector<Case> cases = cases_of(folder, rows);
    for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i].seconds = 1.5 * simulated_step(cases[i].experiment);
    const std::string table = folder.write("gemm.csv", products),
                      steps = folder.write("steps.csv", steps_table(rows));
    const auto fitted = [&](std::vector<std::string> files, const std::string& start,
                            const std::string& out) {
        return calibrate_from_measurements({.measurements = std::move(files),
                                            .cluster = start,
                                            .out = folder.path() + out,
                                            .date = "2026-02-03"});
    };
    const std::string at_once = fitted({steps, table}, "dgx-a100", "/both.toml");
    CHECK_THAT(at_once, Contains("60 GEMMs") && Contains("9 measured steps"));
    fitted({table}, "dgx-a100", "/first.toml");
    fitted({steps}, folder.path() + "/first.toml", "/second.toml");
    const Cluster both = read_cluster(folder.path() + "/both.toml"),
                  second = read_cluster(folder.path() + "/second.toml");
    CHECK(both.kernel == second.kernel);
    CHECK(both.kernel.training_gemm != read_cluster("dgx-a100").kernel.training_gemm);
    CHECK(both.fitted->sources == second.fitted->sources);
    CHECK(both.fitted->samples == second.fitted->samples);
    CHECK_THAT(
        complaint([&] {
            fitted({table, folder.write("none.csv", steps_table({}))}, "dgx-a100", "/part.toml");
        }),
        Contains("part.toml holds what was fitted to the other files"));
    CHECK(read_cluster(folder.path() + "/part.toml").kernel ==
          read_cluster(folder.path() + "/first.toml").kernel);
}

// Recorded steps of a whole model tell the noise, not the kernels.
TEST_CASE("a recorded run of a whole model tells the noise of a cluster") {
    const TestFolder folder;
    std::vector<Sample> samples;
    for (int step = 0; step < 120; ++step) {
        Sample s;
        s.run_id = "run";
        s.model = "gpt";
        s.ranks = 4;
        s.phase = "step";
        s.step = step;
        s.value = 1 + 0.01 * (step % 5);
        samples.push_back(s);
    }
    const std::string record = folder.write("run.csv", write_measurements(samples)),
                      out = folder.path() + "/noise.toml";
    const std::string text = calibrate_from_measurements(
        {.measurements = {record}, .cluster = "dgx-a100", .out = out, .date = "2026-02-03"});
    CHECK_THAT(text, Contains("noise of run run, 90 steps; start dgx-a100, written to " + out));
    const Cluster fitted = read_cluster(out), start = read_cluster("dgx-a100");
    // Of 90 steady steps the median is 1.02 and the lower quartile 1.01: a spread of 1.5 %.
    // Forecasts on dgx-a100 are off by more, and one run says nothing about that.
    REQUIRE(start.noise.step > std::log(1.02 / 1.01) / 0.6745);
    CHECK(fitted.noise.step == start.noise.step);
    CHECK_THAT(text, Contains("steps of this run spread by 1.46 %"));
    CHECK(fitted.fitted->samples == start.fitted->samples + 90);
    CHECK(fitted.fitted->rows.size() > start.fitted->rows.size());
    CHECK(fitted.kernel == start.kernel);
    folder.write("t.csv", "m,n,k,dtype,time_us\n1,1,1,bf16,2\n");
    CHECK(are_tables({folder.path() + "/t.csv"}));
    CHECK_FALSE(are_tables({record}));
    CHECK_FALSE(are_tables({}));
    CHECK_FALSE(are_tables({folder.path() + "/t.csv", record}));
    // A profile's steps may be given beside its tables; they are ignored.
    for (Sample& s : samples) s.phase = s.step % 2 == 0 ? "busy" : "idle";
    const std::string profile = folder.write("p.csv", write_measurements(samples));
    CHECK(are_tables({folder.path() + "/t.csv", profile}));
    CHECK_FALSE(are_tables({profile}));
}
