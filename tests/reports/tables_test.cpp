#include <cmath>
#include <sstream>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/experiment.h"
#include "model/framework.h"
#include "model/input/presets.h"
#include "reports/compare_page.h"
#include "reports/comparison_tables.h"
#include "reports/comparison_words.h"
#include "reports/forecast_tables.h"
#include "reports/list_tables.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using samples::compared;
using samples::golden;

namespace {

std::size_t widest_line(const std::string& text) {
    std::istringstream lines(text);
    std::size_t widest = 0;
    for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
    return widest;
}

std::vector<Comparison> comparisons() {
    std::vector<Comparison> all{
        compared("moe_layer_bench-1-mix_moe-4", "mix_moe", 18.578, 19.1, 16.8, 21.4),
        compared("moe_layer_bench-4-fast_moe-4", "fast_moe", 39.043, 45, 40.1, 49.9),
        compared("own_run", "mlp", 12, 12.3, 12.3, 12.3),
        samples::refused("gpt-175b",
                         "model: \"gpt-175b\" is not supported; expected a preset experiment: "
                         "host_moe, moe_layer_fast_moe, moe_layer_mix_moe")};
    for (std::size_t i : {0u, 1u}) all[i].what.experiment.cluster = samples::fitted_cluster();
    all[0].what.evidence = Evidence::fitted;
    all[1].what.evidence = Evidence::seen;
    all[0].what.measured_forward = Seconds(8.521e-3);
    all[0].what.measured_backward = Seconds(10.018e-3);
    all[0].forecast->forward.p50 = Seconds(9e-3);
    all[0].forecast->backward.p50 = Seconds(10e-3);
    all[0].what.assumptions =
        all[1].what.assumptions = {"routing not recorded: random-gate, 200 draws"};
    return all;
}

}  // namespace

TEST_CASE("A forecast begins with the step and keeps its text") {
    const std::string text = forecast_table(samples::forecast());
    CHECK(
        text.starts_with("step 22.25 ms   p10..p90 20.10 .. 25.32 ms, mean 22.60 ms, 200 draws\n"));
    CHECK(text == golden("forecast.txt", text));
    CHECK(widest_line(text) <= table_width);
}

// 96 GiB and 0.5 GiB of context into 80 GiB: 16.5 GiB too much; without overheads 16.
TEST_CASE("A forecast that does not fit says by how much, and an uncalibrated one says so") {
    Forecast f = samples::forecast();
    f.calibrated = false;
    f.draws = 1;
    f.step = {Seconds(0.02), Seconds(0.02), Seconds(0.02), Seconds(0.02)};
    f.memory.peak = Bytes(96 * 1073741824.0);
    f.memory.fits = false;
    const std::string text = forecast_table(f);
    CHECK(text.starts_with("step 20.00 ms\n"));
    CHECK(text.find("UNCALIBRATED") != std::string::npos);
    CHECK(text.find("96.00 GiB, with context and allocator 96.50 GiB of 80.00 GiB: DOES NOT FIT, "
                    "16.50 GiB too much") != std::string::npos);
    f.memory.overheads = Bytes(0);
    CHECK(forecast_table(f).find("96.00 GiB of 80.00 GiB: DOES NOT FIT, 16.00 GiB too much") !=
          std::string::npos);
    CHECK(text.find("draws") == std::string::npos);
}

// 62 % of the step are two costs of the host that nothing measured on this device; 3 % of priors
// would not be worth a word.
TEST_CASE("A forecast says how much of its step rests on priors") {
    Forecast f = samples::forecast();
    f.basis = {{"host", "host.module_forward", false, 0.5},
               {"GEMM", "kernel.gemm_efficiency", true, 0.38},
               {"host", "host.schedule", false, 0.12}};
    CHECK(prior_share(f) == Approx(0.62));
    CHECK(calibrated_text(f) ==
          "calibrated for 38 % of the step, the rest rests on priors: host 62 %");
    f.basis = {{"GEMM", "kernel.gemm_efficiency", true, 0.97}, {"host", "host.call", false, 0.03}};
    CHECK(calibrated_text(f) == "calibrated");
    f.calibrated = false;
    CHECK(calibrated_text(f).starts_with("UNCALIBRATED"));
    f.maker = "AMD";
    CHECK_THAT(calibrated_text(f), Catch::Contains("as NVIDIA's: no machine of AMD is measured"));
}

namespace {

// Broken lines made whole again.
std::string unwrapped(const std::string& text) {
    std::string whole;
    for (const char c : text)
        if (c != ' ' && c != '\n')
            whole += c;
        else if (whole.empty() || whole.back() != ' ')
            whole += ' ';
    return whole;
}

}  // namespace

// 2048 J a step of half a second on four GPUs at 2048 tokens/s: 2 J for each of 1024 tokens, 1024 W
// a GPU. An interval of log 1.25 to the quicker and log 1.5 to the slower side is -20 .. +50 %;
// constants, whose p90 lies 1.2816 standard deviations out, of log 1.25 -20 .. +25 %.
TEST_CASE("A forecast tells its energy, its framework and what its interval is made of") {
    Forecast f = samples::forecast();
    f.step.p50 = Seconds(0.5);
    f.tokens_per_second = 2048;
    f.energy = Joules(2048);
    f.framework = "own";
    CHECK_THAT(
        forecast_table(f),
        Catch::Contains("\nenergy of the boards 2.05 kJ a step, 2.00 J a token; 1024 W a GPU\n") &&
            Catch::Contains(", framework own, "));
    f.framework_steps = 13;
    CHECK_THAT(forecast_table(f), Catch::Contains(", framework own (fitted to 13 steps), "));
    f.framework = default_framework;
    CHECK_THAT(forecast_table(f),
               Catch::Contains(std::string(default_framework) + " (none named), "));
    f.energy = Joules(0.5);
    CHECK_THAT(forecast_table(f), Catch::Contains("energy of the boards 0.5 J a step"));
    f.energy = {};
    CHECK_THAT(forecast_table(f), !Catch::Contains("energy"));
    f.doubts.faster = std::log(1.25);
    f.doubts.slower = std::log(1.5);
    f.doubts.constants = std::log(1.25) / 1.2815515655446004;
    CHECK_THAT(forecast_table(f, false), !Catch::Contains("interval: "));
    const std::string plain =
        "interval: steps of this framework and device that no fit has read -20 .. +50 %; constants "
        "-20 .. +25 %";
    CHECK_THAT(unwrapped(forecast_table(f, true)),
               Catch::Contains(plain + " ") && !Catch::Contains("; draws"));
    f.doubts.draws_slower = std::log(1.3);
    f.doubts.readings = {{"recompute not stated: full", 1.17}};
    CHECK_THAT(unwrapped(forecast_table(f, true)),
               Catch::Contains(plain + "; draws -0 .. +30 %; recompute not stated: full: +17 %"));
    f.doubts.draws_faster = std::log(2.0);
    f.doubts.draws_slower = 0;
    CHECK_THAT(unwrapped(forecast_table(f, true)), Catch::Contains("; draws -50 .. +0 %;"));
}

TEST_CASE("A forecast of nothing prints no figures that are not numbers") {
    const std::string text = forecast_table(Forecast{});
    CHECK(text.find("nan") == std::string::npos);
    CHECK(text.find("inf") == std::string::npos);
}

// AG on two ranks: 1.9 and 1.7 ms, busiest 1.9, average 1.8. GA 2.1 ms comes first.
TEST_CASE("Kernels are listed longest first with busiest and average rank") {
    const std::string text = kernel_table(samples::forecast());
    CHECK(text.find("1.90 ms      1.80 ms      2\n") != std::string::npos);
    CHECK(text.find("GA") < text.find("AG"));
    const Table table = kernel_times(samples::forecast());
    CHECK(table.columns == std::vector<Column>{{"kernels", 39, true},
                                               {"phase", 13, true},
                                               {"busiest rank", 12},
                                               {"average", 11},
                                               {"ranks", 5}});
    REQUIRE(table.rows.size() == 2);
    std::vector<std::string> texts;
    for (const Cell& cell : table.rows[1]) texts.push_back(cell.text);
    CHECK(texts == std::vector<std::string>{"AG", "forward", "1.90 ms", "1.80 ms", "2"});
}

TEST_CASE(
    "A comparison shows every case, what was refused and what the clusters were fitted from") {
    const std::string text = comparison_table(comparisons());
    CHECK(text == golden("comparison.txt", text));
    CHECK(widest_line(text) <= table_width);
}

TEST_CASE("A comparison with very long names stays within its width") {
    std::vector<Comparison> all = comparisons();
    all[0].what.case_id = std::string(90, 'n');
    all[1].what.case_id = "a_name_that_is_longer_than_its_column_but_not_the_table";
    CHECK(widest_line(comparison_table(all)) <= table_width);
}

TEST_CASE("A comparison of which everything was refused says so") {
    CHECK(comparison_table({samples::refused("r", "no preset")})
              .find("0 of 1 cases predicted, 1 refused\n") != std::string::npos);
}

TEST_CASE("A comparison of no case at all says so") {
    CHECK(comparison_table({}).starts_with(
        "no cases: the input has a header and no rows; nothing was compared\n"));
    CHECK(markdown_of(compare_page("t", {"a.csv"}, {}, {})).find("no cases: ") !=
          std::string::npos);
}

// 11 of 10 GB: 10 %.
TEST_CASE("A comparison with measured peaks sums up their errors") {
    Comparison c = compared("a", "s", 100, 110, 95, 120);
    c.what.measured_peak = Bytes(10e9);
    c.forecast->memory.peak = Bytes(11e9);
    CHECK(comparison_table({c}).find("peak memory of 1 cases: mean error 10.0 %\n") !=
          std::string::npos);
}

// A reason with a comma and quotes is one field.
TEST_CASE("Comma-separated values quote what needs it") {
    const std::string text = comparison_csv(
        {compared("a", "s", 100, 110, 95, 120), samples::refused("r", "model \"x\", unknown")});
    CHECK(text ==
          "source,case_id,series,measured_s,predicted_s,p10_s,p90_s,error,evidence,cluster,ranks,"
          "refused_because\n"
          "measurements,a,s,0.1,0.11,0.095,0.12,0.1,,plain-x4,1,\n"
          "cases.csv,r,dense,,,,,,,,,\"model \"\"x\"\", unknown\"\n");
}

// Median of the accepted 10, 12, 11 ms.
TEST_CASE("A measurement begins with the median of its accepted steps and shows its doubts") {
    const std::string text = measurement_table("host_moe", samples::measurement());
    CHECK(text.starts_with("step 11.00 ms   median of 3 accepted of 4 steps, 3 warm-up\n"));
    CHECK(text == golden("measurement.txt", text));
    CHECK(measurement_table("host_moe", Measurement{}).find("no step was finished") !=
          std::string::npos);
}

TEST_CASE("Presets are listed with what they say") {
    Experiment e;
    e.name = "moe_layer_mix_moe";
    e.workload.hidden = 1024;
    e.workload.ffn = 4096;
    e.workload.moe.experts = 64;
    e.cluster = samples::fitted_cluster();
    Cluster host;
    host.name = "host";
    host.gpu.name = "host CPU";
    const std::string text =
        presets_table({{e}, {"moe_layer"}, {"llama"}, {}, {e.cluster, host}, {"h20-x8", "l4-x8"}});
    CHECK(text == golden("presets.txt", text));
}

TEST_CASE("A summary says which figures a fit has seen and shows the plots") {
    Page page = compare_page("stepcast demo", {"runs/bench.csv", "own.csv"}, comparisons(), {});
    page.sections.front().plots = {"recorded/scatter.png"};
    page.sections.push_back({.title = "Plots only", .plots = {"a_b.png"}});
    const std::string text = markdown_of(page);
    CHECK(text == golden("summary.md", text));
}

// 18.44 s and 9.1966 s: both in seconds, and what is beside them too.
TEST_CASE("the times of a table have one unit") {
    const auto column = [](std::initializer_list<double> seconds) {
        Table table{"", {{"time"}}, {}};
        for (const double s : seconds) table.rows.push_back({time_cell(Seconds(s))});
        return text_of(table);
    };
    CHECK(column({9.1966, 18.44}) == "   time\n9.197 s\n18.44 s\n");
    CHECK(column({0.02, 18.44}) == "    time\n0.0200 s\n 18.44 s\n");
    CHECK(column({0.02, 0}) == "    time\n20.00 ms\n 0.00 ms\n");
    Table ranges{"", {{"p10 .. p90"}, {"time"}}, {}};
    ranges.rows = {{range_cell({{}, Seconds(9.5), {}, Seconds(9.9)}), time_cell(Seconds(12))}};
    CHECK(markdown_of(ranges).find("| 9.500 .. 9.900 s | 12.00 s |") != std::string::npos);
    CHECK(range_text({{}, Seconds(9.9), {}, Seconds(10.2)}) == "9.900 .. 10.20 s");
    CHECK(joules_text(Joules(4.78e6)) == "4.78 MJ");
    CHECK(joules_text(Joules(302e3)) == "302 kJ");
    CHECK(joules_text(Joules(2.3)) == "2.30 J");
    CHECK(short_value("0.29999999999999999 GB/s") == "0.3 GB/s");
    CHECK(short_value("adam") == "adam");
}

TEST_CASE("Figures carry four digits and a unit that fits") {
    CHECK(time_text(Seconds(0)) == "0.00 ms");
    CHECK(time_text(Seconds(1e-18)) == "0.00 ms");
    CHECK(time_text(Seconds(1.2345e-5)) == "0.0123 ms");
    CHECK(time_text(Seconds(0.0316)) == "31.60 ms");
    CHECK(time_text(Seconds(9.9999)) == "9999.9 ms");
    CHECK(time_text(Seconds(10)) == "10.00 s");
    CHECK(time_text(Seconds(std::nan(""))) == "n/a");
    CHECK(bytes_text(Bytes(1023)) == "1023 B");
    CHECK(bytes_text(Bytes(1024)) == "1.0 KiB");
    CHECK(bytes_text(Bytes(1.5 * 1073741824)) == "1.50 GiB");
    CHECK(count_text(1234567.4) == "1,234,567");
    CHECK(count_text(123) == "123");
    CHECK(count_text(-1234) == "-1,234");
    CHECK(range_text({Seconds(), Seconds(9.5), Seconds(), Seconds(11)}) == "9.500 .. 11.00 s");
}

// 60 + 1 + 60 letters: the second word no longer fits into 110 columns.
TEST_CASE("Long lines are broken at spaces and indented") {
    CHECK(wrapped("short") == "short\n");
    CHECK(wrapped(std::string(60, 'a') + " " + std::string(60, 'b'), 4) ==
          std::string(60, 'a') + "\n    " + std::string(60, 'b') + "\n");
    CHECK(wrapped(std::string(130, 'a') + " b") == std::string(130, 'a') + "\n  b\n");
}

// The errors stand in the file since its fit, and laws have moved: no sentence gives one without
// the day and whose it is.
TEST_CASE("errors of a shipped fit are told with its day, as those of the program of that day") {
    int told = 0;
    for (const std::string& name : preset_names(PresetKind::cluster)) {
        const Cluster cluster = read_cluster(name);
        if (!cluster.fitted || cluster.fitted->errors.empty()) continue;
        INFO(name);
        const std::string text = provenance_text(cluster);
        const auto day = text.find("fitted " + cluster.fitted->date.substr(0, 10)),
                   errors = text.find(" errors by the program of that day (mean, worst): "),
                   first = text.find('%');
        CHECK(day == cluster.name.size() + std::string("cluster : ").size());
        CHECK((first == text.npos || (day < errors && errors < first)));
        told += first != text.npos;
    }
    CHECK(told >= 5);
}
