#include "calibrate/scatter.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "calibrate/left_out_sources.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "sim/as_run.h"
#include "sim/interval.h"
#include "tests/calibrate/step_rows.h"
#include "tests/truth.h"

using namespace stepcast;
using Catch::Contains;

namespace {

ScatterRow row(const std::string& framework, const std::string& model, double off) {
    ScatterRow r;
    r.what.series = model;
    r.what.experiment.workload.name = model;
    r.what.experiment.framework.name = framework;
    r.what.experiment.cluster.gpu.name = "A100";
    r.what.measured_step = Seconds(std::exp(off));
    r.forecast.step = {Seconds(1), Seconds(1), Seconds(1), Seconds(1)};
    r.off = off;
    return r;
}

double share_inside(const std::vector<BlockErrors>& blocks) {
    double inside = 0, rows = 0;
    for (const BlockErrors& block : blocks) {
        inside += block.inside;
        rows += static_cast<double>(block.errors.size());
    }
    return inside / rows;
}

// Tables of measured steps: neither kernels nor memory.
std::vector<std::string> step_tables() {
    std::vector<std::string> paths;
    for (const auto& file : std::filesystem::directory_iterator(truth_folder())) {
        const std::string name = file.path().filename().string();
        const bool other = name.starts_with("atlas_") || name.starts_with("comm_") ||
                           name.starts_with("gemm") || name.starts_with("kernels_") ||
                           name.ends_with("_memory.csv");
        if (!other && name.ends_with(".csv")) paths.push_back(file.path().string());
    }
    std::ranges::sort(paths);
    return paths;
}

}  // namespace

// Errors of -0.1 .. 0.9 in steps of 0.1, six of one model and five of another, with weights of
// 1 / sqrt(6) and 1 / sqrt(5): a tenth of their sum, 0.47, is one of them but not two. So 0.9 lies
// beyond 0.8, and -0.1 beyond 0.
TEST_CASE("a tenth of a pair's rows lies beyond its scatter on either side") {
    std::vector<ScatterRow> rows;
    for (int i = -1; i <= 9; ++i)
        rows.push_back(row("trainer", "model " + std::to_string(std::abs(i % 2)), 0.1 * i));
    const ScatterTable table = fit_scatter(rows, std::vector<bool>(rows.size(), true));
    REQUIRE(table.groups.size() == 1);
    CHECK(table.groups[0].rows == 11);
    CHECK(table.groups[0].scatter.slower == Approx(0.8).margin(2e-4));
    CHECK(table.groups[0].scatter.faster == Approx(0).margin(2e-4));
    // Constants with p90 = 0.48 explain a part: 0.64^2 + 0.48^2 = 0.8^2.
    for (ScatterRow& r : rows) r.forecast.doubts.constants = 0.48 / p90_of_normal;
    CHECK(fit_scatter(rows, std::vector<bool>(rows.size(), true)).groups[0].scatter.slower ==
          Approx(0.64).margin(2e-4));
}

// Ten rows of one model weigh sqrt(10), a row of another 1, which is more than a tenth of all: the
// next model may be as far off.
TEST_CASE("a model with few rows counts for more than its rows") {
    std::vector<ScatterRow> rows(10, row("trainer", "often", 0));
    rows.push_back(row("trainer", "once", 0.5));
    const ScatterTable table = fit_scatter(rows, std::vector<bool>(rows.size(), true));
    CHECK(table.groups[0].scatter.slower == Approx(0.5).margin(2e-4));
    CHECK(table.groups[0].scatter.faster == 0);
}

// The medians of eleven frameworks are 0, 0.1 .. 1: a tenth of them lies above 0.9 and none below
// 0.
TEST_CASE("a framework that nobody measured is as far off as the medians of frameworks are apart") {
    std::vector<ScatterRow> rows;
    for (int i = 0; i <= 10; ++i)
        for (int n = 0; n < 3; ++n)
            rows.push_back(row("trainer " + std::to_string(i), "model", 0.1 * i));
    const ScatterTable table = fit_scatter(rows, std::vector<bool>(rows.size(), true));
    CHECK(table.frameworks.slower == Approx(0.9));
    CHECK(table.frameworks.faster == 0);
}

TEST_CASE(
    "intervals hold for 72 to 91 % of all published steps, as shipped and by blocks left out "
    "(where shared/truth is)") {
    if (truth_is_absent()) return;
    const std::vector<ScatterRow> rows = scatter_rows(step_tables());
    double inside = 0;
    for (const ScatterRow& r : rows)
        inside += r.forecast.step.p10 <= r.what.measured_step &&
                          r.what.measured_step <= r.forecast.step.p90
                      ? 1
                      : 0;
    inside /= static_cast<double>(rows.size());
    CHECK(inside >= 0.72);
    CHECK(inside <= 0.91);  // rows that the widths have read; those left out are inside less often
    for (const LeftOut by : {LeftOut::model, LeftOut::framework, LeftOut::ranks}) {
        const double share = share_inside(leave_out_scatter(rows, by));
        CAPTURE(static_cast<int>(by), share);
        CHECK(share >= 0.68);
        CHECK(share <= 0.88);
    }
}

namespace {

ScatterRow scatter_row(const std::string& model, int ranks, double off, double gemm_share) {
    ScatterRow r;
    r.what.series = r.what.experiment.workload.name = model;
    r.what.experiment.framework.name = "trainer";
    r.what.experiment.cluster.gpu.name = "A100";
    r.what.experiment.cluster.gpus_per_node = ranks;
    r.what.measured_step = Seconds(std::exp(off));
    r.forecast.step = {Seconds(1), Seconds(1), Seconds(1), Seconds(1)};
    r.forecast.basis = {{"gemm", "", false, gemm_share}, {"collective", "", false, 1 - gemm_share}};
    r.off = off;
    return r;
}

}  // namespace

// Three pairs of one model with equal shares of the step differ by 0.2, 0.3 and 0.5. A fifth of
// three is less than one, so none may lie beyond: `near` is 0.5. Each model counts once: three rows
// of one make three pairs with a weight of a third.
TEST_CASE("pairs of one model on as many ranks tell how far configurations differ") {
    std::vector<ScatterRow> rows{scatter_row("m", 8, 0, 0.5), scatter_row("m", 8, 0.2, 0.5),
                                 scatter_row("m", 8, 0.5, 0.5)};
    const std::vector<bool> all(rows.size(), true);
    CHECK(fit_scatter(rows, all).pairs.near == Approx(0.5).margin(2e-4));
    CHECK(fit_scatter(rows, all).pairs.far == 0);
    CHECK(fit_scatter(rows, {true, true, false}).pairs.near == Approx(0.2).margin(2e-4));
    CHECK(fit_scatter(rows, {false, false, true}).pairs.near == 0);
    rows[2].what.experiment.cluster.gpus_per_node = 4;  // another number of ranks: no pair
    CHECK(fit_scatter(rows, all).pairs.near == Approx(0.2).margin(2e-4));
    // Nine rows of another model make 36 equal pairs with a weight of a ninth. They have a weight
    // of 4 of 4.5 or more, so the other pair may lie beyond.
    for (int i = 0; i < 9; ++i) rows.push_back(scatter_row("n", 8, 0.1, 0.5));
    CHECK(fit_scatter(rows, std::vector<bool>(rows.size(), true)).pairs.near == 0);
    // Shares of products of 0.3 and 0.5 have the distance sqrt(2) x 0.2: 0.5^2 = near^2 + (far x
    // 0.2828)^2, where near is 0.
    std::vector<ScatterRow> apart{scatter_row("m", 8, 0, 0.3), scatter_row("m", 8, 0.5, 0.5)};
    const PairScatter pairs = fit_scatter(apart, {true, true}).pairs;
    CHECK(pairs.near == 0);
    CHECK(pairs.far == Approx(0.5 / (0.2 * std::sqrt(2.0))).margin(1e-3));
    // Below a distance of 0.05 pairs count as near, above it as far.
    CHECK(fit_scatter(
              {scatter_row("m", 8, 0, 0.5), scatter_row("m", 8, 0.5, 0.5 + 0.049 / std::sqrt(2.0))},
              {true, true})
              .pairs.near == Approx(0.5).margin(2e-4));
    CHECK(fit_scatter(
              {scatter_row("m", 8, 0, 0.5), scatter_row("m", 8, 0.5, 0.5 + 0.051 / std::sqrt(2.0))},
              {true, true})
              .pairs.near == 0);
}

// Two rows are too few for a framework's median. Of frameworks at -0.4, 0.1 and 0.2 a tenth lies
// beyond -0.3 and 0.18.
TEST_CASE("frameworks and blocks are counted where rows are enough") {
    std::vector<ScatterRow> rows;
    for (const auto& [name, off, count] :
         {std::tuple{"x", -0.4, 3}, {"y", 0.1, 3}, {"z", 0.2, 4}, {"few", 3.0, 2}})
        for (int i = 0; i < count; ++i) {
            rows.push_back(scatter_row(fmt::format("m{}", i / 2), 8 + i, off, 0.5));
            rows.back().what.experiment.framework.name = name;
        }
    const ScatterTable table = fit_scatter(rows, std::vector<bool>(rows.size(), true));
    CHECK(table.frameworks.faster == Approx(0.3));
    CHECK(table.frameworks.slower == Approx(0.18));
    REQUIRE(table.groups.size() == 4);
    CHECK((table.groups[3].framework == "z" && table.groups[3].rows == 4 &&
           table.groups[3].blocks == 2 && table.groups[3].gpu == "A100"));
}

// Model "a" is predicted from "b" alone and vice versa. A scatter of some hundredths around 0
// includes errors of 0.01, but not of 2.
TEST_CASE("blocks left out are counted inside the intervals of a table without them") {
    std::vector<ScatterRow> rows;
    for (int i = 0; i < 6; ++i)
        rows.push_back(
            scatter_row(i < 3 ? "a" : "b", 8, i == 0 ? 2 : 0.01 * (i % 2 == 0 ? 1 : -1), 0.5));
    const std::vector<BlockErrors> blocks = leave_out_scatter(rows, LeftOut::model);
    REQUIRE(blocks.size() == 2);
    CHECK(blocks[0].left_out == "a");
    CHECK(blocks[0].errors[0] == Approx(-2));
    CHECK(blocks[0].errors[1] == Approx(0.01));
    CHECK(blocks[0].errors[2] == Approx(-0.01));
    const ScatterTable of_b = fit_scatter(rows, {false, false, false, true, true, true});
    int inside = 0;
    for (std::size_t i = 0; i < 3; ++i) {
        Doubts doubts = rows[i].forecast.doubts;
        const Scatter s =
            scatter_of(of_b, rows[i].what.experiment.framework, rows[i].what.experiment.cluster);
        doubts.faster = s.faster;
        doubts.slower = s.slower;
        const Interval reach = predictive_interval(Seconds(1), Seconds(1), doubts);
        CHECK(interval_by(of_b, rows[i]) == reach);
        inside +=
            reach.p10 <= rows[i].what.measured_step && rows[i].what.measured_step <= reach.p90;
    }
    CHECK(blocks[0].inside == inside);
    CHECK(inside < 3);
    CHECK(blocks[1].errors.size() == 3);
    CHECK(leave_out_scatter(rows, LeftOut::device).size() == 1);
}

// Nobody's recipes, of two sources of the framework x: four rows at 0.4 (weight 1 / 2 each) and one
// at 0.8 (weight 1). A tenth of the weight 3 lies beyond no row: the widths reach 0.8 and 0, times
// Student's t of two sources. Rows of a recipe and with a known cause are not among them.
TEST_CASE("steps of those who follow no recipe have widths of their own") {
    std::vector<ScatterRow> rows;
    for (const double off : {0.4, 0.4, 0.4, 0.4, 0.8, -3.0, 5.0}) {
        rows.push_back(row("x", "m", off));
        rows.back().what.source = off == 0.8 ? "second" : "first";
        rows.back().what.circumstances.by = RunBy::anyone;
    }
    rows[5].what.circumstances.by = RunBy::recipe;
    rows[6].what.circumstances.evidence = false;
    const ScatterTable table = fit_scatter(rows, std::vector<bool>(rows.size(), true));
    REQUIRE(table.groups.size() == 1);
    CHECK(table.groups[0].rows == 1);
    REQUIRE(table.classes.size() == 1);
    const ClassScatter& c = table.classes[0];
    CHECK((c.name == "named" && c.rows == 5 && c.sources == 2));
    CHECK(c.scatter.faster == 0);
    CHECK(c.scatter.slower == Approx(0.8 * student_p90(2) / p90_of_normal).margin(1e-3));
    // p50 of such a row is the recipe's
    const Interval i = interval_by(table, rows[4]);
    CHECK(i.p50 == rows[4].forecast.step.p50);
    CHECK(std::log(i.p90 / i.p50) == Approx(c.scatter.slower));
}

// Two sources without a trait are 0.1 too slow, two with experts 0.5. The class is of the former,
// 0.1 times Student's t of two sources; what experts add is the rest of 0.5 in squares, times the
// same. Rows that have a trait alone make a class as well.
TEST_CASE("what is known of a step widens its class") {
    std::vector<ScatterRow> rows;
    for (const char* source : {"a", "b", "c", "d"}) {
        rows.push_back(row("x", "m", rows.size() < 2 ? 0.1 : 0.5));
        ScatterRow& r = rows.back();
        r.what.source = source;
        r.what.circumstances.by = RunBy::anyone;
        r.what.experiment.workload.moe.experts = rows.size() < 3 ? 0 : 8;
        r.what.experiment.cluster.fitted.emplace().parameters = {
            {.key = "kernel.training_gemm", .value = "0.9"}};
    }
    const double t = student_p90(2) / p90_of_normal, plain = 0.1 * t;
    const double added = t * std::sqrt(0.5 * 0.5 - plain * plain);
    const ScatterTable table = fit_scatter(rows, std::vector<bool>(rows.size(), true));
    REQUIRE((table.classes.size() == 1 && table.traits.size() == 2));
    CHECK(table.classes[0].rows == 4);
    CHECK(table.classes[0].scatter.slower == Approx(plain).margin(1e-3));
    const ClassScatter& trait = table.traits[0];
    CHECK((trait.name == "experts" && trait.rows == 2 && trait.sources == 2));
    CHECK(trait.scatter.slower == Approx(added).margin(1e-3));
    CHECK(trait.scatter.faster == 0);
    // no fit reads what a first contact adds
    CHECK(table.traits[1].name == first_contact);
    CHECK(table.traits[1] ==
          *first_with(shipped_scatter().traits, first_contact, &ClassScatter::name));
    const auto reach = [&](std::size_t i) {
        const Interval step = interval_by(table, rows[i]);
        return std::log(step.p90 / step.p50);
    };
    CHECK(reach(0) == Approx(plain).margin(1e-3));
    CHECK(reach(3) == Approx(std::hypot(plain, added)).margin(1e-3));
    const ScatterTable alone = fit_scatter(rows, {false, false, true, true});
    CHECK(alone.classes[0].scatter.slower == Approx(0.5 * t).margin(1e-3));
    CHECK(alone.traits[0].scatter.slower == 0);
}

// The recipe's row counts in its own software for groups, and as anybody's for classes.
TEST_CASE("widths are fitted to recipes as they are and to every source as if it were unknown") {
    std::vector<ScatterRow> shipped{row("x", "m", 0.2), row("x", "m", 0.7)};
    shipped[0].what.circumstances.by = RunBy::recipe;
    shipped[1].what.circumstances.by = RunBy::anyone;
    std::vector<UnseenRow> unseen;
    for (const ScatterRow& r : shipped) unseen.push_back({r, "named"});
    unseen[0].row.what.circumstances.by = RunBy::anyone;
    const std::vector<ScatterRow> all = with_unseen(shipped, unseen);
    REQUIRE(all.size() == 3);
    const ScatterTable table = fit_scatter(all, std::vector<bool>(all.size(), true));
    CHECK((table.groups.size() == 1 && table.groups[0].rows == 1));
    CHECK((table.classes.size() == 1 && table.classes[0].rows == 2));
}

// Two sources in one framework and a third that has one for itself, which is then unnamed. Each is
// left out with all its rows.
TEST_CASE("each source is left out as a whole, and the rest says what to expect of it") {
    const TestFolder folder;
    std::string text = steps_table({{.id = "a", .model = "gpt-x"},
                                    {.id = "b", .micro_batch = 2, .model = "gpt-x"},
                                    {.id = "c", .hidden = 4096, .model = "gpt-y"}});
    const std::string steps = folder.write("steps.csv", text);
    const std::vector<UnseenRow> unseen = rows_of_unseen({steps}, scatter_rows({steps}));
    for (const UnseenRow& r : unseen) CHECK_FALSE(r.kind.empty());
    // forecasts that the shipped ones are taken for are those that would be made
    const std::vector<UnseenRow> anew = rows_of_unseen({steps}, {});
    REQUIRE(anew.size() == unseen.size());
    for (std::size_t i = 0; i < anew.size(); ++i) {
        CHECK(anew[i].row.forecast.step.p50 == unseen[i].row.forecast.step.p50);
        CHECK(anew[i].row.forecast.basis == unseen[i].row.forecast.basis);
        CHECK(anew[i].kind == unseen[i].kind);
    }
    CHECK(complaint([&] {
              cross_validate_scatter({steps}, LeftOut::source);
          }).starts_with("--cross-validate source: the rows have one source only"));
}

// Of the sources above, each is forecast by the other: nobody knows more than one source, so its
// width is multiplied by Student's t of one. The medians stay. A row that its device was fitted to
// stays a fitted one.
TEST_CASE("a row left out has the interval of the other sources, and says what has read it") {
    std::vector<ScatterRow> shipped;
    std::vector<UnseenRow> unseen;
    for (const double off : {0.4, 0.4, 0.8}) {
        shipped.push_back(row("x", "m", off));
        shipped.back().what.source = off == 0.8 ? "second" : "first";
        shipped.back().what.circumstances.by = RunBy::anyone;
        shipped.back().what.evidence = unseen.empty() ? Evidence::fitted : Evidence::seen;
        unseen.push_back({shipped.back(), "named"});
    }
    const std::vector<LeftOutRow> rows = left_out_rows(shipped, unseen);
    REQUIRE(rows.size() == 3);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const Interval& step = rows[i].of.forecast->step;
        CHECK(rows[i].kind == "named");
        CHECK(rows[i].of.what.source == shipped[i].what.source);
        CHECK(step.p50 == Seconds(1));
        CHECK(std::log(step.p90 / step.p50) ==
              Approx((i == 2 ? 0.4 : 0.8) * student_p90(1) / p90_of_normal).margin(2e-3));
        CHECK(*rows[i].of.what.evidence == (i == 0 ? Evidence::fitted : Evidence::unseen));
    }
    // e^-0.4 and e^-0.8 are 33 and 55 % too fast
    const std::string text = left_out_tables(rows);
    CHECK_THAT(text, Contains("by device, sources left out") && Contains("by software"));
    CHECK_THAT(text, Contains("first ") && Contains("-33.0 %") && Contains("-55.1 %"));
    unseen.pop_back();
    CHECK_THROWS_AS(left_out_rows(shipped, unseen), ConfigError);
}

TEST_CASE("scatter is written with its sources, from tables of steps alone") {
    const TestFolder folder;
    std::vector<StepRow> rows{{.id = "a", .model = "gpt-x"},
                              {.id = "b", .micro_batch = 2, .model = "gpt-x"},
                              {.id = "c", .hidden = 4096, .model = "gpt-y"},
                              {.id = "no", .device = "Abacus 9"}};
    const std::string steps = folder.write("steps.csv", steps_table(rows)),
                      kernels = folder.write("gemms.csv",
                                             "gpu,m,n,k,dtype,time_us\nA100,64,64,64,bf16,9\n"),
                      out = folder.path() + "/scatter.toml";
    const std::vector<ScatterRow> read = scatter_rows({steps, kernels});
    REQUIRE(read.size() == 3);
    for (const ScatterRow& r : read) CHECK(r.off == Approx(std::log(1 / r.forecast.step.p50.si())));
    const std::string text = calibrate_scatter({steps, kernels}, out, "2026-02-03");
    CHECK_THAT(
        text, Contains("scatter of 3 steps in 1 pairs of framework and device written to " + out) &&
                  Contains("left out by model"));
    const ScatterTable table = read_scatter(out);
    CHECK(table.date == "2026-02-03");
    CHECK(table.sources == std::vector<std::string>{"steps.csv"});
    CHECK(table.groups.at(0).rows == 3);
    CHECK_THAT(cross_validate_scatter({steps}, LeftOut::model),
               Contains("gpt-x") && Contains("gpt-y"));
    CHECK(complaint([&] { cross_validate_scatter({steps}, LeftOut::ranks); }) ==
          "--cross-validate ranks: the rows have one ranks only; expected two or more");
    CHECK(complaint([&] { scatter_rows({kernels}); }) ==
          "calibrate: no row of these files states a step that can be predicted");
}

// Steps of a host that takes 3 ms for a layer's pass, and of another model with twice such steps. A
// fit to the first model's three rows is off by log 2 on the others, which are slower. The other
// model's two rows are too few for a fit. Rows of a single model say nothing.
TEST_CASE("fits to one model's rows tell how far others are off") {
    const TestFolder folder;
    std::vector<StepRow> rows{{.id = "a", .hidden = 1024},
                              {.id = "b", .hidden = 1024, .batches = 3},
                              {.id = "c", .hidden = 2048, .batches = 2},
                              {.id = "d", .hidden = 1024, .batches = 2, .model = "gpt-y"},
                              {.id = "e", .hidden = 2048, .batches = 3, .model = "gpt-y"}};
    for (StepRow& r : rows) r.framework = "default";
    std::vector<Case> cases = cases_of(folder, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        set_key(cases[i].experiment, {"cluster.host.layer", "3 ms"});
        rows[i].seconds = simulated_step(cases[i].experiment) * (rows[i].model == "gpt-y" ? 2 : 1);
    }
    const auto found_in = [&](const char* name) {
        const std::vector<std::string> files{folder.write(name, steps_table(rows))};
        return few_shot_scatter(files, scatter_rows(files));
    };
    // rows of nobody's named framework are no evidence of one
    CHECK(found_in("unnamed.csv") == Scatter{});
    for (StepRow& r : rows) r.framework = "megatron-lm";
    const Scatter found = found_in("steps.csv");
    CHECK(found.slower == Approx(std::log(2.0)).epsilon(0.1));
    CHECK(found.faster == 0);
    rows.resize(3);
    CHECK(found_in("one.csv") == Scatter{});
}
