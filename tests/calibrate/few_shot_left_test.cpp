// What a fit of steps does not change: constants that its rows do not determine, earlier fits, rows
// that differ.
#include <catch2/catch.hpp>

#include <cmath>
#include <filesystem>

#include "calibrate/few_shot.h"
#include "calibrate/step_constants.h"
#include "calibrate/step_fit.h"
#include "calibrate/step_fit_files.h"
#include "calibrate/step_model.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "sim/scatter.h"
#include "tests/calibrate/step_rows.h"

using namespace stepcast;
using Catch::Contains;

namespace {

// The rows with the steps that are forecast for them with these host costs.
std::vector<StepRow> as_forecast(const TestFolder& folder, std::vector<StepRow> rows,
                                 const std::vector<Override>& costs = {}) {
    std::vector<Case> cases = cases_of(folder, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        for (const Override& o : costs) set_key(cases[i].experiment, o);
        rows[i].seconds = simulated_step(cases[i].experiment);
    }
    return rows;
}

std::vector<StepRow> large_steps() {
    return {{.id = "a", .hidden = 4096, .tp = 2, .dp = 4, .micro_batch = 4},
            {.id = "b", .hidden = 8192, .tp = 2, .dp = 4, .micro_batch = 2},
            {.id = "c", .hidden = 4096, .micro_batch = 8},
            {.id = "d", .hidden = 8192, .tp = 4, .dp = 2, .micro_batch = 8}};
}

std::vector<StepRow> ten_rows() {
    std::vector<StepRow> rows;
    for (int i = 0; i < 10; ++i)
        rows.push_back({.id = std::string(1, static_cast<char>('a' + i)),
                        .hidden = 1024 << i % 3,
                        .micro_batch = 1 + i % 2,
                        .batches = 1 + i % 4});
    for (StepRow& r : rows) r.framework = "default";
    return rows;
}

CalibrationRequest request(const TestFolder& folder, const std::vector<StepRow>& rows,
                           FitTarget target) {
    return {.measurements = {folder.write("steps.csv", steps_table(rows))},
            .cluster = "dgx-a100",
            .framework = "",
            .out = folder.path() + "/fitted.toml",
            .date = "2026-01-01",
            .target = target};
}

}  // namespace

// Steps of large layers that take exactly the forecast say nothing about a host that is faster than
// its device. Costs that are 0 in the base (dgx-a100 and nemo-2 have none per micro-batch or
// collective) stay 0; the usual value would be 30 us and more.
TEST_CASE("costs that the base has at nothing and rows do not determine stay at nothing") {
    const TestFolder folder;
    std::vector<Case> cases = cases_of(folder, as_forecast(folder, large_steps()));
    REQUIRE(get_key(cases.front().experiment, "cluster.host.micro_batch").starts_with("0"));
    const CalibrationRequest both =
        request(folder, as_forecast(folder, large_steps()), FitTarget::both);
    const StepFit fit = fitted_to(cases, both, {});
    for (const StepConstant& c : fit.constants) CHECK_FALSE((c.usual && c.framework != ""));
    REQUIRE(fit.left.size() >= 2);
    for (const Case& c : cases) {
        CHECK(c.experiment.cluster.host.micro_batch == Seconds(0));
        CHECK(c.experiment.cluster.host.exchange == Seconds(0));
    }
    for (const double error : fit.posterior.rows.errors) CHECK(std::abs(error) < 0.01);
    const std::string text = calibrate_few_shot(both);
    CHECK_THAT(text, Contains("no framework is written: the rows determine none of its costs") &&
                         Contains("kept as in the base"));
    CHECK_FALSE(std::filesystem::exists(folder.path() + "/fitted.framework.toml"));
    CHECK(read_cluster(both.out).host == read_cluster("dgx-a100").host);
    // Rows with exactly the forecast times: the message states the ratio 1. (In milliseconds it
    // would be 1000.)
    std::vector<StepRow> wrong = as_forecast(folder, large_steps());
    CHECK_THAT(complaint([&] { calibrate_few_shot(request(folder, wrong, FitTarget::framework)); }),
               Contains("in the median a measured step is 1 times its forecast"));
}

// These small steps wait for a host that takes 3 ms for a layer's pass. A second fit to two other
// rows of the same host still records the three rows of the first fit.
TEST_CASE("a framework that is fitted again keeps what it was fitted to") {
    const TestFolder folder;
    const std::vector<Override> slow{{"cluster.host.layer", "3 ms"}};
    const auto rows = as_forecast(folder,
                                  {{.id = "a", .hidden = 1024},
                                   {.id = "b", .hidden = 1024, .batches = 3},
                                   {.id = "c", .hidden = 2048, .batches = 2, .model = "gpt-y"}},
                                  slow);
    CalibrationRequest once = request(folder, rows, FitTarget::framework);
    calibrate_few_shot(once);
    const Framework first = read_framework(once.out);
    REQUIRE(first.fitted);
    const auto more = as_forecast(folder,
                                  {{.id = "d", .hidden = 1024, .dp = 4, .batches = 5},
                                   {.id = "e", .hidden = 2048, .batches = 4}},
                                  slow);
    CalibrationRequest again = request(folder, more, FitTarget::framework);
    again.measurements = {folder.write("more.csv", steps_table(more))};
    again.framework = once.out;
    again.out = folder.path() + "/again.toml";
    CHECK_THAT(calibrate_few_shot(again), !Contains("nothing new"));
    const Framework second = read_framework(again.out);
    CHECK(second.fitted->rows.size() == first.fitted->rows.size() + 2);
    CHECK(first.fitted->ranges == std::vector<FittedRange>{{ranks_range, 8, 8}});
    CHECK(second.fitted->ranges == std::vector<FittedRange>{{ranks_range, 4, 8}});
    CHECK(second.fitted->sources == std::vector<std::string>{"more.csv", "steps.csv"});
    CHECK_THAT(second.about, Contains("; costs fitted to 2 steps") && !Contains("3 steps"));
    again.framework = again.out;
    again.out = folder.path() + "/third.toml";
    CHECK_THAT(calibrate_few_shot(again),
               Contains("again was already fitted to 2 of them, among 5: they add nothing new"));
}

// Nobody named the framework of these rows, so it is "default", which may be a slow loop or a tuned
// recipe. After a fit of its costs it counts as the framework that ran.
TEST_CASE("a framework whose costs are fitted is no other one, and rows of two are refused") {
    const TestFolder folder;
    auto rows = as_forecast(folder,
                            {{.id = "a", .hidden = 1024, .framework = "default"},
                             {.id = "b", .hidden = 1024, .batches = 3, .framework = "default"}},
                            {{"cluster.host.layer", "3 ms"}});
    const CalibrationRequest what = request(folder, rows, FitTarget::framework);
    calibrate_few_shot(what);
    CHECK_FALSE(read_framework("default").may_be.empty());
    CHECK(read_framework(what.out).may_be.empty());
    rows[1].framework = "nemo-2";
    CHECK_THAT(complaint([&] { calibrate_few_shot(request(folder, rows, FitTarget::framework)); }),
               Contains("a ran in default, b in nemo-2; expected rows of one framework"));
}

// Five eager steps that take exactly the base's forecasts determine the constants of such passes.
// The fit finds the base's own values: other forecasts move by less than half a percent, the
// threshold for a changed forecast.
TEST_CASE("steps that agree with their base leave its forecasts unmoved") {
    const TestFolder folder;
    std::vector<StepRow> rows{{.id = "a", .hidden = 1024},
                              {.id = "b", .hidden = 2048, .micro_batch = 4},
                              {.id = "c", .hidden = 4096, .tp = 2, .dp = 4},
                              {.id = "d", .hidden = 8192, .batches = 2, .model = "gpt-y"},
                              {.id = "e", .hidden = 2048, .batches = 3, .model = "gpt-y"}};
    std::vector<StepRow> others{{.id = "f", .hidden = 1024, .batches = 4},
                                {.id = "g", .hidden = 4096, .tp = 4, .dp = 4},
                                {.id = "h", .hidden = 8192, .micro_batch = 2}};
    for (auto* some : {&rows, &others})
        for (StepRow& r : *some) r.framework = "default";
    const CalibrationRequest what =
        request(folder, as_forecast(folder, rows), FitTarget::framework);
    calibrate_few_shot(what);
    std::vector<double> before;
    for (const Case& c : cases_of(folder, others)) before.push_back(simulated_step(c.experiment));
    for (StepRow& r : others) r.framework = what.out;
    const std::vector<Case> after = cases_of(folder, others);
    for (std::size_t i = 0; i < after.size(); ++i) {
        REQUIRE(after[i].experiment.framework.fitted);
        CHECK(simulated_step(after[i].experiment) == Approx(before[i]).epsilon(5e-3));
    }
}

// If the base is 20 % off, a fit must be less than 0.8 x 0.2 = 16 % off.
TEST_CASE("a fit is worth leaving its base for where rows left out come a fifth nearer") {
    CHECK(brings_nearer({.by_base = 0.2, .by_others = 0.159}));
    CHECK_FALSE(brings_nearer({.by_base = 0.2, .by_others = 0.161}));
    CHECK_FALSE(brings_nearer({.by_base = 0.2, .by_others = 0.3}));
    CHECK_FALSE(brings_nearer({.by_base = 0, .by_others = 0}));
}

// Ten rows or more are left out in ten folds. The constant cannot move (its prior has no width), so
// the fits predict the same as the base: 1.1 of the measured step of one row and 0.7 of the
// others', with a mean error of (0.1 + 11 x 0.3) / 12.
TEST_CASE("rows left out are held against what the base forecasts of them") {
    const TestFolder folder;
    std::vector<StepRow> rows;
    for (int i = 0; i < 12; ++i)
        rows.push_back({.id = std::string(1, static_cast<char>('a' + i)),
                        .hidden = 4096,
                        .micro_batch = 1 + i % 4,
                        .batches = 1 + i / 4});
    rows = as_forecast(folder, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].seconds /= i == 0 ? 1.1 : 0.7;
    const std::vector<Case> cases = cases_of(folder, rows);
    StepFit fit{{{"kernel.training_gemm", "", 0.9, {0, 1e-6, -1, 1}}}, {}, {}};
    fit.model = step_rows_model(cases, fit.constants);
    fit.posterior =
        most_probable(fit.model, priors_of(fit.constants), std::vector<bool>(12, true), {0});
    const RowsUnseen unseen = rows_unseen(fit, cases);
    CHECK(unseen.by_base == Approx((0.1 + 11 * 0.3) / 12).epsilon(1e-3));
    CHECK(unseen.by_others == Approx(unseen.by_base).epsilon(1e-3));
}

// Steps are alternately a fifth longer and shorter, which no cost explains. The base's costs stay,
// and the file says how far off it is.
TEST_CASE("a base that a fit does not bring nearer to rows left out stays, with its errors") {
    const TestFolder folder;
    std::vector<StepRow> rows{{.id = "a", .hidden = 1024},
                              {.id = "b", .hidden = 2048, .micro_batch = 4},
                              {.id = "c", .hidden = 4096, .tp = 2, .dp = 4},
                              {.id = "d", .hidden = 8192, .batches = 2, .model = "gpt-y"},
                              {.id = "e", .hidden = 2048, .batches = 3, .model = "gpt-y"}};
    for (StepRow& r : rows) r.framework = "default";
    rows = as_forecast(folder, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].seconds *= i % 2 == 0 ? 1.2 : 1 / 1.2;
    const CalibrationRequest what = request(folder, rows, FitTarget::framework);
    CHECK_THAT(calibrate_few_shot(what),
               Contains("costs of the base are kept") &&
                   Contains("framework written to " + what.out) && !Contains("determined") &&
                   Contains("calibrated: nothing") && !Contains("calibrated: steps"));
    const Framework base = read_framework("default"), stays = read_framework(what.out);
    CHECK(stays.rules == base.rules);
    REQUIRE(stays.fitted);
    CHECK(stays.fitted->parameters.empty());
    CHECK_THAT(stays.about, Contains("; costs compared with 5 steps"));
    // The forecast of the three longer rows is 1 / 1.2 - 1 = -17 % off, that of the two others +20
    // %.
    for (const HeldOutError& e : stays.fitted->errors)
        CHECK(e.mape == Approx((3 * (1 - 1 / 1.2) + 2 * 0.2) / 5).epsilon(0.01));
    // left out by model, and fitted; not by ranks, as all ran on 8
    CHECK(stays.fitted->errors.size() == 2);
}

// Ten rows of which four took half as long again as the others say: log 1.5 = 0.41, and no cost
// explains which four. The six others take the base's forecast within 4 %, so the base stays, and 4
// % is what the file says of it. Other rows are forecast as the base forecasts them.
TEST_CASE("rows that most of the others contradict move nothing, and are named") {
    const TestFolder folder;
    std::vector<StepRow> rows = ten_rows();
    rows = as_forecast(folder, rows);
    for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i].seconds *=
            (i % 2 == 0 ? 1.04 : 1 / 1.04) * (i == 0 || i == 3 || i == 5 || i == 8 ? 1.5 : 1);
    for (const FitTarget target : {FitTarget::framework, FitTarget::hardware}) {
        const CalibrationRequest what = request(folder, rows, target);
        const std::string text = calibrate_few_shot(what);
        CHECK_THAT(text,
                   Contains("6 measured steps; ") &&
                       Contains("4 rows are left out, far from what the other 6 agree on: a (") &&
                       Contains(", d (") && Contains(", f (") && Contains(", i ("));
        if (target == FitTarget::framework) {
            CHECK_THAT(text, Contains("costs of the base are kept"));
            const Framework stays = read_framework(what.out);
            REQUIRE(stays.fitted);
            CHECK(stays.fitted->samples == 6);
            CHECK(stays.fitted->errors.back().mape == Approx(0.04).epsilon(0.05));
        } else {
            const Cluster base = read_cluster("dgx-a100"), fitted = read_cluster(what.out);
            CHECK(fitted.kernel.training_gemm == Approx(base.kernel.training_gemm).epsilon(0.04));
            CHECK(fitted.kernel.memory_efficiency ==
                  Approx(base.kernel.memory_efficiency).epsilon(0.04));
        }
    }
    for (StepRow& r : rows) r.seconds /= 1.1;  // all alike: none is left out
    rows = as_forecast(folder, rows);
    CHECK_THAT(calibrate_few_shot(request(folder, rows, FitTarget::hardware)),
               !Contains("left out, far"));
}

// Six of ten rows took from 1.5 to 1.7 times the base's forecast, which no cost explains, and four
// took the forecast: with the six left to themselves a fit would move those four.
TEST_CASE("rows that disagree among themselves do not outvote those near to the base") {
    const TestFolder folder;
    std::vector<StepRow> rows = as_forecast(folder, ten_rows());
    const std::vector<double> slower{1, 1.7, 1.6, 1, 1.5, 1.6, 1, 1.6, 1, 1.7};
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].seconds *= slower[i];
    const CalibrationRequest what = request(folder, rows, FitTarget::framework);
    const std::string text = calibrate_few_shot(what);
    CHECK_THAT(text, Contains("costs of the base are kept: some rows are near to its forecasts"));
    const Framework stays = read_framework(what.out);
    REQUIRE(stays.fitted);
    CHECK(stays.fitted->samples == 10);
    const auto of_base = as_forecast(folder, ten_rows());
    for (StepRow& r : rows) r.framework = what.out;
    const std::vector<Case> after = cases_of(folder, rows);
    for (std::size_t i = 0; i < after.size(); ++i)
        CHECK(simulated_step(after[i].experiment) == of_base[i].seconds);
}

// The base's host takes a tenth of what these rows' host takes for a layer, so that all rows are
// far from the base: six agree on 3 ms within 4 %, four took half as long again. Four that another
// constant explains would be believed, as b, c, g and h by a host that is slower at a micro-batch.
TEST_CASE("wrong rows are told from the others where the base is far from both") {
    const TestFolder folder;
    std::vector<StepRow> rows = ten_rows();
    const auto right = as_forecast(folder, rows, {{"cluster.host.layer", "3 ms"}});
    for (const std::string wrong : {"adfi", "efij", "acdg"}) {
        CAPTURE(wrong);
        rows = right;
        for (std::size_t i = 0; i < rows.size(); ++i)
            rows[i].seconds *= (i % 2 == 0 ? 1.04 : 1 / 1.04) *
                               (wrong.find(rows[i].id) != std::string::npos ? 1.5 : 1);
        const CalibrationRequest what = request(folder, rows, FitTarget::framework);
        const std::string text = calibrate_few_shot(what);
        CHECK_THAT(text, Contains("4 rows are left out, far from what the other 6 agree on"));
        for (const char id : wrong) CHECK_THAT(text, Contains(std::string(1, id) + " ("));
        std::vector<StepRow> others = right;
        for (StepRow& r : others) r.framework = what.out;
        const std::vector<Case> after = cases_of(folder, others);
        for (std::size_t i = 0; i < after.size(); ++i)
            CHECK(simulated_step(after[i].experiment) == Approx(right[i].seconds).epsilon(0.05));
    }
}

TEST_CASE("a fit that is interrupted before its first pass writes nothing") {
    const TestFolder folder;
    CalibrationRequest what = request(
        folder,
        as_forecast(folder,
                    {{.id = "a", .hidden = 1024}, {.id = "b", .hidden = 1024, .batches = 3}},
                    {{"cluster.host.layer", "3 ms"}}),
        FitTarget::framework);
    what.enough = [] { return true; };
    CHECK_THAT(calibrate_few_shot(what),
               Contains("interrupted before the first pass: nothing is written"));
    CHECK_FALSE(std::filesystem::exists(what.out));
    int asked = 0;
    what.enough = [&] { return ++asked > 3; };
    CHECK_THAT(calibrate_few_shot(what),
               Contains("interrupted: the constants are those of the last pass"));
    CHECK(std::filesystem::exists(what.out));
}

// A host that is a little slower than its device falls behind only when the filling of the pipeline
// no longer hides it; then extrapolation from few micro-batches is wrong. One of a series of hosts
// in steps of 4 % shows this; the errors of a fit must be those of whole steps.
TEST_CASE("errors of a fit are those of whole steps, also where a host falls behind late") {
    const TestFolder folder;
    Case what = cases_of(folder, {{.id = "a", .pp = 4, .dp = 1, .batches = 256}}).front();
    double whole = 0, few = 0;
    for (double layer = 0.1e-3; layer < 3e-3 && std::abs(few - whole) <= 0.01 * whole;
         layer *= 1.04) {
        what.experiment.cluster.host.layer = Seconds(layer);
        whole = simulated_step(what.experiment);
        few = step_with_slopes(what, {}, {}).step.si();
    }
    REQUIRE(std::abs(few - whole) > 0.01 * whole);
    CHECK(step_with_slopes(what, {}, {}, true).step.si() == Approx(whole).epsilon(1e-9));
    what.measured_step = Seconds(whole);
    std::vector<Case> cases{what};
    CalibrationRequest asked;
    asked.target = FitTarget::hardware;
    const StepFit fit = fitted_to(cases, asked, {});
    std::vector<double> factors;
    std::vector<std::string> keys;
    for (std::size_t j = 0; j < fit.constants.size(); ++j) {
        keys.push_back(fit.constants[j].key);
        factors.push_back(std::exp(fit.posterior.x[j]));
    }
    const double there = step_with_slopes(cases.front(), keys, factors, true).step.si();
    CHECK(fit.posterior.rows.errors.front() == Approx(std::log(there / whole)).margin(1e-6));
    CHECK(std::abs(fit.posterior.rows.errors.front()) < 0.005);
}

// Two rows of one model whose steps differ by a factor of e: they contradict each other unless one
// of these settings differs.
TEST_CASE("rows of other experts' splits, frameworks, systems or ranks contradict nothing") {
    const TestFolder folder;
    const std::vector<Case> alike = cases_of(folder, {{.id = "a"}, {.id = "b"}});
    Posterior p;
    p.noise = 0.05;
    p.rows.errors = {0, 1};
    CHECK_THAT(contradictions(alike, p), Contains("rows contradict each other: a took "));
    const auto changed = [&](auto change) {
        std::vector<Case> cases = alike;
        change(cases.back().experiment);
        return contradictions(cases, p);
    };
    CHECK_THAT(changed([](Experiment& e) { e.parallelism.ep = 4; }), !Contains("contradict"));
    CHECK_THAT(changed([](Experiment& e) {
                   e.parallelism.sequence_parallel = !e.parallelism.sequence_parallel;
               }),
               !Contains("contradict"));
    CHECK_THAT(changed([](Experiment& e) { e.parallelism.moe_system = MoeSystem::fast_moe; }),
               !Contains("contradict"));
    CHECK_THAT(changed([](Experiment& e) { e.framework.name = "other"; }), !Contains("contradict"));
    CHECK_THAT(changed([](Experiment& e) { e.cluster.nodes *= 2; }), !Contains("contradict"));
}
