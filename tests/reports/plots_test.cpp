#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "model/base/errors.h"
#include "reports/error_plots.h"
#include "reports/gnuplot.h"
#include "reports/plot_frame.h"
#include "reports/plots.h"
#include "reports/step_plots.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using samples::compared;
namespace fs = std::filesystem;

namespace {

// PATH for the time of a test.
class PathSetTo {
public:
    explicit PathSetTo(const std::string& path)
        : before_(std::getenv("PATH") ? std::getenv("PATH") : "") {
        setenv("PATH", path.c_str(), 1);
    }
    ~PathSetTo() { setenv("PATH", before_.c_str(), 1); }
    PathSetTo(const PathSetTo&) = delete;
    PathSetTo& operator=(const PathSetTo&) = delete;

private:
    std::string before_;
};

// A folder with a program `gnuplot` that runs `body` in a shell, to stand first on PATH.
std::string fake_gnuplot(const std::string& name, const std::string& body) {
    const std::string folder = samples::temporary_folder(name);
    std::ofstream(folder + "/gnuplot") << "#!/bin/sh\n" << body << "\n";
    fs::permissions(folder + "/gnuplot", fs::perms::owner_all);
    return folder;
}

std::string message_of_plot(const std::string& path) {
    try {
        render_plot({.script = "plot x\n"}, path);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "no error";
}

bool is_empty_but_for_gnuplot(const std::string& folder) {
    for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().filename() != "gnuplot") return false;
    return true;
}

std::vector<Comparison> nine_cases() {
    std::vector<Comparison> cases;
    for (const char* system : {"fast_moe", "faster_moe", "mix_moe"})
        for (const double experts : {16.0, 64.0, 256.0}) {
            cases.push_back(compared(std::string("bench-") + system, system, experts,
                                     experts * 1.05, experts * 0.9, experts * 1.1));
            cases.back().what.x = experts;
        }
    return cases;
}

}  // namespace

TEST_CASE("Without gnuplot on PATH a plot names the package to install") {
    const std::string folder = samples::temporary_folder("no_gnuplot");
    const PathSetTo path(folder);
    CHECK(message_of_plot(folder + "/p") ==
          folder + "/p.png: no gnuplot on PATH; install the Debian package gnuplot-nox");
}

TEST_CASE("A gnuplot that exits at once is noticed, with its status and last words") {
    const std::string folder =
        fake_gnuplot("gnuplot_exits", "echo 'cannot open shared object' >&2; exit 3");
    const PathSetTo path(folder + ":" + std::getenv("PATH"));
    CHECK_THAT(
        message_of_plot(folder + "/p"),
        Catch::Contains(
            "p.png: gnuplot made no picture: it ended with status 3: cannot open shared object") &&
            Catch::Contains("gnuplot-nox"));
    CHECK(is_empty_but_for_gnuplot(folder));
}

TEST_CASE("A gnuplot that reads everything and writes nothing is noticed") {
    const std::string folder = fake_gnuplot("gnuplot_silent", "cat > /dev/null");
    const PathSetTo path(folder + ":" + std::getenv("PATH"));
    CHECK_THAT(message_of_plot(folder + "/p"), Catch::Contains("it wrote nothing"));
}

TEST_CASE("A gnuplot that leaves an empty or cut picture is noticed, and the picture removed") {
    for (const auto& [body, complaint] : {std::pair{":", "it wrote nothing"},
                                          std::pair{"printf half", "it wrote a broken picture"}}) {
        const std::string folder = fake_gnuplot("gnuplot_empty", body);
        const PathSetTo path(folder + ":" + std::getenv("PATH"));
        CHECK_THAT(message_of_plot(folder + "/p"), Catch::Contains(complaint));
        CHECK(is_empty_but_for_gnuplot(folder));
    }
}

TEST_CASE("A gnuplot that dies after some lines is noticed and does not take us along") {
    const std::string folder = fake_gnuplot("gnuplot_dies", "read a; read b; kill -9 $$");
    const PathSetTo path(folder + ":" + std::getenv("PATH"));
    CHECK_THAT(message_of_plot(folder + "/p"), Catch::Contains("it ended with status 137"));
    CHECK(is_empty_but_for_gnuplot(folder));
}

// 50,000 rows of three numbers and more are beyond the 64 KiB that a pipe holds.
TEST_CASE("A gnuplot that dies with much of its data unread does not take us along") {
    const std::string folder = fake_gnuplot("gnuplot_full", "exit 5");
    const PathSetTo path(folder + ":" + std::getenv("PATH"));
    const Drawing drawing{.data = {{"a", std::vector<Row>(50'000, Row{1, 2, 3})}},
                          .script = "plot $a using 1:2\n"};
    CHECK_THROWS_WITH(render_plot(drawing, folder + "/p"),
                      Catch::Contains("it ended with status 5"));
    CHECK(is_empty_but_for_gnuplot(folder));
}

TEST_CASE("A gnuplot whose path has quotes and commands is run by that path") {
    const std::string folder =
        fake_gnuplot("it's $(touch HACKED) `here`", "cat >/dev/null; echo '</svg>'");
    const PathSetTo path(folder + ":" + std::getenv("PATH"));
    CHECK_NOTHROW(render_plot({.script = "plot x\n"}, folder + "/p"));
    CHECK_FALSE(fs::exists("HACKED"));
}

// It sleeps for a minute; half a second is waited for it.
TEST_CASE("A gnuplot that hangs is given up") {
    const std::string folder = fake_gnuplot("gnuplot_hangs", "exec sleep 60");
    const PathSetTo path(folder + ":" + std::getenv("PATH"));
    const auto begin = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH(
        render_plot({.script = "plot x\n"}, folder + "/p", std::chrono::milliseconds(500)),
        Catch::Contains("it was still at it after 0.5 s and was ended"));
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
    CHECK(is_empty_but_for_gnuplot(folder));
}

TEST_CASE("A script that gnuplot refuses is told with gnuplot's words") {
    const std::string folder = samples::temporary_folder("gnuplot_refuses");
    CHECK_THROWS_WITH(render_plot({.script = "plot no_such_function(x)\n"}, folder + "/p"),
                      Catch::Contains("undefined function"));
    CHECK(fs::is_empty(folder));
}

TEST_CASE("A place where nothing can be written is said") {
    const std::string folder = samples::temporary_folder("gone");
    std::ofstream(folder + "/file") << "no folder";
    CHECK_THROWS_WITH(render_plot({.script = "plot x\n"}, folder + "/file/p"),
                      Catch::Contains("p.png: cannot be written"));
}

TEST_CASE("A path with quotes and blanks gets its pictures") {
    const std::string path = samples::temporary_folder("odd name's") + "/it's a plot";
    render_plot({.script = "plot x\n"}, path);
    CHECK(fs::file_size(path + ".png") > 1000);
    CHECK(fs::file_size(path + ".svg") > 1000);
}

// What would run in a shell, load a file or end a string, were it not quoted.
TEST_CASE("A path and a title are no commands") {
    const std::string folder = samples::temporary_folder("no_commands"), mark = folder + "/HACKED";
    const std::string evil = "o\nsystem \"touch " + mark + "\"\n#`touch " + mark + "`'\\";
    render_plot({.script = "plot x title " + gnuplot_text(evil) + "\n"},
                folder + "/" + "o\nsystem \"true\"\n#");
    CHECK_FALSE(fs::exists(mark));
    CHECK(fs::file_size(folder + "/o\nsystem \"true\"\n#.png") > 1000);
}

TEST_CASE("What a user's home says to gnuplot is not read") {
    const std::string folder = samples::temporary_folder("gnuplot_home");
    std::ofstream(folder + "/.gnuplot") << "print \"read\"\nexit status 9\n";
    const char* home = std::getenv("HOME");
    const std::string before = home ? home : "";
    setenv("HOME", folder.c_str(), 1);
    CHECK_NOTHROW(render_plot({.script = "plot x\n"}, folder + "/p"));
    before.empty() ? unsetenv("HOME") : setenv("HOME", before.c_str(), 1);
}

TEST_CASE("A gnuplot in a folder that is named from the working one is not run") {
    const std::string folder = fake_gnuplot("gnuplot_here", "exit 3");
    const fs::path before = fs::current_path();
    fs::current_path(folder);
    {
        const PathSetTo path(":.:");
        CHECK_THAT(message_of_plot(folder + "/p"), Catch::Contains("no gnuplot on PATH"));
    }
    fs::current_path(before);
}

// Two bars, whatever is in their names: every letter of both stands in the picture, and no third.
TEST_CASE("A quote in a case's name neither ends the name nor forges a bar") {
    const std::string folder = samples::temporary_folder("quotes");
    std::vector<Comparison> cases = nine_cases();
    cases.resize(2);
    cases[0].what.case_id = "19\" rack";
    cases[1].what.case_id = "<b>&\" 1 2 3 4 5 6 7\n\"forged\" 9 9 9 9 9 9 9";
    plot_breakdown(cases, "Quoted", folder + "/bars");
    const std::string svg = samples::file_text(folder + "/bars.svg");
    CHECK(svg.find("19\" rack") != std::string::npos);
    CHECK(svg.find("&lt;b") != std::string::npos);
    CHECK(svg.find("<b>") == std::string::npos);
    CHECK(svg.find("2 of 2 cases") != std::string::npos);
}

TEST_CASE("Every plot says how many of how many cases it shows and keeps names as they are") {
    const std::string folder = samples::temporary_folder("plots");
    plot_scatter(nine_cases(), "Recorded", folder + "/scatter");
    plot_against_experts(nine_cases(), "Recorded", folder + "/experts");
    plot_breakdown(nine_cases(), "Recorded", folder + "/breakdown");
    for (const char* name : {"/scatter", "/experts", "/breakdown"}) {
        const std::string svg = samples::file_text(folder + name + ".svg");
        CHECK(svg.find("Recorded on plain-x4: 9 of 9 cases") != std::string::npos);
        CHECK(samples::file_text(folder + name + ".png").starts_with("\x89PNG"));
        CHECK_FALSE(fs::exists(folder + name + ".png.part"));
    }
    CHECK(
        samples::file_text(folder + "/scatter.svg").find("faster_moe: 3 cases, mean error 5.0 %") !=
        std::string::npos);
    CHECK(samples::file_text(folder + "/experts.svg").find("mix_moe, measured") !=
          std::string::npos);
    CHECK(samples::file_text(folder + "/breakdown.svg").find("exposed communication") !=
          std::string::npos);
}

// Three of each system from one source; then three of another source.
TEST_CASE("Cases of several sources have a colour a source") {
    const std::string folder = samples::temporary_folder("sources");
    std::vector<Comparison> cases = nine_cases();
    for (std::size_t i = 0; i < 3; ++i) cases[i].what.source = "tables";
    plot_scatter(cases, "Recorded", folder + "/scatter");
    const std::string svg = samples::file_text(folder + "/scatter.svg");
    CHECK(svg.find("measurements: 6 cases") != std::string::npos);
    CHECK(svg.find("tables: 3 cases") != std::string::npos);
    CHECK(svg.find("mix_moe: ") == std::string::npos);
}

// Fourteen series of 2, 3, .. 15 cases and twelve colours: the smallest of all, then the smaller of
// the rest but "others", make one of 2 + 3 + 4 = 9 cases.
TEST_CASE("More series than colours: the smallest are one") {
    std::vector<Comparison> cases;
    for (int series = 2; series <= 15; ++series)
        for (int i = 0; i < series; ++i)
            cases.push_back(compared("c" + std::to_string(cases.size()),
                                     "s" + std::to_string(series), 20, 21, 19, 22));
    const std::string folder = samples::temporary_folder("many_series");
    plot_scatter(cases, "Many", folder + "/scatter");
    const std::string svg = samples::file_text(folder + "/scatter.svg");
    CHECK(svg.find("others: 9 cases") != std::string::npos);
    CHECK(svg.find("s4: ") == std::string::npos);
    CHECK(svg.find("s5: 5 cases") != std::string::npos);
    CHECK(svg.find("cluster plain-x4") != std::string::npos);
    cases.front().what.experiment.cluster.name = "other";
    plot_scatter(cases, "Many", folder + "/two");
    CHECK(samples::file_text(folder + "/two.svg").find("clusters other") != std::string::npos);
}

// 60 cases with errors of 1 to 60 %: the first 12 are left out.
TEST_CASE("Bars of many cases are those with the largest errors") {
    const std::string folder = samples::temporary_folder("many");
    std::vector<Comparison> cases;
    for (int i = 1; i <= 60; ++i) {
        const double p50 = 100.0 + i;
        cases.push_back(compared("case" + std::to_string(i), "s", 100, p50, p50, p50));
    }
    plot_breakdown(cases, "Many", folder + "/breakdown");
    const std::string svg = samples::file_text(folder + "/breakdown.svg");
    CHECK(svg.find("Many on plain-x4: 48 of 60 cases (12 not shown)") != std::string::npos);
    CHECK(svg.find("case13<") != std::string::npos);
    CHECK(svg.find("case12<") == std::string::npos);
}

// Nine of which one is refused and one has no position.
TEST_CASE("A plot of fewer cases than stated says so") {
    const std::string folder = samples::temporary_folder("fewer");
    std::vector<Comparison> cases = nine_cases();
    cases[0].forecast.reset();
    cases[1].what.x = 0;
    plot_scatter(cases, "Recorded", folder + "/scatter");
    CHECK(samples::file_text(folder + "/scatter.svg")
              .find("Recorded on plain-x4: 8 of 9 cases (1 refused)") != std::string::npos);
    plot_against_experts(cases, "Recorded", folder + "/experts");
    CHECK(samples::file_text(folder + "/experts.svg")
              .find("Recorded on plain-x4: 7 of 9 cases (1 refused, 1 not shown)") !=
          std::string::npos);
}

TEST_CASE("All plots that the cases allow are written, and named") {
    const std::string folder = samples::temporary_folder("all");
    CHECK(plot_comparison({samples::refused("r", "why")}, "t", folder).empty());
    CHECK(fs::is_empty(folder));
    std::vector<Comparison> cases{nine_cases()[0]};
    CHECK(plot_comparison(cases, "t", folder) ==
          std::vector<std::string>{"scatter.png", "errors.png", "breakdown.png", "experts.png"});
    cases[0].what.x = 0;
    fs::remove(folder + "/experts.png");
    CHECK(plot_comparison(cases, "t", folder) ==
          std::vector<std::string>{"scatter.png", "errors.png", "breakdown.png"});
    CHECK_FALSE(fs::exists(folder + "/experts.png"));
}

TEST_CASE("A plot of no case is not written rather than empty") {
    const std::string folder = samples::temporary_folder("none"), path = folder + "/p";
    for (const auto plot :
         {plot_scatter, plot_errors, plot_breakdown, plot_against_experts, plot_attribution})
        CHECK_FALSE(plot({samples::refused("r", "why")}, "t", path));
    CHECK(fs::is_empty(folder));
    CHECK_THROWS_AS(plot_curves({{"a", {{0, 1}}, {}}}, "t", "x", "y", path), ConfigError);
}

TEST_CASE("A single exact case, and curves with points that a log axis cannot show, still plot") {
    const std::string folder = samples::temporary_folder("single");
    plot_scatter({compared("only", "", 20, 20, 20, 20)}, "One", folder + "/scatter");
    CHECK(samples::file_text(folder + "/scatter.svg").find("One on plain-x4: 1 of 1 cases") !=
          std::string::npos);
    plot_curves(
        {{"all_reduce", {{0, 1}, {1024, 1e-5}, {4096, 2e-5}}, {{1024, 1e-5}, {4096, 1.9e-5}}}},
        "Curves", "payload [bytes]", "time [s]", folder + "/curves");
    CHECK(samples::file_text(folder + "/curves.svg").find("left out, not above 0: 1") !=
          std::string::npos);
}

// 3,000 slots of 1 ms, every other one backward, on an axis of 400 parts: each part is half
// forward, half backward.
TEST_CASE("a step of more slots than a picture holds shows shares, all along the axis") {
    Gantt gantt{.title = "many",
                .step = Seconds(3),
                .rows = {{"rank 0", {}}},
                .memory_label = {},
                .memory = {},
                .capacity = {}};
    for (int i = 0; i < 3000; ++i)
        gantt.rows[0].boxes.push_back({i % 2 == 0 ? GanttKind::forward : GanttKind::backward,
                                       Seconds(i * 1e-3), Seconds((i + 1) * 1e-3), i});
    const std::string folder = samples::temporary_folder("crowded");
    plot_gantts(std::vector{gantt}, folder + "/many");
    const std::string svg = samples::file_text(folder + "/many.svg");
    CHECK_THAT(svg, Catch::Contains("heights are shares of the time"));
    gantt.rows[0].boxes.resize(100);
    plot_gantts(std::vector{gantt}, folder + "/few");
    const std::string few = samples::file_text(folder + "/few.svg");
    CHECK_THAT(few, Catch::Contains("numbers: micro-batches"));
    CHECK(few.size() < svg.size());
    CHECK(svg.size() < 400'000);
}
