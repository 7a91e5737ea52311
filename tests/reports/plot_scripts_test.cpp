// What gnuplot is told to draw (samples::script_of).

#include <cmath>

#include <catch2/catch.hpp>

#include "model/base/errors.h"
#include "reports/error_plots.h"
#include "reports/plots.h"
#include "reports/step_plots.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using Catch::Contains;
using samples::compared;
using samples::script_of;

namespace {

constexpr auto after = samples::number_after;
constexpr double gib = 1024.0 * 1024 * 1024;

// Two seconds. An idle box of 5 ms is less than 0.4 % of them and not drawn; a number of one digit
// needs 1.1 %, two digits 2.2 %, which is 44 ms.
Gantt two_ranks() {
    Gantt g{.title = "job",
            .step = Seconds(2),
            .rows = {},
            .memory_label = "memory of rank 0",
            .memory = {},
            .capacity = Bytes(16 * gib)};
    g.rows.push_back({"rank 0, first",
                      {{GanttKind::forward, Seconds(0), Seconds(0.5), 0},
                       {GanttKind::exchange, Seconds(0.5), Seconds(0.625), -1},
                       {GanttKind::backward, Seconds(0.625), Seconds(1.625), 0},
                       {GanttKind::idle, Seconds(1.625), Seconds(1.63), -1},
                       {GanttKind::idle, Seconds(1.75), Seconds(2), -1}}});
    g.rows.push_back({"rank 1",
                      {{GanttKind::forward, Seconds(0.5), Seconds(0.54), 9},
                       {GanttKind::forward, Seconds(1), Seconds(1.25), 10},
                       {GanttKind::optimizer, Seconds(1.25), Seconds(1.5), -1}}});
    g.memory = {{Seconds(0), Bytes(2 * gib)},
                {Seconds(0.5), Bytes(6 * gib)},
                {Seconds(1.625), Bytes(3 * gib)}};
    return g;
}

}  // namespace

// Rows lie at 0, 1, ..; a box reaches 0.4 to both sides, an exchange from 0.22 to 0.4.
TEST_CASE("a step is drawn box by box, numbered where a number has room") {
    const Gantt g = two_ranks();
    const std::string script =
        script_of("gantt", [&](const std::string& path) { plot_gantts(std::vector{g}, path); });
    CHECK_THAT(script, Contains("$g0k0 << e\n0 -0.4 0 0.5 -0.4 0.4\n0.5 0.6 0.5 0.54 0.6 1.4\n1 "
                                "0.6 1 1.25 0.6 1.4\ne\n"));
    CHECK_THAT(script, Contains("$g0k1 << e\n0.625 -0.4 0.625 1.625 -0.4 0.4\ne\n"));
    CHECK_THAT(script, Contains("$g0k6 << e\n0.5 0.22 0.5 0.625 0.22 0.4\ne\n"));
    CHECK_THAT(script, Contains("$g0k7 << e\n1.75 -0.4 1.75 2 -0.4 0.4\ne\n"));
    CHECK_THAT(script, Contains("$n0 << e\n0.25 -0.06 1\n1.125 -0.06 1\n1.125 0.94 11\ne\n"));
    CHECK_THAT(script, Contains("set ytics (\"rank 0, first\" 0,\"rank 1\" 1)") &&
                           Contains("job: one step, 2000.0 ms"));
    // Only what occurs is explained; there is one step, so nothing stands above it.
    CHECK_THAT(script, Contains("\"forward\"") && Contains("\"exposed exchange\"") &&
                           Contains("\"idle (bubble)\""));
    CHECK_THAT(script, !Contains("\"other kernels\"") && !Contains("set label 4"));
    CHECK(after(script, "set xrange [0:") == Approx(1.005 * 2));
    CHECK_THAT(script, Contains("set xlabel 'time [s]'"));
}

// A step of less than a second is in ms. One row of at most 90 pixels, 135 above and 100 below make
// 325. The key begins 20 pixels beneath the top of the axes, a square of 24 and its name to each
// kind, 36 apart.
TEST_CASE("a short step is drawn in milliseconds, with a key of its kinds") {
    const Gantt g{.title = "job",
                  .step = Seconds(0.5),
                  .rows = {{"rank 0",
                            {{GanttKind::forward, Seconds(0), Seconds(0.125), 2},
                             {GanttKind::optimizer, Seconds(0.125), Seconds(0.5), -1}}}},
                  .memory_label = {},
                  .memory = {},
                  .capacity = {}};
    const std::string script =
        script_of("short", [&](const std::string& path) { plot_gantts(std::vector{g}, path); });
    CHECK_THAT(script, Contains("$g0k0 << e\n0 -0.4 0 125 -0.4 0.4\ne\n") &&
                           Contains("$n0 << e\n62.5 -0.06 3\ne\n") &&
                           Contains("set xlabel 'time [ms]'") && Contains("set xrange [0:502.5]"));
    const auto from_top = [](double pixels) { return Approx(1 - pixels / 325).margin(1e-4); };
    CHECK_THAT(script, Contains(" size 1600,325 "));
    CHECK(after(script, "set object 100 rectangle from screen 0.83,") == from_top(167));
    const std::string first = script.substr(script.find("set object 100"));
    CHECK(after(first, "to screen 0.85,") == from_top(143));
    CHECK(after(script, "set label 100 \"forward\" at screen 0.856,") == from_top(155));
    CHECK(after(script, "set label 101 \"optimizer\" at screen 0.856,") == from_top(191));
    CHECK_THAT(script, Contains("fc rgb '#7FB8DC' fs solid noborder lw 0.6\nset label 100") &&
                           !Contains("set object 102"));
    CHECK_THROWS_WITH(plot_gantts({}, "p"), Contains("no step to draw"));
}

// A stair of 2, 6 and 3 GiB. 16 GiB are less than thrice 6: shown, and the axis reaches 1.12 x 16;
// between ticks 5 GiB, as two or more of 1, 2, 5 shall show below 16. A device of 64 GiB is out of
// the picture: the axis reaches 1.12 x 6, ticks of 2.
TEST_CASE("memory is a stair beneath the step, with the device's line where it is near") {
    Gantt g = two_ranks();
    const std::string near =
        script_of("near", [&](const std::string& path) { plot_gantts(std::vector{g}, path); });
    CHECK_THAT(near, Contains("$m0 << e\n0 2\n0 2\n0.5 2\n0.5 6\n1.625 6\n1.625 3\ne\n"));
    CHECK_THAT(near, Contains("16 with lines dt (10,8)") &&
                         Contains("\"memory of\\nrank 0 [GiB]\" at") &&
                         Contains("\"the GPU's memory\"") && Contains("set ytics 5 "));
    CHECK(after(near, "textcolor '#333333'\nset yrange [0:") == Approx(1.12 * 16));
    // 4.6 rows of at most 90 pixels are 414, with 135 above and 100 below 649: two rows, 0.6 of one
    // between them and the memory, which takes two. They begin 135, 369 pixels from the top and end
    // at 315, 549: as shares of the height from the bottom 0.7920, 0.5146, 0.4314, 0.1541.
    CHECK_THAT(near, Contains("set tmargin at screen 0.7920\nset bmargin at screen 0.5146\n") &&
                         Contains("set tmargin at screen 0.4314\nset bmargin at screen 0.1541\n") &&
                         Contains(" size 1600,649 "));
    g.capacity = Bytes(10 * gib);  // half of it is a tick itself
    CHECK_THAT(
        script_of("half", [&](const std::string& path) { plot_gantts(std::vector{g}, path); }),
        Contains("set ytics 5 "));
    g.capacity = Bytes(64 * gib);
    const std::string far =
        script_of("far", [&](const std::string& path) { plot_gantts(std::vector{g}, path); });
    CHECK_THAT(far,
               !Contains("dt (10,8)") && !Contains("the GPU's memory") && Contains("set ytics 2 "));
    CHECK(after(far, "textcolor '#333333'\nset yrange [0:") == Approx(1.12 * 6));
}

TEST_CASE("several steps share one axis, as long as the longest, each under its name") {
    Gantt a = two_ranks(), b = two_ranks();
    b.title = "other";
    b.step = Seconds(0.5);
    b.memory.clear();
    const std::string script = script_of("two", [&](const std::string& path) {
        plot_gantts(std::vector{a, b}, path);
    });
    CHECK_THAT(script, Contains("2 steps on one axis") && !Contains("job: one step"));
    CHECK(after(script, "set xrange [0:") == Approx(1.005 * 2));
    CHECK_THAT(script, Contains("set label 4 \"job, 2000.0 ms\"") &&
                           Contains("set label 4 \"other, 500.0 ms\""));
    CHECK_THAT(script, Contains("$g1k0 << e\n") && !Contains("$m1 "));
    // The time is written once, below the last.
    CHECK(script.find("set xlabel 'time [s]'") > script.find("$g1k0"));
    CHECK(script.find("set xlabel 'time [s]'") == script.rfind("set xlabel 'time [s]'"));
}

// Axes reach a factor of 1.4 and 1.5 beyond the points above 0. A range of more than 1000 has
// prefixes on its y axis.
TEST_CASE("curves are drawn point by point, on axes a little wider") {
    const auto script = [](double highest) {
        return script_of("curves", [&](const std::string& path) {
            plot_curves({{"ring", {{0, 1}, {1024, 2}, {4096, highest}}, {{1024, 2.5}}},
                         {"tree", {}, {{2048, 4}}}},
                        "t", "x", "y", path);
        });
    };
    const std::string narrow = script(2000), wide = script(2048);
    CHECK_THAT(narrow, Contains("$measured0 << e\n1024 2\n4096 2000\ne\n"));
    CHECK_THAT(narrow,
               Contains("$fitted0 << e\n1024 2.5\ne\n") && Contains("$fitted1 << e\n2048 4\ne\n"));
    CHECK_THAT(narrow, Contains("left out, not above 0: 1") && Contains("set format y '%.6g'"));
    CHECK_THAT(wide, Contains("set format y '%.0s %c'"));
    CHECK(after(narrow, "set xrange [") == Approx(1024 / 1.4));
    CHECK(after(narrow, "set yrange [") == Approx(2 / 1.5));
    CHECK_THAT(narrow, Contains(":5734.4]") && Contains(":3000]"));  // 4096 x 1.4, 2000 x 1.5
    CHECK_THAT(narrow, Contains("ring, fit") && Contains("ring, measured") &&
                           Contains("tree, fit") && !Contains("tree, measured"));
}

// 10 ms predicted as 20, in six parts of 50, 10, 20, 0, 15 and 5 %: the axis reaches 1.06 x 20.
TEST_CASE("bars are the parts of the prediction beside the measured step") {
    const std::vector<Comparison> cases{compared("run-a", "s", 10, 20, 18, 22),
                                        compared("run-b", "s", 8, 4, 4, 4)};
    const std::string script =
        script_of("bars", [&](const std::string& path) { plot_breakdown(cases, "t", path); });
    CHECK_THAT(script, Contains("$bars << e\n10 2 4 0 3 1 10\n2 0.4 0.8 0 0.6 0.2 8\ne\n"));
    CHECK_THAT(script,
               Contains("set xtics (\"a\" 0,\"b\" 1)") && Contains("all names begin with run-"));
    CHECK(after(script, "set ylabel 'step [ms]' offset 0.5\nset yrange [0:") == Approx(1.06 * 20));
    CHECK(after(script, "set xrange [-0.7:") == Approx(1.7));
    CHECK_THAT(script, Contains("plot $bars using 1 lc '#0072B2' title \"compute\"") &&
                           Contains("$bars using 6 lc "));
}

// Within a factor of 4 the axes are linear: 8 % of the width and 20 % of the highest beyond the
// data.
TEST_CASE(
    "measured against predicted: linear within a factor of four, and bars are explained where "
    "there are some") {
    const auto script = [](const std::vector<Comparison>& cases) {
        return script_of("scatter",
                         [&](const std::string& path) { plot_scatter(cases, "t", path); });
    };
    const std::string exact = script({compared("a", "s", 10, 20, 20, 20)}),
                      wide = script({compared("a", "s", 10, 20, 18, 50)});
    CHECK_THAT(exact, Contains("$series0 << e\n10 20 20 20 16 ") &&
                          !Contains("p10..p90 of the prediction") && !Contains("logscale"));
    CHECK(after(exact, "set xrange [") == Approx(10 - (0.08 * 10 + 0.2 * 20)));
    CHECK_THAT(wide,
               Contains("with yerrorbars lc '#555555' pt 7 ps 0 lw 1.2 title \"p10..p90 of the "
                        "prediction\"") &&
                   Contains("set logscale xy") &&
                   Contains("set xlabel 'measured step [ms]'\nset ylabel 'predicted step [ms]'"));
    CHECK(after(wide, "set xrange [") == Approx(10 / std::pow(5, 0.06)));
    // The legend has the marks that are drawn: of one case a diamond (13), of two in a series a
    // full circle (7), and in grey what each says.
    std::vector<Comparison> marked{compared("a", "s", 10, 20, 20, 20)};
    marked[0].what.evidence = Evidence::unseen;
    const std::string diamonds = script(marked);
    CHECK_THAT(diamonds,
               Contains("NaN with points pt 13 ps 1.5 lw 1.2 lc '#0072B2' title \"s: 1 case") &&
                   Contains("NaN with points pt 13 ps 1.5 lw 1.2 lc '#555555' title \"unseen\"") &&
                   !Contains("\"fitted on\""));
    marked.push_back(marked[0]);
    marked[1].what.evidence = Evidence::fitted;
    CHECK_THAT(script(marked), Contains("NaN with points pt 7 ps 1.5 lw 1.2 lc '#0072B2' title") &&
                                   Contains("pt 6 ps 1.5 lw 1.2 lc '#555555' title \"fitted on\""));
    CHECK_THAT(exact, !Contains("#555555' title \""));
    // From 10 s on both axes are in seconds.
    CHECK_THAT(script({compared("a", "s", 10000, 8000, 8000, 8000)}),
               Contains("$series0 << e\n10 8 8 8 16 ") && Contains("'measured step [s]'"));
}

// The x axis reaches 1.15 beyond 16 and 256 experts, the y axis is logarithmic from a factor of 20
// on.
TEST_CASE("steps along the experts have a log axis where they differ by more than twentyfold") {
    const auto script = [](double highest) {
        std::vector<Comparison> cases{compared("a", "s", 10, 11, 10, 12),
                                      compared("b", "s", highest, 20, 20, 20)};
        cases[1].what.x = 256;
        return script_of("experts",
                         [&](const std::string& path) { plot_against_experts(cases, "t", path); });
    };
    const std::string linear = script(200), logarithmic = script(201);
    CHECK_THAT(linear, Contains("set xlabel 'experts of the layer, over all ranks'") &&
                           Contains("set xtics (16,256)") && !Contains("set logscale y"));
    CHECK(after(linear, "set yrange [0:") == Approx(1.06 * 200));
    CHECK(after(linear, "set xrange [") == Approx(16 / 1.15));
    CHECK_THAT(logarithmic, Contains("set logscale y"));
    CHECK(after(linear, "set xrange [13.913043478260871:") == Approx(256 * 1.15));
    CHECK(after(logarithmic, "set logscale x 2\nset xrange [") == Approx(16 / 1.15));
    // From 13.9 to 294.4 experts labels lie (21.16)^0.04 = 1.130 apart at least: 17.9 is too near
    // to 16, 18.2 is not, 20 is to that.
    std::vector<Comparison> cases;
    for (const double x : {16.0, 17.9, 18.2, 20.0, 256.0}) {
        cases.push_back(compared("a", "s", 10, 11, 10, 12));
        cases.back().what.x = x;
    }
    CHECK_THAT(script_of("experts",
                         [&](const std::string& path) { plot_against_experts(cases, "t", path); }),
               Contains("set xtics (16,18.2,256)"));
}

// Measured 8 s, replayed 9 and predicted 10: cost and schedule 1/8 = 12.5 % each. Effects 2, -0.5
// and 0.25 s are 25, -6.25 and 3.125 %; what is left of 12.5 is -9.375. Of the second run (measured
// 8, 8.5, 9): 6.25 each, effects -12.5 and 6.25, left 12.5. The largest share of any run comes
// first; boxes of a sign stand on each other.
TEST_CASE("errors are stacked part by part, up and down, under the error of the whole step") {
    Comparison a = compared("a", "s", 1, 1, 1, 1), b = compared("b", "s", 1, 1, 1, 1);
    a.attribution = {Seconds(10),
                     Seconds(9),
                     Seconds(8),
                     {{"gemm", Phase::forward, {}, {}, Seconds(2)},
                      {"all_reduce", Phase::gradient_sync, {}, {}, Seconds(-0.5)},
                      {"cast", Phase::backward, {}, {}, Seconds(0.25)}}};
    b.attribution = {Seconds(9),
                     Seconds(8.5),
                     Seconds(8),
                     {{"gemm", Phase::forward, {}, {}, Seconds(-1)},
                      {"all_reduce", Phase::gradient_sync, {}, {}, Seconds(0.5)}}};
    const std::string script = script_of("attribution", [&](const std::string& path) {
        plot_attribution({a, compared("without", "s", 1, 1, 1, 1), b}, "Runs", path);
    });
    CHECK_THAT(script, Contains("$part0 << e\n0 0 25\n1 0 -12.5\ne\n"));  // gemm
    // together
    CHECK_THAT(script, Contains("$part1 << e\n0 0 -9.375\n1 0 12.5\ne\n"));
    // schedule
    CHECK_THAT(script, Contains("$part2 << e\n0 25 37.5\n1 12.5 18.75\ne\n"));
    // all_reduce
    CHECK_THAT(script, Contains("$part3 << e\n0 -9.375 -15.625\n1 18.75 25\ne\n"));
    CHECK_THAT(script, Contains("$part4 << e\n0 37.5 40.625\n1 25 25\ne\n") && !Contains("$part5"));
    CHECK_THAT(script, Contains("$whole << e\n0 25\n1 12.5\ne\n") &&
                           Contains("set xtics (\"a\" 0,\"b\" 1)"));
    CHECK_THAT(script, Contains(" lc '#0072B2' title \"gemm, forward\"") &&
                           Contains(" lc '#E69F00' title \"cast, backward\""));
    CHECK_THAT(script, Contains("title \"kinds together\"") &&
                           Contains("title \"all reduce, gradient sync\"") &&
                           Contains("Runs: where the error comes from"));
    CHECK(after(script, "set yrange [") == Approx(1.08 * -15.625));
    CHECK(after(script, "set yrange [-16.875:") == Approx(1.08 * 40.625));
    CHECK(after(script, "set xrange [-0.7:") == Approx(1.7));
}

// 13 kinds of 1/16 s of 16 make ten parts at most; of 1/256 s of 8 (0.0488 %) none: the axis still
// shows 1 % to both sides. 1/200 s is 0.0625 %.
TEST_CASE("errors have ten parts at most, and none below 0.05 %") {
    Comparison run = compared("a", "s", 1, 1, 1, 1);
    run.attribution = {
        Seconds(8), Seconds(8), Seconds(8), {{"gemm", Phase::forward, {}, {}, Seconds(1.0 / 256)}}};
    const std::string none =
        script_of("no_parts", [&](const std::string& path) { plot_attribution({run}, "t", path); });
    CHECK_THAT(none, !Contains("$part0") && Contains("set yrange [-1.08:1.08]"));
    run.attribution->kinds[0].effect = Seconds(1.0 / 200);
    CHECK_THAT(
        script_of("one_part", [&](const std::string& path) { plot_attribution({run}, "t", path); }),
        Contains("0.0625"));
    run.attribution->measured = run.attribution->replayed = run.attribution->predicted =
        Seconds(16);
    run.attribution->kinds.clear();
    for (int i = 0; i < 13; ++i)
        run.attribution->kinds.push_back(
            {"k" + std::to_string(i), Phase::forward, {}, {}, Seconds(1.0 / 16)});
    const std::string many = script_of(
        "many_parts", [&](const std::string& path) { plot_attribution({run}, "t", path); });
    CHECK_THAT(many, Contains("$part9 ") && !Contains("$part10 "));
}

// Of a step of 10 s, -0.5 and 0.01 s are -5 and 0.1 %; 6 % of the width of -5.5 .. 0.1 is 0.336.
// The strongest is the highest.
TEST_CASE("a parameter's effect is a bar, and its effect along the path a mark") {
    Explanation x;
    x.step = Seconds(10);
    x.change = 1;
    x.elasticities = {{"gpu.peak.bf16", "1 TFLOP/s", Seconds(-0.5), Seconds(-0.55)},
                      {"link.intra.latency", "2 us", Seconds(0.01), Seconds(0.005)},
                      {"host.call", "2 us", Seconds(0), Seconds(9)}};
    const auto script = [&] {
        return script_of("effects",
                         [&](const std::string& path) { plot_elasticities(x, "GPT", path); });
    };
    const std::string two = script();
    CHECK_THAT(two, Contains("$gains << e\n-5 2\ne\n") && Contains("$losses << e\n0.1 1\ne\n"));
    CHECK_THAT(two, Contains("$marks << e\n-5.5 2\n0.05 1\ne\n"));
    CHECK_THAT(two, Contains("with 100 % more of a parameter: 2 strongest of 2 with an effect") &&
                        Contains("of 10.00 s"));
    CHECK_THAT(two, Contains("set ytics (\"gpu.peak.bf16\" 2,\"link.intra.latency\" 1)"));
    CHECK_THAT(two,
               Contains("set yrange [0.3:2.7]") && Contains("nohead") && Contains("to 0,2.7 "));
    CHECK_THAT(two, Contains("set xrange [-5.836:0.436]"));
    CHECK_THAT(
        two, Contains("$gains using ($1/2):2:(abs($1)/2):(0.34) with boxxyerror lc rgb "
                      "'#009E73' title \"shorter step\"") &&
                 Contains("$losses using ($1/2):2:(abs($1)/2):(0.34) with boxxyerror lc rgb "
                          "'#D55E00' title \"longer step\"") &&
                 Contains("pt 2 ps 1.6 lw 2.2 lc rgb '#111111' title \"along the critical path\""));
    x.elasticities.assign(20, {"k", "1", Seconds(0.3), Seconds(0.7)});
    const std::string most = script();
    CHECK_THAT(most, Contains("18 strongest of 20") && Contains("$gains << e\ne\n") &&
                         Contains("\n3 1\ne\n"));
    CHECK_THAT(most, Contains("set xrange [-0.42:7.42]"));  // of 0 to 7 %
}

// Errors of -50, +5 and +10 %. Nine of ten cases and a fifth more decide: 1.2 x 50 is beyond 50, so
// the picture ends at 100 %, and with one case of 41 % (49.2) at 50. What lies beyond an edge is
// drawn at 0.98 of it.
TEST_CASE("errors stand along the measured step and along the length of the sequence") {
    std::vector<Comparison> cases{compared("a", "s", 2000, 1000, 900, 1100),
                                  compared("b", "s", 1000, 1050, 1000, 1100),
                                  compared("c", "t", 4000, 4400, 4400, 4400)};
    cases[0].what.experiment.workload.seq = 2048;
    cases[1].what.experiment.workload.seq = 128;
    cases[2].what.experiment.workload.seq = 512;
    cases[2].what.evidence = Evidence::unseen;
    const auto script = [&] {
        return script_of("errors", [&](const std::string& path) { plot_errors(cases, "T", path); });
    };
    const std::string wide = script();
    CHECK_THAT(wide, Contains("$error0 << e\n2 2048 -50 7\n1 128 5 7\ne\n") &&
                         Contains("$error1 << e\n4 512 10 13\ne\n"));
    CHECK_THAT(wide, Contains("set yrange [-100:100]") && !Contains("at the edge") &&
                         Contains("T on plain-x4: errors of 3 of 3 cases"));
    CHECK(after(wide, "set xlabel 'measured step [s]'\nset xrange [") == Approx(1 / 1.4));
    CHECK_THAT(wide, Contains(":5.6]"));  // 4 s x 1.4
    CHECK(after(wide, "set logscale x 2\nset xrange [") == Approx(128 / 1.4));
    // the legend stands once, in the first half; the halves leave 0.04 of the picture between them
    CHECK_THAT(wide, Contains("$error0 using 1:3:4 ") && Contains("$error0 using 2:3:4 "));
    CHECK(wide.find("title \"s: 2 cases, mean error 27.5 %\"") == wide.rfind("title \"s: 2 cases"));
    const double left = after(wide, "offset 0.5\nset rmargin at screen "),
                 right = after(wide, "unset key\nset lmargin at screen ");
    CHECK(right - left == Approx(0.04));
    CHECK((left + right) / 2 ==
          Approx((0.1 + after(wide, "set lmargin at screen 0.1\nset rmargin at screen ")) / 2)
              .epsilon(1e-3));
    cases[0].forecast->step.p50 = Seconds(1.18);
    CHECK_THAT(script(), Contains("\n2 2048 -41 7\n") && Contains("set yrange [-50:50]"));
    cases[0].forecast->step.p50 = Seconds(2);
    CHECK_THAT(script(), Contains("set yrange [-15:15]") && !Contains("at the edge"));
    cases[2].forecast->step.p50 = Seconds(6);
    for (int i = 0; i < 9; ++i) cases.push_back(cases[1]);  // now 1 of 12 is beyond
    CHECK_THAT(script(), Contains("\n4 512 14.7 13\n") && Contains("; beyond 15 % at the edge\""));
}

// Five errors on 4 GPUs, of 0, 10, 20, 30 and -40 %: the median is 10, p10 -40 + 0.4 x 40, p90 20 +
// 0.6 x 10. One of 120 % on 6 GPUs is alone near 8. Nine of ten of the six end at 120, so the edge
// is 100. The second point of a size lies (0.118 - 0.5) x 0.7 of the way to twice as many GPUs.
TEST_CASE("errors on test data stand along the number of GPUs, apart from those in view") {
    const auto on = [](int gpus, double error) {
        Comparison c = compared("c", "s", 1000, 1000 + 10 * error, 900, 1100);
        c.what.experiment.cluster.gpus_per_node = gpus;
        return c;
    };
    CasesByKind test{{"named", {on(6, 120), samples::refused("r", "why")}}, {"unnamed", {}}};
    for (const double error : {0, 10, 20, 30, -40}) test["unnamed"].push_back(on(4, error));
    test["named"][0].what.evidence = Evidence::fitted;
    const auto script = [&](const std::vector<Comparison>& shipped) {
        return script_of("left_out", [&](const std::string& path) {
            CHECK(plot_left_out(test, shipped, path));
        });
    };
    const std::string alone = script({});
    CHECK_THAT(alone, Contains("$test0 << e\n4 0 7\n3.323317 10 7\n") &&
                          Contains("$test1 << e\n6 98 6\ne\n") &&
                          Contains("$test_sizes << e\n4 10 -24 26\ne\n"));
    CHECK_THAT(alone,
               Contains("\"test: source left out\\n6 steps of 1 source\\nmedian 25.0 %, mean "
                        "36.7 %\" at graph ") &&
                   Contains("below too fast; beyond 100 %, at the edge: 1\""));
    CHECK_THAT(alone, Contains("set xrange [2.66667:9]\nset yrange [-100:135]\nset ytics "
                               "-100,20,100\n"));
    CHECK_THAT(alone, Contains("title \"framework not named (5)\"") &&
                          Contains("title \"framework named (1)\"") &&
                          Contains("title \"ring: a fit has read it\"") &&
                          Contains("with yerrorbars") && !Contains("unset key"));
    const std::string both = script({on(64, 5)});
    CHECK_THAT(both, Contains("$shipped0 << e\n64 5 7\ne\n") &&
                         Contains("$shipped_sizes << e\ne\n") &&
                         Contains("\"development and training\\n1 steps") &&
                         Contains("set xrange [2.66667:96]"));
    CHECK(both.find("title \"recipes, as shipped (1)\"") < both.find("unset key"));
    CHECK(both.find("unset key") < both.find("$shipped0 using 1:2:3 "));
    test = {{"named", {samples::refused("r", "why")}}};
    CHECK_FALSE(plot_left_out(test, {on(8, 5)}, "p"));
}

// Points of a kind by rising fitted time in us, and fitted over measured: errors of 25, 50, 12.5
// and twice 0 %, the middle of which is 12.5.
TEST_CASE("a fit is drawn as fitted over measured, a colour a kind") {
    const std::vector<CaseResult> points{{"", "gemm", Seconds(4e-6), Seconds(5e-6), {}},
                                         {"", "cast", Seconds(4e-6), Seconds(2e-6), {}},
                                         {"", "gemm", Seconds(4e-6), Seconds(3.5e-6), {}},
                                         {"", "tick", Seconds(1), Seconds(1), {}},
                                         {"", "tick", Seconds(2), Seconds(2), {}}};
    const std::string script = script_of(
        "fit", [&](const std::string& path) { plot_fit("kernels", points, "dgx", path); });
    CHECK_THAT(script, Contains("$data0 << e\n2 0.5\ne\n") &&
                           Contains("$data1 << e\n3.5 0.875\n5 1.25\ne\n"));
    CHECK_THAT(script, Contains("5 points on dgx; median error 12.5 %, worst 50.0 %") &&
                           Contains("kernels: fitted cost model against measurement"));
    CHECK_THAT(script, Contains("pt 7 ps 0.6 lc rgb '#0072B2' title \"cast\"") &&
                           Contains("pt 5 ps 0.6 lc rgb '#D55E00' title \"gemm\""));
    CHECK_THROWS_AS(plot_fit("", {}, "dgx", "p"), ConfigError);
}

// 16 times 8 ms is 128: up to twentyfold bars are in ms, from 10 s on in s, beyond in percent of
// each measured step.
TEST_CASE("bars have the unit that suits them") {
    const auto label = [](double least, double most) {
        const std::vector<Comparison> cases{compared("a", "s", least, least, least, least),
                                            compared("b", "s", most, most, most, most)};
        return script_of("units",
                         [&](const std::string& path) { plot_breakdown(cases, "t", path); });
    };
    CHECK_THAT(label(8, 160), Contains("set ylabel 'step [ms]'"));
    CHECK_THAT(label(8, 161), Contains("set ylabel 'share of the measured step [%]'") &&
                                  Contains("\n50 10 20 0 15 5 100\n"));
    CHECK_THAT(label(1000, 9999), Contains("set ylabel 'step [ms]'"));
    CHECK_THAT(label(1000, 10000), Contains("set ylabel 'step [s]'"));
}

// Neither of a curve's numbers may be 0, and both must be finite.
TEST_CASE("points that a log axis cannot show are left out of curves") {
    const double infinite = HUGE_VAL;
    const std::string script = script_of("left_out", [&](const std::string& path) {
        plot_curves({{"ring", {{1, 0}, {0, 1}, {-1, 2}, {3, infinite}, {infinite, 3}, {4, 5}}, {}}},
                    "t", "x", "y", path);
    });
    CHECK_THAT(script,
               Contains("$measured0 << e\n4 5\ne\n") && Contains("left out, not above 0: 5"));
}

// 1201 boxes on an axis of 400 s, a part of it a second: a quarter forward, half backward and a
// quarter exchange of each. Shares stand on each other from the lower edge (-0.4 of 0.8 in all),
// exchanges on the other edge. 1200 boxes are drawn one by one. An idle second is less than 0.4 %
// of the step.
TEST_CASE("too many boxes become shares of each part of the axis") {
    Gantt g{.title = "job",
            .step = Seconds(400),
            .rows = {{"rank 0", {}}},
            .memory_label = {},
            .memory = {},
            .capacity = {}};
    for (int i = 0; i < 400; ++i) {
        g.rows[0].boxes.push_back({GanttKind::forward, Seconds(i), Seconds(i + 0.25), 0});
        g.rows[0].boxes.push_back({GanttKind::backward, Seconds(i + 0.25), Seconds(i + 0.75), 0});
        g.rows[0].boxes.push_back({GanttKind::exchange, Seconds(i + 0.75), Seconds(i + 1), -1});
    }
    const auto script = [&] {
        return script_of("crowd",
                         [&](const std::string& path) { plot_gantts(std::vector{g}, path); });
    };
    CHECK_THAT(script(), Contains("$g0k0 << e\n0 -0.4 0 0.25 -0.4 0.4\n") &&
                             Contains("numbers: micro-batches"));
    g.rows[0].boxes.push_back({GanttKind::idle, Seconds(0), Seconds(1), -1});
    const std::string shares = script();
    CHECK_THAT(shares, Contains("$g0k0 << e\n0 -0.4 0 1 -0.4 -0.2\n1 -0.4 1 2 -0.4 -0.2\n") &&
                           Contains("\n399 -0.4 399 400 -0.4 -0.2\ne\n"));
    CHECK_THAT(shares, Contains("$g0k1 << e\n0 -0.2 0 1 -0.2 0.2\n") &&
                           Contains("$g0k6 << e\n0 0.2 0 1 0.2 0.4\n"));
    CHECK_THAT(shares, !Contains("$g0k7") && !Contains("$n0") &&
                           Contains("heights are shares of the time"));
    g.rows[0].boxes.back() = {GanttKind::idle, Seconds(0), Seconds(2), -1};  // 0.5 %: shown
    // half a percent of its part: not
    g.rows[0].boxes[0].finish = Seconds(0.005);
    CHECK_THAT(script(), Contains("$g0k7 << e\n0 -0.4 0 2 -0.4 0.4\ne\n") &&
                             Contains("$g0k0 << e\n1 -0.4 1 2 -0.4 -0.2\n") &&
                             Contains("$g0k1 << e\n0 -0.4 0 1 -0.4 0\n"));
}
