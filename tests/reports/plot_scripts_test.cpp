// What gnuplot is told to draw: in place of gnuplot stands a program that hands its script back as the picture.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "reports/gantt_plot.h"
#include "reports/plots.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using Catch::Contains;
using samples::compared;

namespace {

// The script of the plot that `draw` writes to the path that it is given.
std::string script_of(const std::string& name, const std::function<void(const std::string&)>& draw) {
    namespace fs = std::filesystem;
    const std::string folder = samples::temporary_folder("script_" + name), before = std::getenv("PATH");
    std::ofstream(folder + "/gnuplot") << "#!/bin/sh\ncat\necho '</svg>'\n";
    fs::permissions(folder + "/gnuplot", fs::perms::owner_all);
    setenv("PATH", (folder + ":" + before).c_str(), 1);
    draw(folder + "/p");
    setenv("PATH", before.c_str(), 1);
    return samples::file_text(folder + "/p.svg");
}

// The number that follows `text`, which must be there.
double after(const std::string& script, const std::string& text) {
    const auto at = script.find(text);
    REQUIRE(at != std::string::npos);
    return std::stod(script.substr(at + text.size()));
}

constexpr double gib = 1024.0 * 1024 * 1024;

// Two seconds. An idle box of 5 ms is less than 0.4 % of them and not drawn; a number of one digit needs 1.1 %, two digits
// 2.2 %, which is 44 ms.
Gantt two_ranks() {
    Gantt g{.title = "job", .step = Seconds(2), .rows = {}, .memory_label = "memory of rank 0", .memory = {}, .capacity = Bytes(16 * gib)};
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
    g.memory = {{Seconds(0), Bytes(2 * gib)}, {Seconds(0.5), Bytes(6 * gib)}, {Seconds(1.625), Bytes(3 * gib)}};
    return g;
}

}  // namespace

// Rows lie at 0, 1, ..; a box reaches 0.4 to both sides, an exchange from 0.22 to 0.4.
TEST_CASE("a step is drawn box by box, numbered where a number has room") {
    const Gantt g = two_ranks();
    const std::string script = script_of("gantt", [&](const std::string& path) { plot_gantts(std::vector{g}, path); });
    CHECK_THAT(script, Contains("$g0k0 << EOD\n0 -0.4 0 0.5 -0.4 0.4\n0.5 0.6 0.5 0.54 0.6 1.4\n1 0.6 1 1.25 0.6 1.4\nEOD\n"));
    CHECK_THAT(script, Contains("$g0k1 << EOD\n0.625 -0.4 0.625 1.625 -0.4 0.4\nEOD\n"));
    CHECK_THAT(script, Contains("$g0k6 << EOD\n0.5 0.22 0.5 0.625 0.22 0.4\nEOD\n"));
    CHECK_THAT(script, Contains("$g0k7 << EOD\n1.75 -0.4 1.75 2 -0.4 0.4\nEOD\n"));
    CHECK_THAT(script, Contains("$n0 << EOD\n0.25 -0.06 1\n1.125 -0.06 1\n1.125 0.94 11\nEOD\n"));
    CHECK_THAT(script, Contains("set ytics (\"rank 0, first\" 0,\"rank 1\" 1)") && Contains("job: one step, 2000.0 ms"));
    // Only what occurs is explained; there is one step, so nothing stands above it.
    CHECK_THAT(script, Contains("\"forward\"") && Contains("\"exposed exchange\"") && Contains("\"idle (bubble)\""));
    CHECK_THAT(script, !Contains("\"other kernels\"") && !Contains("set label 4"));
    CHECK(after(script, "set xrange [0:") == Approx(1.005 * 2));
    CHECK_THAT(script, Contains("set xlabel 'time [s]'"));
}

// A stair of 2, 6 and 3 GiB. 16 GiB are less than thrice 6: shown, and the axis reaches 1.12 x 16; between ticks 5 GiB, as two
// or more of 1, 2, 5 shall show below 16. A device of 64 GiB is out of the picture: the axis reaches 1.12 x 6, ticks of 2.
TEST_CASE("memory is a stair beneath the step, with the device's line where it is near") {
    Gantt g = two_ranks();
    const std::string near = script_of("near", [&](const std::string& path) { plot_gantts(std::vector{g}, path); });
    CHECK_THAT(near, Contains("$m0 << EOD\n0 2\n0 2\n0.5 2\n0.5 6\n1.625 6\n1.625 3\nEOD\n"));
    CHECK_THAT(near, Contains("16 with lines dt 2") && Contains("memory of rank 0 [GiB]\\ndashed: the device's") && Contains("set ytics 5 "));
    CHECK(after(near, "textcolor '#333333'\nset yrange [0:") == Approx(1.12 * 16));
    g.capacity = Bytes(64 * gib);
    const std::string far = script_of("far", [&](const std::string& path) { plot_gantts(std::vector{g}, path); });
    CHECK_THAT(far, !Contains("dt 2 lw 1.2") && !Contains("dashed") && Contains("set ytics 2 "));
    CHECK(after(far, "textcolor '#333333'\nset yrange [0:") == Approx(1.12 * 6));
}

TEST_CASE("several steps share one axis, as long as the longest, each under its name") {
    Gantt a = two_ranks(), b = two_ranks();
    b.title = "other";
    b.step = Seconds(0.5);
    b.memory.clear();
    const std::string script = script_of("two", [&](const std::string& path) { plot_gantts(std::vector{a, b}, path); });
    CHECK_THAT(script, Contains("2 steps on one axis") && !Contains("job: one step"));
    CHECK(after(script, "set xrange [0:") == Approx(1.005 * 2));
    CHECK_THAT(script, Contains("set label 4 \"job, 2000.0 ms") && Contains("; beneath: memory of rank 0 [GiB]"));
    CHECK_THAT(script, Contains("set label 4 \"other, 500.0 ms\""));
    CHECK_THAT(script, Contains("$g1k0 << EOD\n") && !Contains("$m1 "));
    // The time is written once, below the last.
    CHECK(script.find("set xlabel 'time [s]'") > script.find("$g1k0"));
    CHECK(script.find("set xlabel 'time [s]'") == script.rfind("set xlabel 'time [s]'"));
}

// Axes reach a factor of 1.4 and 1.5 beyond the points above 0. A range of more than 1000 has prefixes on its y axis.
TEST_CASE("curves are drawn point by point, on axes a little wider") {
    const auto script = [](double highest) {
        return script_of("curves", [&](const std::string& path) {
            plot_curves({{"ring", {{0, 1}, {1024, 2}, {4096, highest}}, {{1024, 2.5}}}, {"tree", {}, {{2048, 4}}}}, "t", "x", "y", path);
        });
    };
    const std::string narrow = script(2000), wide = script(2048);
    CHECK_THAT(narrow, Contains("$measured0 << EOD\n1024 2\n4096 2000\nEOD\n"));
    CHECK_THAT(narrow, Contains("$fitted0 << EOD\n1024 2.5\nEOD\n") && Contains("$fitted1 << EOD\n2048 4\nEOD\n"));
    CHECK_THAT(narrow, Contains("left out, not above 0: 1") && Contains("set format y '%.6g'"));
    CHECK_THAT(wide, Contains("set format y '%.0s %c'"));
    CHECK(after(narrow, "set xrange [") == Approx(1024 / 1.4));
    CHECK(after(narrow, "set yrange [") == Approx(2 / 1.5));
    CHECK_THAT(narrow, Contains("ring, fit") && Contains("ring, measured") && Contains("tree, fit") && !Contains("tree, measured"));
}

// 10 ms predicted as 20, in six parts of 50, 10, 20, 0, 15 and 5 %: the axis reaches 1.06 x 20.
TEST_CASE("bars are the parts of the prediction beside the measured step") {
    const std::vector<Comparison> cases{compared("run-a", "s", 10, 20, 18, 22), compared("run-b", "s", 8, 4, 4, 4)};
    const std::string script =
        script_of("bars", [&](const std::string& path) { plot_breakdown(cases, "t", path); });
    CHECK_THAT(script, Contains("$bars << EOD\n10 2 4 0 3 1 10\n2 0.4 0.8 0 0.6 0.2 8\nEOD\n"));
    CHECK_THAT(script, Contains("set xtics (\"a\" 0,\"b\" 1)") && Contains("all names begin with run-"));
    CHECK(after(script, "set ylabel 'step [ms]' offset 0.5\nset yrange [0:") == Approx(1.06 * 20));
    CHECK(after(script, "set xrange [-0.7:") == Approx(1.7));
}

// Within a factor of 4 the axes are linear: 8 % of the width and 20 % of the highest beyond the data.
TEST_CASE("measured against predicted: linear within a factor of four, and bars are explained where there are some") {
    const auto script = [](const std::vector<Comparison>& cases) {
        return script_of("scatter", [&](const std::string& path) { plot_scatter(cases, "t", path); });
    };
    const std::string exact = script({compared("a", "s", 10, 20, 20, 20)}), wide = script({compared("a", "s", 10, 20, 18, 50)});
    CHECK_THAT(exact, Contains("$series0 << EOD\n10 20 20 20 16 ") && !Contains("p10..p90 of the prediction") && !Contains("logscale"));
    CHECK(after(exact, "set xrange [") == Approx(10 - (0.08 * 10 + 0.2 * 20)));
    CHECK_THAT(wide, Contains("bars: p10..p90 of the prediction") && Contains("set logscale xy"));
    CHECK(after(wide, "set xrange [") == Approx(10 / std::pow(5, 0.06)));
}

// The x axis reaches 1.15 beyond 16 and 256 experts, the y axis is logarithmic from a factor of 20 on.
TEST_CASE("steps along the experts have a log axis where they differ by more than twentyfold") {
    const auto script = [](double highest) {
        std::vector<Comparison> cases{compared("a", "s", 10, 11, 10, 12), compared("b", "s", highest, 20, 20, 20)};
        cases[1].what.x = 256;
        return script_of("experts", [&](const std::string& path) { plot_against_experts(cases, "t", path); });
    };
    const std::string linear = script(200), logarithmic = script(201);
    CHECK_THAT(linear, Contains("set xlabel 'experts of the layer, over all ranks'") && Contains("set xtics (16,256)") && !Contains("set logscale y"));
    CHECK(after(linear, "set yrange [0:") == Approx(1.06 * 200));
    CHECK(after(linear, "set xrange [") == Approx(16 / 1.15));
    CHECK_THAT(logarithmic, Contains("set logscale y"));
}
