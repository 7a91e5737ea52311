// Whole texts of fits to a few measured steps: rows of a made-up framework on the shipped DGX A100.
// A refit of it, or new priors, change these texts; renew them then (tests/golden_text.h).
#include <cmath>

#include "calibrate/few_shot.h"
#include "calibrate/scatter.h"
#include "sim/interval.h"
#include "tests/calibrate/step_rows.h"
#include "tests/golden_text.h"

using namespace stepcast;

namespace {

// Twelve rows of three models, a few percent off, with 0.8 of the products' efficiency and 1.5 of
// the host's time per layer. One takes twice as long, one is of another device.
std::vector<StepRow> rows_of_a_trainer(const TestFolder& folder) {
    std::vector<StepRow> rows;
    for (const int hidden : {1024, 4096, 8192})
        for (const int tp : {1, 4})
            for (const int micro_batch : {1, 4}) {
                StepRow row{.id = "r" + std::to_string(rows.size()),
                            .hidden = hidden,
                            .tp = tp,
                            .dp = 8 / tp,
                            .micro_batch = micro_batch};
                row.model = "gpt-" + std::to_string(hidden);
                rows.push_back(row);
            }
    const std::vector<Case> cases = cases_of(folder, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        Experiment e = cases[i].experiment;
        e.cluster.kernel.training_gemm *= 0.8;
        e.cluster.host.layer *= 1.5;
        rows[i].seconds = simulated_step(e) * (1 + 0.02 * std::sin(17.0 * static_cast<double>(i)));
    }
    rows[5].seconds *= 2;
    rows.push_back({.id = "other", .device = "H100"});
    return rows;
}

}  // namespace

TEST_CASE("golden steps: constants fitted to a few of them") {
    const TestFolder folder;
    CalibrationRequest what{
        .measurements = {folder.write("steps.csv", steps_table(rows_of_a_trainer(folder)))},
        .cluster = "dgx-a100",
        .framework = "nemo-2",
        .out = folder.path() + "/out.toml",
        .date = "2026-01-02"};
    std::string text;
    for (const FitTarget target : {FitTarget::hardware, FitTarget::both}) {
        what.target = target;
        text += calibrate_few_shot(what) + "\n";
    }
    text +=
        text_of_file(folder.path() + "/out.framework.toml") + cross_validate(what, LeftOut::model);
    check_golden("calibrate/golden/steps.txt", replaced(text, folder.path(), "FOLDER"));
}

// Rows of five frameworks on two devices, each with its own error.
TEST_CASE("golden steps: how far they lie from forecasts") {
    std::vector<ScatterRow> rows;
    for (int i = 0; i < 60; ++i) {
        ScatterRow r;
        r.what.series = r.what.experiment.workload.name = "model " + std::to_string(i % 4);
        r.what.experiment.framework.name = "trainer " + std::to_string(i % 5);
        r.what.experiment.cluster.gpu.name = i % 3 == 0 ? "A100" : "H100";
        r.off = 0.05 * (i % 5) + 0.1 * std::sin(7.0 * i);
        r.what.measured_step = Seconds(std::exp(r.off));
        r.forecast.step = {Seconds(1), Seconds(1), Seconds(1), Seconds(1)};
        r.forecast.doubts.constants = 0.02 * (i % 3);
        rows.push_back(r);
    }
    const ScatterTable table = fit_scatter(rows, std::vector<bool>(rows.size(), true));
    std::string text;
    for (const auto& g : table.groups)
        text += fmt::format("{} on {}: {} rows, {:.6g} {:.6g}\n", g.framework, g.gpu, g.rows,
                            g.scatter.faster, g.scatter.slower);
    text += fmt::format("frameworks {:.6g} {:.6g}, pairs {:.6g} {:.6g}\n", table.frameworks.faster,
                        table.frameworks.slower, table.pairs.near, table.pairs.far);
    for (std::size_t i = 0; i < rows.size(); i += 7)
        text += fmt::format("{:.6g} .. {:.6g}\n", interval_by(table, rows[i]).p10.si(),
                            interval_by(table, rows[i]).p90.si());
    for (const LeftOut by : {LeftOut::model, LeftOut::framework, LeftOut::device})
        for (const BlockErrors& block : leave_out_scatter(rows, by))
            text +=
                fmt::format("{}: {} of {}\n", block.left_out, block.inside, block.errors.size());
    check_golden("calibrate/golden/scatter.txt", text);
}
