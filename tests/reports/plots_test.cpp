#include "reports/plots.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "model/errors.h"
#include "reports/gnuplot.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using samples::compared;
namespace fs = std::filesystem;

namespace {

// PATH for the time of a test.
class PathSetTo {
public:
    explicit PathSetTo(const std::string& path) : before_(std::getenv("PATH") ? std::getenv("PATH") : "") {
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
    // More than a pipe holds, so that a dead reader is written to.
    std::string script = "plot x\n";
    for (int i = 0; i < 20000; ++i) script += "# a line of a long script\n";
    try {
        render_plot(script, path);
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
            cases.push_back(compared(std::string("bench-") + system, system, experts, experts * 1.05, experts * 0.9,
                                     experts * 1.1));
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
    const std::string folder = fake_gnuplot("gnuplot_exits", "echo 'cannot open shared object' >&2; exit 3");
    const PathSetTo path(folder + ":" + std::getenv("PATH"));
    CHECK_THAT(message_of_plot(folder + "/p"),
               Catch::Contains("p.png: gnuplot made no picture: it ended with status 3: cannot open shared object") &&
                   Catch::Contains("gnuplot-nox"));
    CHECK(is_empty_but_for_gnuplot(folder));
}

TEST_CASE("A gnuplot that reads everything and writes nothing is noticed") {
    const std::string folder = fake_gnuplot("gnuplot_silent", "cat > /dev/null");
    const PathSetTo path(folder + ":" + std::getenv("PATH"));
    CHECK_THAT(message_of_plot(folder + "/p"), Catch::Contains("it wrote no file"));
}

TEST_CASE("A gnuplot that leaves an empty or cut picture is noticed, and the picture removed") {
    const std::string output = "f=$(sed -n \"s/^set output '\\(.*\\)'/\\1/p\"); ";
    for (const auto& [body, complaint] : {std::pair{": > \"$f\"", "it wrote an empty file"},
                                          std::pair{"printf half > \"$f\"", "it wrote a broken file"}}) {
        const std::string folder = fake_gnuplot("gnuplot_empty", output + body);
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

TEST_CASE("A script that gnuplot refuses is told with gnuplot's words") {
    const std::string folder = samples::temporary_folder("gnuplot_refuses");
    CHECK_THROWS_WITH(render_plot("plot no_such_function(x)\n", folder + "/p"), Catch::Contains("undefined function"));
    CHECK(fs::is_empty(folder));
}

TEST_CASE("A folder that does not exist is said") {
    CHECK_THROWS_WITH(render_plot("plot x\n", samples::temporary_folder("gone") + "/missing/p"),
                      Catch::Contains("p.png: cannot be written"));
}

TEST_CASE("A path with quotes and blanks gets its pictures") {
    const std::string path = samples::temporary_folder("odd name's") + "/it's a plot";
    render_plot("plot x\n", path);
    CHECK(fs::file_size(path + ".png") > 1000);
    CHECK(fs::file_size(path + ".svg") > 1000);
}

TEST_CASE("Every plot says how many of how many cases it shows and keeps names as they are") {
    const std::string folder = samples::temporary_folder("plots");
    plot_scatter(nine_cases(), "Recorded", folder + "/scatter");
    plot_against_experts(nine_cases(), "Recorded", folder + "/experts");
    plot_breakdown(nine_cases(), "Recorded", folder + "/breakdown");
    for (const char* name : {"/scatter", "/experts", "/breakdown"}) {
        const std::string svg = samples::file_text(folder + name + ".svg");
        CHECK(svg.find("Recorded: 9 of 9 cases") != std::string::npos);
        CHECK(samples::file_text(folder + name + ".png").starts_with("\x89PNG"));
        CHECK_FALSE(fs::exists(folder + name + ".png.part"));
    }
    CHECK(samples::file_text(folder + "/scatter.svg").find("faster_moe: 3 cases, mean error 5.0 %") !=
          std::string::npos);
    CHECK(samples::file_text(folder + "/experts.svg").find("mix_moe, measured") != std::string::npos);
    CHECK(samples::file_text(folder + "/breakdown.svg").find("exposed communication") != std::string::npos);
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
    CHECK(svg.find("Many: only 48 of 60 cases (12 not shown)") != std::string::npos);
    CHECK(svg.find("case13<") != std::string::npos);
    CHECK(svg.find("case12<") == std::string::npos);
}

// Nine of which one is refused and one has no position; the caller set out with ten.
TEST_CASE("A plot of fewer cases than stated says so") {
    const std::string folder = samples::temporary_folder("fewer");
    std::vector<Comparison> cases = nine_cases();
    cases[0].forecast.reset();
    cases[1].what.x = 0;
    plot_scatter(cases, "Recorded", folder + "/scatter");
    CHECK(samples::file_text(folder + "/scatter.svg").find("Recorded: only 8 of 9 cases (1 refused)") !=
          std::string::npos);
    plot_against_experts(cases, "Recorded", folder + "/experts", 10);
    CHECK(samples::file_text(folder + "/experts.svg").find("Recorded: only 7 of 10 cases (1 refused, 2 not shown)") !=
          std::string::npos);
}

TEST_CASE("All plots that the cases allow are written, and named") {
    const std::string folder = samples::temporary_folder("all");
    CHECK(plot_comparison({samples::refused("r", "why")}, "t", folder).empty());
    CHECK(fs::is_empty(folder));
    std::vector<Comparison> cases{nine_cases()[0]};
    CHECK(plot_comparison(cases, "t", folder) ==
          std::vector<std::string>{"scatter.png", "breakdown.png", "experts.png"});
    cases[0].what.x = 0;
    fs::remove(folder + "/experts.png");
    CHECK(plot_comparison(cases, "t", folder) == std::vector<std::string>{"scatter.png", "breakdown.png"});
    CHECK_FALSE(fs::exists(folder + "/experts.png"));
}

TEST_CASE("A plot of no case is refused rather than empty") {
    const std::string path = samples::temporary_folder("none") + "/p";
    CHECK_THROWS_AS(plot_scatter({samples::refused("r", "why")}, "t", path), ConfigError);
    CHECK_THROWS_AS(plot_against_experts({}, "t", path), ConfigError);
    CHECK_THROWS_AS(plot_breakdown({}, "t", path), ConfigError);
    CHECK_THROWS_AS(plot_curves({{"a", {{0, 1}}, {}}}, "t", "x", "y", path), ConfigError);
}

TEST_CASE("A single exact case, and curves with points that a log axis cannot show, still plot") {
    const std::string folder = samples::temporary_folder("single");
    plot_scatter({compared("only", "", 20, 20, 20, 20)}, "One", folder + "/scatter");
    CHECK(samples::file_text(folder + "/scatter.svg").find("One: 1 of 1 cases") != std::string::npos);
    plot_curves({{"all_reduce", {{0, 1}, {1024, 1e-5}, {4096, 2e-5}}, {{1024, 1e-5}, {4096, 1.9e-5}}}}, "Curves",
                "payload [bytes]", "time [s]", folder + "/curves");
    CHECK(samples::file_text(folder + "/curves.svg").find("left out, not above 0: 1") != std::string::npos);
}
