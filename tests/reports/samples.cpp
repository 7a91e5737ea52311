#include "tests/reports/samples.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "model/input/presets.h"

namespace stepcast::samples {
namespace {

Seconds ms(double value) { return Seconds(value * 1e-3); }

// Of this process alone, since tests run side by side; gone when it ends.
struct TemporaryRoot {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("stepcast_reports_" + std::to_string(getpid()));
    ~TemporaryRoot() {
        std::error_code none;
        std::filesystem::remove_all(path, none);
    }
};

}  // namespace

Comparison compared(const std::string& case_id, const std::string& series, double measured,
                    double p50, double p10, double p90) {
    Comparison c;
    c.what.source = "measurements";
    c.what.case_id = case_id;
    c.what.series = series;
    c.what.x = 16;
    c.what.measured_step = ms(measured);
    c.what.experiment.cluster.name = "plain-x4";
    Forecast f;
    f.experiment = case_id;
    f.step = {ms(p50), ms(p10), ms(p50), ms(p90)};
    f.breakdown = {ms(p50 * 0.5), ms(p50 * 0.1),  ms(p50 * 0.2),
                   ms(0),         ms(p50 * 0.15), ms(p50 * 0.05)};
    c.forecast = f;
    return c;
}

Comparison refused(const std::string& case_id, const std::string& reason) {
    Comparison c;
    c.what.source = "cases.csv";
    c.what.case_id = case_id;
    c.what.series = "dense";
    c.refused_because = reason;
    return c;
}

Forecast forecast() {
    Forecast f;
    f.experiment = "moe_layer_mix_moe";
    f.cluster = "pcie-a100-x4";
    f.calibrated = true;
    f.step = {ms(22.6), ms(20.1), ms(22.25), ms(25.32)};
    f.forward = {ms(10.8), ms(9.5), ms(10.75), ms(12)};
    f.backward = {ms(11.6), ms(10.6), ms(11.5), ms(13.1)};
    f.phases = {ms(22.25), ms(10.75), ms(11.5), ms(0), ms(0)};
    f.breakdown = {ms(11.125), ms(2.225), ms(4.45), ms(0), ms(3.3375), ms(1.1125)};
    f.memory = {Bytes(1.5 * 1073741824),
                Bytes(512 * 1048576.0),
                Bytes(512 * 1048576.0),
                Bytes(0),
                Bytes(448 * 1048576.0),
                Bytes(64 * 1048576.0),
                Bytes(0),
                true,
                0,
                Bytes(80 * 1073741824.0),
                Bytes(512 * 1048576.0)};
    f.tokens_per_second = 1472719.1;
    f.gpus = 4;
    f.model_flops_per_gpu = FlopsPerSecond(37.1e12);
    f.model_flops_utilization = 0.119;
    f.tasks = 1234;
    f.ranks_simulated = 4;
    f.draws = 200;
    f.kernels = {{"AG", Phase::forward, 0, ms(1.9)},
                 {"AG", Phase::forward, 1, ms(1.7)},
                 {"GA", Phase::backward, 0, ms(2.1)}};
    f.notes = {remark(
        "gemm 64x8x8 fp16: extrapolated, the nearest measured shape is more than twice as large in "
        "m; the law of tiles "
        "and waves is used instead")};
    return f;
}

Measurement measurement() {
    Measurement m;
    m.device = "host, 2 ranks as threads";
    m.date = "2026-01-02";
    m.versions = {"OpenBLAS 0.3.21"};
    m.warmup = 3;
    const auto step = [](double total, bool accepted) {
        return MeasuredStep{{ms(total), ms(total * 0.25), ms(total * 0.5), ms(total * 0.25), ms(0)},
                            accepted,
                            accepted ? 0.99 : 0.4};
    };
    m.steps = {step(10, true), step(30, false), step(12, true), step(11, true)};
    m.idle_share = 0.98;
    m.warnings = {"1 of 4 steps was rejected: the machine was busy"};
    return m;
}

Cluster fitted_cluster() {
    Cluster c;
    c.name = "pcie-a100-x4";
    c.gpus_per_node = 4;
    c.gpu.name = "A100-PCIe";
    c.fitted = Fitted{.date = "2026-01-02",
                      .sources = {"calibrate/measurements/bench.csv"},
                      .samples = 11,
                      .condition = 42,
                      .parameters = {{"host.call", "5 us", "5 us", 0.1, true},
                                     {"host.schedule", "3 ms", "3 ms", 0, false}},
                      .errors = {{"step", "leave-one-out", 9, 0, 0.051, -0.01, -0.12},
                                 {"forward", "leave-one-out", 9, 0, 0.04, 0.01, 0.1}},
                      .rows = {}};
    return c;
}

std::string file_text(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw std::runtime_error(path + ": cannot be read");
    return {std::istreambuf_iterator<char>(in), {}};
}

std::string temporary_folder(const std::string& name) {
    static const TemporaryRoot root;
    const auto folder = root.path / name;
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    return folder.string();
}

std::string folder_of_scripts(const std::string& name,
                              const std::function<void(const std::string&)>& draw) {
    namespace fs = std::filesystem;
    const std::string folder = temporary_folder("script_" + name),
                      program = temporary_folder("gnuplot_" + name), before = std::getenv("PATH");
    std::ofstream(program + "/gnuplot") << "#!/bin/sh\ncat\necho '<svg></svg>'\n";
    fs::permissions(program + "/gnuplot", fs::perms::owner_all);
    setenv("PATH", (program + ":" + before).c_str(), 1);
    draw(folder);
    setenv("PATH", before.c_str(), 1);
    return folder;
}

std::string script_of(const std::string& name,
                      const std::function<void(const std::string&)>& draw) {
    return file_text(
        folder_of_scripts(name, [&](const std::string& folder) { draw(folder + "/p"); }) +
        "/p.svg");
}

double number_after(const std::string& script, const std::string& text) {
    const auto at = script.find(text);
    if (at == std::string::npos) throw std::runtime_error("not in the script: " + text);
    return std::stod(script.substr(at + text.size()));
}

std::string golden(const std::string& name, const std::string& actual) {
    const std::string path = home_folder() + "/tests/reports/golden/" + name;
    if (std::getenv("STEPCAST_RENEW_GOLDEN")) std::ofstream(path, std::ios::binary) << actual;
    return file_text(path);
}

}  // namespace stepcast::samples
