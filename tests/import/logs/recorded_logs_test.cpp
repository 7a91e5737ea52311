#include <catch2/catch.hpp>

#include <algorithm>
#include <tuple>

#include "model/input/presets.h"
#include "tests/calibrate/logs.h"
#include "tests/truth.h"

using namespace stepcast;

namespace {

std::string recorded_log(const std::string& name) {
    const std::filesystem::path folder = shared_folder("logs");
    return !truth_folder().empty() && std::filesystem::exists(folder / name)
               ? (folder / name).string()
               : "";
}

// What an import writes, against a file that ships; its run may have another name there.
void check_import(const std::string& log, ImportRequest request, const std::string& shipped) {
    INFO(shipped);
    const LogFolder folder;
    request.logs = {recorded_log(log)};
    request.out = (folder.path / "out.csv").string();
    import_to_files(request);
    const auto rows_of = [](const std::string& path) {
        std::vector<std::tuple<std::string, int, int, double>> rows;
        for (const Sample& s : read_measurements(path))
            rows.emplace_back(s.phase, s.rank, s.step, s.value);
        std::sort(rows.begin(), rows.end());
        return rows;
    };
    CHECK(rows_of(request.out) == rows_of(home_folder() + "/calibrate/measurements/" + shipped));
}

}  // namespace

TEST_CASE("the shipped measurements are what the recorded logs give, where those are at hand") {
    for (const std::string log : {"moe_layer_bench.log", "moe_phase_trace.log", "ddp_models.log",
                                  "zero_coca.log", "pipeline_llama.log"})
        if (is_absent(recorded_log(log), log)) return;
    ImportRequest request;
    request.medians_only = true;
    for (const std::string name : {"moe_layer_bench", "moe_phase_trace", "ddp_models"})
        check_import(name + ".log", request, name + ".csv");
    request.kept_phases = {"step", "forward", "backward", "optimizer"};
    check_import("zero_coca.log", request, "zero_coca.csv");
    request.kept_phases = {"step", "timed.forward"};
    request.inputs = {"workload.seq=88,109,109,120,124,116,108,95,122,122"};
    request.steps = "2-6";
    check_import("pipeline_llama.log", request, "pipeline_llama.csv");
    request.steps = "7-10";
    check_import("pipeline_llama.log", request, "pipeline_llama_later.csv");
}

// The log's own last ms/batch line is of step 11; DeepSpeed's run has 901 steps, 508 and 560
// overflow.
TEST_CASE("recorded logs give the steps that they hold, where those logs are at hand") {
    for (const std::string log : {"zero_coca.log", "pipeline_llama.log", "ddp_models.log"})
        if (is_absent(recorded_log(log), log)) return;
    const ReadRun coca = import_log(recorded_log("zero_coca.log")).runs.at(0);
    CHECK(coca.steps == 901);
    CHECK(coca.ranks == 4);
    CHECK(series(coca, "parameters").at(0).second == 253026049);
    CHECK(series(coca, "overflow") == std::vector<std::pair<int, double>>{{508, 1}, {560, 1}});
    const ReadRun llama = import_log(recorded_log("pipeline_llama.log")).runs.at(0);
    CHECK(series(llama, "step").front() == std::pair{3, 1.60043});
    CHECK(series(llama, "step").back() == std::pair{11, 1.61074});
    for (int rank = 0; rank < 8; ++rank) CHECK(series(llama, "timed.forward", rank).size() == 10);
    const ReadLog models = import_log(recorded_log("ddp_models.log"));
    CHECK(models.runs.size() == 7);
    CHECK(models.lines.unknown == 0);
}
