#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "reports/sweep_page.h"
#include "reports/sweep_plots.h"
#include "tests/reports/samples.h"
#include "tests/reports/sweeps.h"

using namespace stepcast;
using Catch::Contains;
using samples::number_after;
using samples::script_of;

namespace {

std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

std::string map_script(const SweepAnswer& answer) {
    return script_of("map", [&](const std::string& path) { plot_heat_map(answer, path); });
}

std::vector<std::string> numbers_below(std::size_t count) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(std::to_string(i));
    return all;
}

// Columns x rows, all of one second but the first.
SweepAnswer with_map(std::size_t columns, std::size_t rows, double first = 2) {
    SweepAnswer answer = sample_sweep();
    answer.map->columns = numbers_below(columns);
    answer.map->rows = numbers_below(rows);
    answer.map->step.assign(columns * rows, Seconds(1));
    answer.map->step[0] = Seconds(first);
    return answer;
}

SweepRow row_of(std::vector<std::pair<std::string, std::string>> settings, int ranks, double p10,
                double p50, double p90) {
    SweepRow row{.settings = std::move(settings),
                 .step = Seconds(p50),
                 .lower = {},
                 .estimate = {},
                 .peak = {}};
    row.ranks = ranks;
    row.tokens_per_second = 4096 / p50;
    row.forecast.step = {row.step, Seconds(p10), Seconds(p50), Seconds(p90)};
    return row;
}

// The number in a cell.
std::string label(int tag, const std::string& number, const std::string& at,
                  const std::string& colour) {
    return "set label " + std::to_string(tag) + " \"" + number + "\" at " + at +
           " center front font ',15' textcolor '" + colour + "'\n";
}

}  // namespace

TEST_CASE("a sweep's folder has its tables and the plots that it allows") {
    const std::string folder = samples::temporary_folder("sweep_plots");
    CHECK(plot_sweep(sample_sweep(), folder) == std::vector<std::string>{"map.png"});
    SweepAnswer answer = sample_sweep();
    answer.second = Objective::memory;
    answer.scaling = answer.best;
    answer.scaling[1].ranks = 16;
    write_sweep(folder, answer);
    for (const char* plot : {"map", "front", "scaling"}) {
        CHECK(std::filesystem::file_size(folder + "/" + plot + ".png") > 5000);
        CHECK_THAT(text_of(folder + "/summary.md"),
                   Catch::Contains(std::string("(") + plot + ".png)"));
    }
    // the cell without a feasible configuration has no number; the others in milliseconds
    const std::string map = text_of(folder + "/map.svg");
    for (const char* number : {">300<", ">100<", ">200<"}) CHECK_THAT(map, Catch::Contains(number));
    CHECK_THAT(text_of(folder + "/scaling.svg"), Catch::Contains("p10..p90"));
    CHECK_THAT(text_of(folder + "/front.svg"), Catch::Contains("peak memory of a rank [GiB]"));
    CHECK_THAT(text_of(folder + "/top.csv"),
               Catch::StartsWith("parallelism.tp,parallelism.zero,step_s,") &&
                   Catch::Contains("\n2,1,0.1,0.05,0.125,"));
}

TEST_CASE("a sweep has no plots of what it lacks") {
    SweepAnswer answer = sample_sweep();
    answer.map = {};
    for (const auto plot : {plot_heat_map, plot_front, plot_scaling, plot_series})
        CHECK_FALSE(plot(answer, "nowhere/plot"));
    CHECK(plot_sweep(answer, "nowhere").empty());
}

// Rows of a map lie above each other, its columns beside: value (column, row). Numbers are white
// above the middle of the logarithmic axis, sqrt(125 x 500) = 250 ms, else nearly black
// Ticks are 1, 2, 5 of a decade: of 125 to 500 only two, so finer ones.
TEST_CASE("a map has a cell for each pair of values, and its number where it has one") {
    SweepAnswer answer = sample_sweep();
    answer.map->columns = {"0", "1", "2"};
    answer.map->step = {Seconds(0.5), Seconds(0.125), Seconds(0.25),
                        Seconds(),    Seconds(0.375), Seconds(0.25)};
    const std::string script = map_script(answer);
    CHECK_THAT(script,
               Contains("$map << e\n0 0 500\n1 0 125\n2 0 250\n0 1 nan\n1 1 375\n2 1 250\ne\n"));
    CHECK_THAT(script, Contains(label(100, "500", "0,0", "#ffffff")) &&
                           Contains(label(101, "125", "1,0", "#101010")) &&
                           Contains(label(102, "250", "2,0", "#101010")) &&
                           !Contains("set label 103") &&
                           Contains(label(104, "375", "1,1", "#ffffff")) &&
                           Contains(label(105, "250", "2,1", "#101010")));
    CHECK_THAT(script, Contains("set xrange [-0.5:2.5]\nset yrange [-0.5:1.5]") &&
                           Contains("set xtics (\"0\" 0,\"1\" 1,\"2\" 2)") &&
                           Contains("set ytics (\"2\" 0,\"4\" 1)"));
    CHECK_THAT(script, Contains("cbtics ('150' 150,'200' 200,'300' 300,'400' 400,'500' 500)") &&
                           Contains("set cblabel 'step [ms]'"));
    CHECK_THAT(script, Contains("gpt: shortest step of each parallelism.tp and parallelism.zero") &&
                           Contains("by the closed form") && Contains("cluster dgx (fitted)"));
    answer.map->simulated = true;
    answer.calibrated = false;
    CHECK_THAT(map_script(answer), Contains("empty: nothing feasible beyond the memory margin") &&
                                       Contains(", simulated;") && Contains("(uncalibrated)"));
}

// Times of a token become tokens/s: 1/4 s 4, 1/16 s 16.0, 1/128 s 128, 1/2048 s 2.05 k, 2^-21
// s 2.10 M. Here many are good, so the colours are turned round: few are dark with white numbers,
// below sqrt(4 x 2^21) = 2896.
TEST_CASE("a map of tokens shows rates, in three figures") {
    SweepAnswer answer = with_map(5, 1);
    answer.map->of_token = true;
    answer.map->step = {Seconds(0.25), Seconds(1.0 / 16), Seconds(1.0 / 128), Seconds(1.0 / 2048),
                        Seconds(1.0 / 2097152)};
    const std::string script = map_script(answer);
    CHECK_THAT(script, Contains(label(100, "4.00", "0,0", "#ffffff")) &&
                           Contains(label(101, "16.0", "1,0", "#ffffff")) &&
                           Contains(label(102, "128", "2,0", "#ffffff")) &&
                           Contains(label(103, "2.05 k", "3,0", "#ffffff")) &&
                           Contains(label(104, "2.10 M", "4,0", "#101010")));
    CHECK_THAT(script, Contains("cbtics ('5.00' 5,'10.0' 10,'20.0' 20,'50.0' 50,'100' 100,'200' "
                                "200,'500' 500,'1.00 k' 1000,'2.00 k' 2000,") &&
                           Contains("'1.00 M' 1e+06,'2.00 M' 2e+06)"));
    CHECK_THAT(script, Contains("set cblabel 'throughput [tokens/s]'") &&
                           Contains("gpt: most tokens/s of each"));
}

// From one second on all are in s. Of 1 to 2 s 1, 1.5 and 2 are ticks; of 1.1 to 1.4 s none is, so
// five at equal ratios: the second is 1.1 x (1.4 / 1.1)^(1/4) = 1.168. A map of 14 x 18 cells has
// room for numbers; of 32 values every second is named.
TEST_CASE("a map names as much as has room") {
    CHECK_THAT(map_script(with_map(14, 18)), Contains("set label 100 ") &&
                                                 Contains("cblabel 'step [s]'") &&
                                                 Contains("cbtics ('1.00' 1,'1.50' 1.5,'2.00' 2)"));
    CHECK_THAT(map_script(with_map(15, 18)), !Contains("set label 100 "));
    CHECK_THAT(map_script(with_map(14, 19)), !Contains("set label 100 "));
    CHECK_THAT(map_script(with_map(31, 2)), Contains("\"29\" 29,\"30\" 30)"));
    CHECK_THAT(map_script(with_map(32, 2)),
               Contains("set xtics (\"0\" 0,\"2\" 2,") && Contains(",\"30\" 30)"));
    SweepAnswer close = with_map(2, 1, 1.4);
    close.map->step[1] = Seconds(1.1);
    const std::string script = map_script(close);
    CHECK_THAT(script, Contains("cbtics ('1.10' 1.1,'1.17' 1.168") && Contains(",'1.24' 1.240") &&
                           Contains(",'1.32' 1.318") && Contains(",'1.40' 1.4)"));
}

// 4 and 2 GiB at 0.1 and 0.2 s; a millionth of a unit a token is 1 a million tokens.
TEST_CASE("a front has the two objectives of each of its configurations") {
    SweepAnswer answer = sample_sweep();
    const auto front = [&](Objective first, Objective second) {
        answer.objective = first;
        answer.second = second;
        return script_of("front", [&](const std::string& path) { plot_front(answer, path); });
    };
    const std::string memory = front(Objective::step, Objective::memory);
    CHECK_THAT(memory, Contains("$front << e\n0.1 4\n0.2 2\ne\n") &&
                           Contains("2 of 7 feasible configurations: no other"));
    CHECK_THAT(memory,
               Contains("set xlabel \"step [s]\"\nset ylabel \"peak memory of a rank [GiB]\"") &&
                   Contains("gpt: Pareto front of step and memory"));
    answer.best[0].cost_per_token = 0.25e-6;
    answer.best[1].cost_per_token = 0.5e-6;
    answer.best[0].tokens_per_second = 64;
    answer.best[1].tokens_per_second = 32;
    const std::string cost = front(Objective::tokens, Objective::cost);
    CHECK_THAT(cost, Contains("$front << e\n64 0.25\n32 0.5\ne\n") &&
                         Contains("set xlabel \"throughput [tokens/s]\"\nset ylabel \"cost of a "
                                  "million tokens [currency "
                                  "of the price]\""));
}

// 4096 tokens a step. 8 ranks: 4096 / 0.125 s = 32768 tokens/s, 65536 at p10 and 26214.4 at p90; 32
// ranks: 65536, 131072 and 52428.8, half of what each of the 8 does; four times as many would be
// 131072. Of 21845 to 157286 only 50 and 100 k are 1, 2 or 5 of a decade, so finer ticks.
TEST_CASE("a curve of ranks has its interval and what growth in proportion would give") {
    SweepAnswer answer = sample_sweep();
    answer.scaling = {row_of({}, 8, 0.0625, 0.125, 0.15625),
                      row_of({}, 32, 0.03125, 0.0625, 0.078125)};
    const auto curve = [&] {
        return script_of("scaling", [&](const std::string& path) { plot_scaling(answer, path); });
    };
    const std::string script = curve();
    CHECK_THAT(
        script,
        Contains("$curve << e\n8 32768 26214.4 65536 32768\n32 65536 52428.8 131072 131072\ne\n"));
    CHECK_THAT(script, Contains("each of 32 ranks does 50.0 % of what each of 8 does\"") &&
                           Contains("set xtics (8,32)"));
    CHECK_THAT(script, Contains("set ytics ('30.0 k' 30000,'40.0 k' 40000,'50.0 k' 50000,'60.0 k' "
                                "60000,'80.0 k' 80000,'100 k' 100000,'150 k' 150000)"));
    CHECK(number_after(script, "set xrange [") == Approx(8 / 1.15));
    CHECK_THAT(script, Contains(":36.8]"));  // 32 x 1.15
    CHECK(number_after(script, "]\nset yrange [") == Approx(26214.4 / 1.2));
    CHECK_THAT(script, Contains(":157286.4]") && Contains("using 1:3:4 with filledcurves"));
    for (SweepRow& row : answer.scaling)
        row.forecast.step = {row.step, row.step, row.step, row.step};
    CHECK_THAT(curve(), Contains("no interval: routing.draws is 1") && !Contains("filledcurves") &&
                            !Contains("p10..p90"));
}

// The first key whose values are all numbers lies along x, the others name the lines. 2 to 16 is
// more than fourfold: a log axis and 4 % of its length beyond; 2 to 8 is not, and 4 % of 6 beyond.
TEST_CASE("the best of each setting is a line for each name") {
    SweepAnswer answer = sample_sweep();
    answer.each_of = {"workload.dtype", "parallelism.dp", "parallelism.tp"};
    const auto row = [](const char* dtype, const char* dp, const char* tp, double p10, double p50,
                        double p90) {
        return row_of({{"parallelism.tp", tp}, {"workload.dtype", dtype}, {"parallelism.dp", dp}},
                      1, p10, p50, p90);
    };
    answer.of_each = {
        row("fp8", "2", "1", 0.125, 0.25, 0.5), row("bf16", "4", "1", 0.25, 0.375, 0.5),
        row("bf16", "16", "1", 0.0625, 0.09375, 0.125), row("bf16", "2", "4", 0.25, 0.375, 0.5)};
    const auto series = [&] {
        return script_of("series", [&](const std::string& path) { plot_series(answer, path); });
    };
    const std::string script = series();
    CHECK_THAT(script, Contains("$series0 << e\n4 250 375 500\n16 62.5 93.75 125\ne\n$series1 << "
                                "e\n2 250 375 500\ne\n$series2 << e\n2 125 250 500\ne\n"));
    CHECK_THAT(script, Contains("title \"bf16, 1\"") && Contains("title \"bf16, 4\"") &&
                           Contains("title \"fp8, 1\"") &&
                           Contains("set logscale xy\nset xtics (\"2\" 2,"));
    CHECK_THAT(script, Contains("gpt: step against parallelism.dp") &&
                           Contains("; bands: p10..p90") && Contains("set ylabel 'step [ms]'") &&
                           Contains("set ytics (\"100\" 100,"));
    CHECK(number_after(script, "set xrange [") == Approx(2 / std::pow(8, 0.04)));
    CHECK(script.find("filledcurves") < script.find("linespoints"));  // bands beneath the lines
    answer.of_each[2].settings.back().second = "8";  // of two numbers of one name: a line
    for (SweepRow& each : answer.of_each)
        each.forecast.step.p10 = each.forecast.step.p90 = each.forecast.step.p50;
    const std::string narrow = series();
    CHECK_THAT(narrow, Contains("set xrange [1.76:8.24]") && !Contains("p10..p90") &&
                           !Contains("filledcurves") && !Contains("logscale x"));
    answer.objective = Objective::tokens;
    CHECK_THAT(series(), Contains("$series2 << e\n2 16384 16384 16384\n") &&
                             Contains("set ylabel 'throughput [tokens/s]'") &&
                             Contains("gpt: tokens/s against"));
    answer.of_each[0].forecast.step = {Seconds(0.25), Seconds(0.125), Seconds(0.25), Seconds(0.5)};
    CHECK_THAT(series(), Contains("$series2 << e\n2 8192 16384 32768\n"));
    answer.of_each.erase(answer.of_each.begin() + 1);
    CHECK_FALSE(plot_series(answer, "nowhere/series"));  // a point a line
    answer.of_each[0].settings.back().second = "auto";
    answer.each_of.pop_back();
    CHECK_FALSE(plot_series(answer, "nowhere/series"));  // no number
}

// 64 x 64 cells are the most that can be read.
TEST_CASE("a sweep has the plots that tell something") {
    SweepAnswer answer = with_map(64, 64);
    const auto names = [&] {
        std::vector<std::string> all;
        samples::folder_of_scripts(
            "sweep", [&](const std::string& folder) { all = plot_sweep(answer, folder); });
        return all;
    };
    using Names = std::vector<std::string>;
    CHECK(names() == Names{"map.png"});
    answer = with_map(4097, 1);
    CHECK(names().empty());
    answer.second = Objective::memory;
    answer.best.resize(1);
    answer.scaling = answer.best;
    CHECK(names().empty());
    answer = sample_sweep();
    answer.second = Objective::memory;
    answer.scaling = answer.of_each = answer.best;
    answer.each_of = {"parallelism.tp"};
    CHECK(names() == Names{"map.png", "front.png", "scaling.png", "series.png"});
}
