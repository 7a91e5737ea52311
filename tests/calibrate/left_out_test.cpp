// How well constants fitted to measured steps predict a block of steps that the fit has not seen: a
// family of models, a table of another source. Only such errors, and the share of steps inside
// p10..p90, tell about new runs.

#include <cmath>
#include <fstream>
#include <functional>

#include <catch2/catch.hpp>

#include "calibrate/few_shot.h"
#include "calibrate/step_constants.h"
#include "import/tables/case_files.h"
#include "measured/medians.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "model/machine/cluster_file.h"
#include "model/records/measurements.h"
#include "reports/compare_page.h"
#include "sim/predict.h"
#include "tests/model/files.h"
#include "tests/truth.h"

using namespace stepcast;

namespace {

// The shipped cluster before the fit to steps, with the constants from kernels and links.
std::string before_steps(const TestFolder& folder, const std::string& preset,
                         const std::vector<Case>& cases) {
    Experiment holder;
    holder.cluster = read_cluster(preset);
    auto& stated = holder.cluster.fitted->parameters;
    for (const StepConstant& free : step_constants(FitTarget::cluster, cases))
        for (const FittedParameter& p : std::vector(stated))
            if (p.key == free.key && !p.prior.empty())
                set_key(holder, {"cluster." + p.key, p.prior});
    std::erase_if(stated, [&](const FittedParameter& p) {
        return p.key.starts_with("kernel.training") || p.key.starts_with("link.intra.training");
    });
    return folder.write("before.toml", write_cluster(holder.cluster));
}

struct Divided {
    std::vector<Case> known;
    std::vector<std::string> known_files, block_files;
};

// Each row of a table is one line.
void divide(const TestFolder& folder, const std::string& file,
            const std::function<bool(const Case&)>& left_out, Divided& found) {
    const std::string path = truth_folder() + "/" + file + ".csv";
    std::ifstream table(path);
    std::string line, known, block;
    std::getline(table, line);
    known = block = line + "\n";
    for (const Comparison& row : read_comparisons(path, "")) {
        REQUIRE(std::getline(table, line));
        (left_out(row.what) ? block : known) += line + "\n";
        if (!left_out(row.what) && row.refused_because.empty()) found.known.push_back(row.what);
    }
    found.known_files.push_back(folder.write(file + "-known.csv", known));
    found.block_files.push_back(folder.write(file + "-block.csv", block));
}

struct LeftOutErrors {
    double median = 0, mean = 0, inside = 0;
    std::size_t rows = 0;
};

LeftOutErrors predict_block(const std::string& preset, const std::vector<std::string>& files,
                            const std::function<bool(const Case&)>& left_out) {
    const TestFolder folder;
    Divided d;
    for (const std::string& file : files) divide(folder, file, left_out, d);
    const std::string fitted = folder.path() + "/fitted.toml",
                      device = read_cluster(preset).gpu.name;
    calibrate_few_shot({.measurements = d.known_files,
                        .cluster = before_steps(folder, preset, d.known),
                        .framework = "",
                        .out = fitted,
                        .date = "",
                        .target = FitTarget::cluster});
    LeftOutErrors found;
    std::vector<double> errors;
    for (const std::string& file : d.block_files) {
        const std::vector<Comparison> own = read_comparisons(file, ""),
                                      on = read_comparisons(file, fitted);
        for (std::size_t i = 0; i < own.size(); ++i) {
            if (!own[i].refused_because.empty() ||
                own[i].what.experiment.cluster.gpu.name != device)
                continue;
            const Forecast f = predict(on[i].what.experiment);
            errors.push_back(std::abs(f.step.p50 / on[i].what.measured_step - 1));
            found.mean += errors.back();
            found.inside +=
                f.step.p10 <= on[i].what.measured_step && on[i].what.measured_step <= f.step.p90;
        }
    }
    found.rows = errors.size();
    REQUIRE(found.rows >= 5);
    found.mean /= static_cast<double>(found.rows);
    found.inside /= static_cast<double>(found.rows);
    found.median = median(errors);
    return found;
}

}  // namespace

TEST_CASE("steps of mixtures of experts on eight B200 are met by constants of dense models alone") {
    if (truth_is_absent()) return;
    const LeftOutErrors found =
        predict_block("b200-sxm-x8", {"simumax_b200", "simumax_2"},
                      [](const Case& c) { return c.experiment.workload.moe.experts > 0; });
    CAPTURE(found.rows, found.median, found.mean, found.inside);
    CHECK(found.median <= 0.10);
    CHECK(found.mean <= 0.12);
    CHECK(found.inside >= 0.3);
}

TEST_CASE("another group's steps on A100 are met by constants fitted without them") {
    if (truth_is_absent()) return;
    const LeftOutErrors found = predict_block(
        "dgx-a100", {"megatron_papers", "mosaic_mpt", "pytorch_jax_fsdp", "vtrain_512"},
        [](const Case& c) { return c.source == "vtrain_multi"; });
    CAPTURE(found.rows, found.median, found.mean, found.inside);
    CHECK(found.median <= 0.10);
    CHECK(found.mean <= 0.12);
    CHECK(found.inside >= 0.3);
}
