// Memory as published tables measured it, against sim/memory.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include <catch2/catch.hpp>

#include "import/tables/case_files.h"
#include "import/tables/case_of.h"
#include "import/tables/cases.h"
#include "import/tables/shelf.h"
#include "measured/read.h"
#include "model/base/csv.h"
#include "model/input/presets.h"
#include "model/step.h"
#include "reports/compare_page.h"
#include "sim/memory/allocator_forecast.h"
#include "sim/memory/lifetimes.h"
#include "sim/memory/memory_use.h"
#include "sim/memory/process_memory.h"
#include "sim/memory/transformer_memory.h"
#include "tests/model/files.h"
#include "tests/truth.h"

using namespace stepcast;

namespace {

// The rows that state a peak; what they name is read once for all.
std::vector<Case> with_peaks(const std::string& table, const std::string& cluster) {
    std::vector<Case> found;
    Shelf shelf;
    for (const CaseRow& row : read_cases(table)) {
        Case one = case_of(row, cluster, shelf);
        if (one.measured_peak) found.push_back(std::move(one));
    }
    return found;
}

}  // namespace

TEST_CASE("measured peaks of simumax_b200.csv are met within 5 % (where shared/truth is there)") {
    const std::string file = truth_file("simumax_b200.csv");
    if (is_absent(file, "simumax_b200.csv")) return;
    const TestFolder folder;
    const std::string cluster = folder.write("b200.toml", R"(
name = "eight-b200"
nodes = 1
gpus_per_node = 8
[gpu]
name = "B200"
memory = "180 GiB"
memory_bandwidth = "8 TB/s"
[gpu.peak]
bf16 = "2250 TFLOP/s"
[link.intra]
bandwidth = "900 GB/s"
)");
    int compared = 0;
    for (const Case& found : with_peaks(file, cluster)) {
        CAPTURE(found.case_id);
        CHECK(transformer_memory(found.experiment).peak / *found.measured_peak ==
              Approx(1).margin(0.05));
        ++compared;
    }
    CHECK(compared > 0);
}

// Rank 0 of an eager framework, tensor parallel over 1 to 32 ranks, with and without pipelines.
TEST_CASE(
    "reserved peaks of nanotron.csv are met within 12 % in the mean (where shared/truth is "
    "there)") {
    const std::string file = truth_file("nanotron.csv");
    if (is_absent(file, "nanotron.csv")) return;
    double sum = 0, compared = 0;
    for (const Case& found : with_peaks(file, "dgx-h100")) {
        sum += std::abs(transformer_memory(found.experiment).peak / *found.measured_peak - 1);
        ++compared;
    }
    REQUIRE(compared > 100);
    CHECK(sum / compared < 0.12);
}

namespace {

AllocatorReplay first_stage(const Experiment& e) {
    return replay(lifetimes_of(e, routing_of(e), 0).events,
                  parse_allocator_settings(e.run.allocator));
}

}  // namespace

// The closed form with one factor for what the allocator loses is 10 % off; tensors of collectives
// that wait for passes instead of launches 5.0 %.
TEST_CASE(
    "what the allocator reserves in nanotron's runs is met within 4.4 % in the mean (where "
    "shared/truth is there)") {
    const std::string file = truth_file("nanotron.csv");
    if (is_absent(file, "nanotron.csv")) return;
    double sum = 0, bias = 0, compared = 0;
    for (const Case& found : with_peaks(file, "dgx-h100")) {
        const double error = static_cast<double>(first_stage(found.experiment).peak.reserved) /
                                 found.measured_peak->si() -
                             1;
        sum += std::abs(error);
        bias += error;
        ++compared;
    }
    REQUIRE(compared > 100);
    CHECK(sum / compared < 0.044);
    CHECK(std::abs(bias / compared) < 0.02);
}

// Neither tensor parallel nor pipelined, so that the list is one of local operators. A workspace
// that came before the first tensors would not split the block of the logits: 8 % less in three
// rows, 5 % more in two.
TEST_CASE(
    "what the allocator reserves in nanotron's data-parallel runs is met within 1 % each (where "
    "shared/truth is there)") {
    const std::string file = truth_file("nanotron.csv");
    if (is_absent(file, "nanotron.csv")) return;
    int compared = 0;
    for (const Case& found : with_peaks(file, "dgx-h100")) {
        const Parallelism& p = found.experiment.parallelism;
        if (p.tp * p.pp > 1) continue;
        CAPTURE(found.case_id);
        CHECK(static_cast<double>(first_stage(found.experiment).peak.reserved) /
                  found.measured_peak->si() ==
              Approx(1).margin(0.01));
        ++compared;
    }
    CHECK(compared == 10);
}

// 1.3B over two tensor-parallel ranks. If memory from the driver did not wait for the device, the
// mean would be 3.6 %.
TEST_CASE(
    "what the allocator reserves in nanotron's runs over two ranks of one node is met (where "
    "shared/truth is there)") {
    const std::string file = truth_file("nanotron.csv");
    if (is_absent(file, "nanotron.csv")) return;
    double sum = 0, compared = 0;
    for (const Case& found : with_peaks(file, "dgx-h100")) {
        const Parallelism& p = found.experiment.parallelism;
        if (p.tp != 2 || p.pp > 1 || found.experiment.workload.hidden != 2048) continue;
        sum += std::abs(static_cast<double>(first_stage(found.experiment).peak.reserved) /
                            found.measured_peak->si() -
                        1);
        ++compared;
    }
    CHECK(compared == 10);
    CHECK(sum / compared < 0.013);
}

TEST_CASE(
    "what tensors take in simumax_b200.csv is met within 4 %, tensor by tensor (where "
    "shared/truth is there)") {
    const std::string file = truth_file("simumax_b200.csv");
    if (is_absent(file, "simumax_b200.csv")) return;
    double sum = 0, compared = 0;
    for (const Case& found : with_peaks(file, "b200-x8")) {
        CAPTURE(found.case_id);
        double most = 0;
        for (const auto& stage : allocator_forecast(found.experiment).stages)
            most = std::max(most, stage.allocated.si());
        CHECK(most / found.measured_peak->si() == Approx(1).margin(0.04));
        sum += std::abs(most / found.measured_peak->si() - 1);
        ++compared;
    }
    REQUIRE(compared > 10);
    CHECK(sum / compared < 0.012);
}

// Every row of these tables ran. The closed forms refuse 34 of them.
TEST_CASE("of steps that ran, few are said to run out of memory (where shared/truth is there)") {
    const std::string folder = truth_file("new");
    if (is_absent(folder, "new")) return;
    int rows = 0, refused = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
        if (file.path().extension() != ".csv") continue;
        for (const Comparison& c : read_comparisons(file.path().string(), "")) {
            const Experiment& e = c.what.experiment;
            if (!c.refused_because.empty() || e.workload.kind != Workload::Kind::transformer)
                continue;
            ++rows;
            const Bytes available = e.cluster.gpu.memory - process_memory(e);
            const auto stages = memory_of_stages(e, routing_of(e));
            const auto fullest = std::ranges::max_element(stages, {}, &MemoryUse::peak);
            const auto list =
                lifetimes_of(e, routing_of(e), static_cast<int>(fullest - stages.begin()));
            if (replay(list.events, {}, static_cast<std::int64_t>(available.si())).failed)
                ++refused;
        }
    }
    CHECK(rows > 350);
    CHECK(refused <= 28);  // one more since a card counts as what a process sees of it
}

namespace {

// Of a column, by case_id; rows that do not state it are left out.
std::map<std::string, double> numbers_in(const std::string& path, const std::string& column) {
    std::map<std::string, double> numbers;
    CsvReader csv(path);
    csv.next_after_comments();
    const std::vector<std::string> header = csv.fields();
    const auto at = [&](const std::string& name) {
        return static_cast<std::size_t>(std::ranges::find(header, name) - header.begin());
    };
    while (csv.next_after_comments())
        if (const std::string& cell = csv.fields().at(at(column)); !cell.empty())
            numbers[csv.fields().at(at("case_id"))] = csv_number(cell);
    return numbers;
}

}  // namespace

// Plain scripts on one GPU, torch.cuda.max_memory_allocated(). The sums that this list has replaced
// were 0.25 % off in the mean and 1.4 % at most.
TEST_CASE("what tensors take in plain scripts on an H200 and an H100 is met within 0.7 %") {
    double sum = 0;
    int compared = 0;
    for (const char* gpu : {"h200", "h100"})
        for (const Comparison& c :
             read_comparisons(home_folder() + "/calibrate/measurements/" + gpu + "/steps.csv",
                              gpu + std::string("-x1"))) {
            if (!c.what.measured_peak) continue;
            CAPTURE(c.what.case_id);
            const double error =
                memory_forecast(c.what.experiment).peak / *c.what.measured_peak - 1;
            CHECK(std::abs(error) < 0.007);
            sum += std::abs(error);
            ++compared;
        }
    CHECK(compared == 50);
    CHECK(sum / compared < 0.0015);
}

// Steps of users' scripts whose forecasts were frozen before they were measured: at the memory that
// gives a stated chance, how many would have run out? Frameworks outside [memory] frameworks.
TEST_CASE("chances to run out of memory hold for forecasts that had seen nothing") {
    const std::string folder = home_folder() + "/calibrate/measurements/h200/";
    const auto forecasts = numbers_in(folder + "forecast_before_users.csv", "peak_bytes"),
               all = numbers_in(folder + "users_steps.csv", "peak_allocated");
    std::map<std::string, double> measured;
    for (const auto& [id, peak] : all)
        if (forecasts.contains(id)) measured[id] = peak;
    REQUIRE(measured.size() >= 20);
    Experiment e;
    e.cluster.gpu.memory = Bytes(80e9);
    const auto share_above = [&](double chance) {
        int above = 0;
        for (const auto& [id, peak] : measured) {
            // a device that the peak fills exactly
            const double stated = chance_out_of_memory(e, Bytes(forecasts.at(id)), Bytes(peak));
            above += stated < chance ? 1 : 0;
        }
        return above / static_cast<double>(measured.size());
    };
    CHECK(share_above(0.1) < 0.15);
    CHECK(share_above(0.9) > 0.85);
    CHECK(share_above(0.5) == Approx(0.5).margin(0.15));
}

// CCL-Bench, run 16 of torchtitan's Llama 3.1 8B on one A100 without FSDP: fp32 weights, automatic
// casting, 32 sequences of 1,024 tokens. It ran out of memory: capacity 39.49 GiB, 39.19 GiB used
// by the process, 38.15 GiB allocated, tried to allocate 896 MiB (32,768 tokens x 14,336 x 2 B).
// So the context has 0.95 GiB. Here 36.6 are allocated and 1.5 reserved; with expandable segments
// 37.4 and 0.1, of which the run had 0.09.
TEST_CASE("the tensor that a published run failed at is found") {
    const Experiment e = read_experiment(
        "llama3-8b", std::vector<Override>{{"framework.preset", "torchtitan-autocast"},
                                           {"cluster.preset", "dgx-a100"},
                                           {"cluster.gpus", "1"},
                                           {"cluster.gpu.memory", "39.49 GiB"},
                                           {"parallelism.micro_batch", "32"},
                                           {"parallelism.recompute", "alternate"},
                                           {"workload.seq", "1024"}});
    const AllocatorForecast forecast = allocator_forecast(e);
    REQUIRE(forecast.failure);
    CHECK(forecast.failure->asked == parse_bytes("896 MiB"));
    CHECK(forecast.failure->moment.phase == Phase::forward);
    CHECK(forecast.failure->moment.step == 0);
    CHECK(forecast.failure->allocated / parse_bytes("38.15 GiB") == Approx(1).margin(0.045));
    for (const auto& remedy : forecast.remedies) CHECK_FALSE(remedy.fits);
}
