#include "sim/why/gate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>

#include "model/base/errors.h"
#include "model/input/presets.h"
#include "model/records/measurements.h"

using namespace stepcast;
using GateVerdict = GateAnswer::Verdict;

namespace {

using Random = std::mt19937_64;

// A level of its own beside the noise of single steps; one step in 25 takes half as much again.
GateRun run_of(Random& r, int steps, double between, double within, double slower = 0) {
    std::normal_distribution<double> normal(0, 1);
    const double level = between * normal(r) + std::log1p(slower);
    GateRun run{"run", {}};
    for (int i = 0; i < steps; ++i)
        run.steps.emplace_back(std::exp(level + within * normal(r)) * (r() % 25 == 0 ? 1.5 : 1.0));
    return run;
}

double share_of_failures(int runs, int steps, double between, double within, double slower) {
    Random r(7);
    int failed = 0;
    constexpr int trials = 600;
    for (int t = 0; t < trials; ++t) {
        std::vector<GateRun> history;
        for (int i = 0; i < runs; ++i) history.push_back(run_of(r, 40, between, within));
        failed += judge_run(run_of(r, steps, between, within, slower), history).verdict ==
                  GateVerdict::fail;
    }
    return failed / static_cast<double>(trials);
}

}  // namespace

// Tables of Student's t: 1 % is exceeded at 31.821 with 1 degree of freedom, 4.541 with 3, 2.764
// with 10; 10 % at 1.372 with 10.
TEST_CASE("quantiles of Student's t are those of the tables") {
    CHECK(student_quantile(0.01, 1) == Approx(31.821).epsilon(1e-4));
    CHECK(student_quantile(0.01, 3) == Approx(4.541).epsilon(1e-4));
    CHECK(student_quantile(0.01, 10) == Approx(2.764).epsilon(1e-3));
    CHECK(student_quantile(0.1, 10) == Approx(1.372).epsilon(1e-3));
}

// The median of n independent normal values scatters by 1.2533 / sqrt(n) of theirs.
TEST_CASE("the error of a level is that of a median") {
    Random r(3);
    std::normal_distribution<double> normal(0, 0.02);
    double sum = 0;
    for (int t = 0; t < 50; ++t) {
        std::vector<Seconds> steps;
        for (int i = 0; i < 100; ++i) steps.emplace_back(std::exp(normal(r)));
        sum += level_error(steps);
    }
    CHECK(sum / 50 == Approx(1.2533 * 0.02 / 10).epsilon(0.2));
}

// 600 trials at 1 %: 6 alarms are expected, 13 are three standard deviations more.
TEST_CASE("sound runs fail as seldom as stated") {
    CHECK(share_of_failures(6, 40, 0.004, 0.01, 0) <= 13.0 / 600);
    CHECK(share_of_failures(6, 10, 0.004, 0.01, 0) <= 13.0 / 600);
    CHECK(share_of_failures(12, 10, 0.002, 0.005, 0) <= 13.0 / 600);
}

TEST_CASE("a run that is 3 % slower is found in ten steps where the noise allows it") {
    CHECK(share_of_failures(12, 10, 0.002, 0.005, 0.03) >= 0.9);
}

TEST_CASE("what cannot be seen is not passed, and it is said what could be") {
    Random r(5);
    std::vector<GateRun> history;
    for (int i = 0; i < 3; ++i) history.push_back(run_of(r, 20, 0.03, 0.05));
    const GateAnswer wide = judge_run(run_of(r, 10, 0, 0.05), history);
    CHECK(wide.verdict == GateVerdict::cannot_tell);
    CHECK(wide.seen > 0.03);
    GateRun few = run_of(r, 4, 0, 0.001);
    CHECK(judge_run(few, history).verdict == GateVerdict::cannot_tell);
    CHECK(judge_run(few, history).because.find("4 steps; expected at least 5") == 0);
    const GateAnswer one = judge_run(run_of(r, 40, 0, 0.002), {run_of(r, 40, 0, 0.002)});
    CHECK(one.because.find("one run of history") != std::string::npos);
}

// Backward 1.0 s in the median of the history, 1.1 now; forward 0.4 and 0.41: backward moved more.
// What the history does not time is left out.
TEST_CASE("of the phases that a run and its history time, those that moved most come first") {
    const std::vector<Seconds> steps(10, Seconds(1.5));
    const GateRun run{
        "run",
        steps,
        {{"forward", Seconds(0.41)}, {"backward", Seconds(1.1)}, {"optimizer", Seconds(0.1)}}};
    const auto before = [&](double forward, double backward) {
        return GateRun{
            "before", steps, {{"forward", Seconds(forward)}, {"backward", Seconds(backward)}}};
    };
    const GateAnswer a = judge_run(run, {before(0.4, 1.0), before(0.4, 0.9), before(0.3, 1.3)});
    REQUIRE(a.phases.size() == 2);
    CHECK(a.phases[0] == MovedPhase{"backward", Seconds(1.1), Seconds(1.0)});
    CHECK(a.phases[1] == MovedPhase{"forward", Seconds(0.41), Seconds(0.4)});
}

TEST_CASE("a gate without history or with a share that is none is refused") {
    const GateRun run{"run", std::vector<Seconds>(10, Seconds(1))};
    CHECK_THROWS_AS(judge_run(run, {}), ConfigError);
    CHECK_THROWS_AS(judge_run(run, {run}, 0), ConfigError);
    CHECK_THROWS_AS(judge_run(run, {run}, 0.7), ConfigError);
}

// Steps as machines made them: CoCa's on four A100. A stretch of 20 consecutive steps stands for a
// run; eight before it for its history. No stretch is slowed, so what fails is a false alarm; the
// bound is 1 % of the trials and three standard deviations more.
TEST_CASE("recorded steps that nothing slows down seldom fail") {
    std::map<std::string, std::vector<Seconds>> runs;
    for (const Sample& s :
         read_measurements(home_folder() + "/calibrate/measurements/zero_coca.csv"))
        if (s.phase == "step" && s.rank == -1 && s.step >= 0) runs[s.run_id].emplace_back(s.value);
    constexpr std::size_t length = 20, before = 8;
    int trials = 0, failed = 0;
    for (const auto& [name, steps] : runs)
        for (std::size_t first = 30; first + (before + 1) * length <= steps.size(); first += 5) {
            const auto stretch = [&](std::size_t i) {
                const auto from = steps.begin() + static_cast<std::ptrdiff_t>(first + i * length);
                return GateRun{name, {from, from + static_cast<std::ptrdiff_t>(length)}};
            };
            std::vector<GateRun> history;
            for (std::size_t i = 0; i < before; ++i) history.push_back(stretch(i));
            failed += judge_run(stretch(before), history).verdict == GateVerdict::fail;
            ++trials;
        }
    REQUIRE(trials > 50);
    INFO(failed << " of " << trials);
    CHECK(failed <= 0.01 * trials + 3 * std::sqrt(0.01 * trials));
}
