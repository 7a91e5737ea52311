#include <catch2/catch.hpp>

#include <cmath>

#include "calibrate/fit_noise.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

// 1000 steps with 0.4 s forward, 1 s backward, an optimizer of 0.2 s in the median, and 0.2 s that
// no timer covers: 1.8 s. Every tenth step is in a burst of 25 %; every twentieth (other ones)
// waits 1 s. The optimizer's logarithm has its quartiles at +- 0.1.
StepSeries made_up() {
    StepSeries s{"run", 4, {}, {}, {}, {}};
    for (int i = 0; i < 1000; ++i) {
        const double slow = i % 10 == 0 ? 1.25 : 1, late = i % 20 == 5 ? 1 : 0;
        const double host[] = {-0.15, -0.1, 0, 0.1, 0.15};
        s.forward.push_back(0.4 * slow);
        s.backward.push_back(1.0 * slow);
        s.optimizer.push_back(0.2 * std::exp(host[i / 2 % 5]));
        s.step.push_back(s.forward.back() + s.backward.back() + s.optimizer.back() + 0.2 + late);
    }
    return s;
}

const FittedParameter& parameter(const NoiseFit& fit, const std::string& key) {
    for (const FittedParameter& p : fit.parameters)
        if (p.key == key) return p;
    throw std::logic_error("no parameter " + key);
}

}  // namespace

// There are 100 bursts of 25 %, one in (1000 x 1.8 + 100 x 0.35 + 50 + a little of the host) / 100
// = 18.9 s. A burst costs 0.35 s; at 25 % of the 1.4 / 1.8 of the time that is kernels, this is a
// length of 1.8 s: one step. 50 of 1000 steps are late; with 4 ranks each is late with 1 -
// 0.95^(1/4) = 1.27 %. Host: 0.1 / 0.6745 = 0.148. 100 + 200 + 150 quiet steps take up to 1.8 s, so
// the median one has the next host.
TEST_CASE("bursts, stragglers and the host's spread are found in steps made of them") {
    Cluster start;
    start.noise.op = 0.07;
    const NoiseFit fit = fit_noise(start, made_up());
    const Noise& noise = fit.cluster.noise;
    CHECK(noise.burst_slowdown == Approx(0.25).epsilon(0.01));
    CHECK(noise.burst_every.si() == Approx(18.9).epsilon(0.02));
    CHECK(noise.burst_length.si() == Approx(1.8).epsilon(0.03));
    CHECK(noise.straggler_rate == Approx(0.01274).epsilon(0.01));
    CHECK(noise.straggler_delay.si() == Approx(1.0).epsilon(0.03));
    CHECK(noise.straggler_spread < 0.03);
    CHECK(noise.straggler_step.si() == Approx(1.8 + 0.2 * (std::exp(0.1) - 1)).epsilon(1e-4));
    CHECK(parameter(fit, "noise.straggler_step").relative_error < 0.01);
    CHECK(noise.host == Approx(0.148).epsilon(0.02));
    CHECK(noise.op == 0.07);  // not fitted here
    CHECK(parameter(fit, "noise.burst_every").determined);
    CHECK(parameter(fit, "noise.burst_every").relative_error == Approx(0.1));  // 1 / sqrt(100)
    CHECK(fit.cluster.fitted->parameters.size() == fit.parameters.size());
}

// The same hundred slow steps, but as fifty bursts of two consecutive steps: half as many, twice as
// long and twice as far apart.
TEST_CASE("neighbouring slow steps are one burst") {
    StepSeries series = made_up();
    for (std::size_t i = 0; i < 1000; ++i) {
        const double slow = i % 20 < 2 ? 1.25 : 1;
        series.step[i] += 0.4 * slow - series.forward[i] + 1.0 * slow - series.backward[i];
        series.forward[i] = 0.4 * slow;
        series.backward[i] = 1.0 * slow;
    }
    const NoiseFit fit = fit_noise(Cluster{}, series);
    CHECK(fit.cluster.noise.burst_slowdown == Approx(0.25).epsilon(0.01));
    CHECK(fit.cluster.noise.burst_every.si() == Approx(2 * 18.9).epsilon(0.02));
    CHECK(fit.cluster.noise.burst_length.si() == Approx(2 * 1.8).epsilon(0.03));
    CHECK_THAT(fit.findings.at(0), Contains("50 bursts"));
}

// 45 forwards take 50 % more, 55 take 70 % more and 60 take 10 % more. The median excess of all 160
// is 50 %, so excesses below 0.4 x 50 % = 20 % are no bursts. The median of the remaining hundred
// is 70 %.
TEST_CASE("a slow-down is that of the bursts alone") {
    StepSeries s{"run", 1, {}, {}, {}, {}};
    for (int i = 0; i < 1600; ++i) {
        const int nth = i / 5;
        s.forward.push_back(0.5 * (i % 5 != 0 || nth >= 160 ? 1
                                   : nth < 45               ? 1.5
                                   : nth < 100              ? 1.7
                                                            : 1.1));
        s.backward.push_back(1);
        s.optimizer.push_back(0);
        s.step.push_back(s.forward.back() + 1);
    }
    const NoiseFit fit = fit_noise(Cluster{}, s);
    CHECK(fit.cluster.noise.burst_slowdown == Approx(0.7));
    CHECK_THAT(fit.findings.at(0), Contains("100 bursts"));
}

TEST_CASE(
    "whole steps alone do not tell bursts from stragglers: they keep their priors, and it is "
    "said") {
    StepSeries series = made_up();
    series.forward = series.backward = series.optimizer = {};
    Cluster start;
    start.noise.straggler_rate = 0.5;
    const NoiseFit fit = fit_noise(start, series);
    CHECK_FALSE(parameter(fit, "noise.burst_every").determined);
    CHECK_FALSE(parameter(fit, "noise.straggler_rate").determined);
    CHECK(fit.cluster.noise.straggler_rate == 0.5);
    CHECK(parameter(fit, "noise.step").determined);
    CHECK_THAT(fit.findings.back(), Contains("cannot be told apart"));
    CHECK_THAT(describe(fit), Contains("not determined, prior kept"));
}

// Three late steps are too few to determine a rate.
TEST_CASE("a process seen only now and then keeps its prior") {
    StepSeries series = made_up();
    for (std::size_t i = 0; i < 1000; ++i) {
        if (i % 20 == 5 && i > 60) series.step[i] -= 1;
        series.step[i] -= series.forward[i] + series.backward[i] - 1.4;
        series.forward[i] = 0.4;
        series.backward[i] = 1;
    }
    const NoiseFit fit = fit_noise(Cluster{}, series);
    CHECK_FALSE(parameter(fit, "noise.straggler_rate").determined);
    CHECK_FALSE(parameter(fit, "noise.burst_every").determined);
    CHECK(fit.cluster.noise.straggler_rate == 0);
    CHECK_THAT(fit.findings.at(1), Contains("3 of 1000 steps wait for a late rank; too few"));
}

// Late by 0.27 s of 1.8 s, which is 15 %. With a scatter of the host of 2 % and more, up to 12 %
// count as the host's.
TEST_CASE("a late rank that costs a step a seventh is found") {
    StepSeries series = made_up();
    for (std::size_t i = 5; i < 1000; i += 20) series.step[i] -= 0.73;
    const NoiseFit fit = fit_noise(Cluster{}, series);
    CHECK(parameter(fit, "noise.straggler_rate").determined);
    CHECK(fit.cluster.noise.straggler_delay.si() == Approx(0.27).epsilon(0.15));
}

// A run that is 1024 times as fast has the same shares, and times shorter by that factor.
TEST_CASE("noise scales with its steps") {
    StepSeries fast = made_up();
    for (std::vector<double>* values : {&fast.step, &fast.forward, &fast.backward, &fast.optimizer})
        for (double& value : *values) value /= 1024;
    const Noise slow = fit_noise(Cluster{}, made_up()).cluster.noise,
                noise = fit_noise(Cluster{}, fast).cluster.noise;
    CHECK(noise.burst_every.si() == Approx(slow.burst_every.si() / 1024).epsilon(0.01));
    CHECK(noise.burst_length.si() == Approx(slow.burst_length.si() / 1024).epsilon(0.01));
    CHECK(noise.straggler_delay.si() == Approx(slow.straggler_delay.si() / 1024).epsilon(1e-3));
    CHECK(noise.straggler_rate == slow.straggler_rate);
    CHECK(noise.burst_slowdown == slow.burst_slowdown);
}

TEST_CASE("medians give no noise, and few steps none either") {
    CHECK_THROWS_WITH(
        fit_noise(Cluster{}, longest_series({{"a", "s", "m", 0, 4, "step", -1, -1, 1.0, "s"}})),
        Contains("0 steady steps of phase step"));
}

TEST_CASE(
    "the longest recorded series counts, from its first steady step, with the steps that have "
    "every phase") {
    std::vector<Sample> samples;
    for (int step = 0; step < 100; ++step) {
        samples.push_back({"long", "s", "m", 0, 4, "step", -1, step, 2.0, "s"});
        if (step < 10) samples.push_back({"short", "s", "m", 0, 4, "step", -1, step, 2.0, "s"});
        if (step != 50)
            for (const char* phase : {"forward", "backward", "optimizer"})
                samples.push_back({"long", "s", "m", 0, 4, phase, -1, step, 0.5, "s"});
    }
    const StepSeries series = longest_series(samples);
    CHECK(series.run_id == "long");
    CHECK(series.ranks == 4);
    CHECK(series.step.size() == 69);  // 30 .. 99 without 50
    CHECK(series.forward.size() == 69);
}

// A rate from n events has the error 1 / sqrt(n): 100 bursts, 50 late steps, 1000 steps. Relative
// to that, a burst's slow-down has 0.5 and its length 1.4; the median lateness has 1.25 of the
// spread, and the spread 0.8.
TEST_CASE("each part of the noise is known as well as its events are many") {
    const NoiseFit fit = fit_noise(Cluster{}, made_up());
    const auto error = [&](const char* key) { return parameter(fit, key).relative_error; };
    CHECK(error("noise.step") == Approx(1 / std::sqrt(1000.0)));
    CHECK(error("noise.host") == Approx(1 / std::sqrt(1000.0)));
    CHECK(error("noise.burst_slowdown") == Approx(0.05));
    CHECK(error("noise.burst_every") == Approx(0.1));
    CHECK(error("noise.burst_length") == Approx(0.14));
    CHECK(error("noise.straggler_rate") == Approx(1 / std::sqrt(50.0)));
    CHECK(error("noise.straggler_spread") == Approx(0.8 / std::sqrt(50.0)));
    CHECK(error("noise.straggler_delay") <= 1.25 * 0.03 / std::sqrt(50.0));
    CHECK(parameter(fit, "noise.step").value == "0");  // all quiet forwards take the same time
    CHECK(fit.cluster.fitted->samples == 1000);
    CHECK(fit.findings.size() == 2);
    CHECK(fit.findings[0].starts_with(
        "100 bursts of slow kernels: kernels take 25 % longer for 1.8 s, every 19 s"));
    CHECK(fit.findings[1].starts_with("50 of 1000 steps wait for a late rank, by 1"));
}

// Lateness is 1, 2 and 3 s in turns: mean 2, variance 2/3, growth 1 + 1/6; so median 2 / sqrt(7/6),
// spread sqrt(log(7/6)).
TEST_CASE("lateness is the log-normal with the mean and the variance of what was seen") {
    StepSeries s{"run", 1, {}, {}, {}, {}};
    for (int i = 0; i < 900; ++i) {
        s.forward.push_back(0.4);
        s.backward.push_back(1);
        s.optimizer.push_back(0);
        s.step.push_back(1.6 + (i % 30 == 0 ? 1 + i / 30 % 3 : 0));
    }
    const NoiseFit fit = fit_noise(Cluster{}, s);
    CHECK(fit.cluster.noise.straggler_rate == Approx(1.0 / 30).epsilon(1e-3));  // one rank
    CHECK(fit.cluster.noise.straggler_delay.si() == Approx(2 / std::sqrt(7.0 / 6)).epsilon(1e-3));
    CHECK(fit.cluster.noise.straggler_spread == Approx(std::sqrt(std::log(7.0 / 6))).epsilon(2e-3));
    CHECK(parameter(fit, "noise.straggler_delay").relative_error ==
          Approx(1.25 * std::sqrt(std::log(7.0 / 6)) / std::sqrt(30.0)));
    // An optimizer without time has no spread, and without bursts nothing is determined about them.
    CHECK_FALSE(parameter(fit, "noise.host").determined);
    CHECK_FALSE(parameter(fit, "noise.burst_every").determined);
    CHECK(fit.findings[0] == "0 bursts of slow kernels; too few to tell their rate");
    CHECK(fit.findings.back() ==
          "the optimizer spreads like the kernels: the host's load is not determined");
    // Nine late steps are too few, ten are enough.
    for (const int most : {9, 10}) {
        StepSeries few = s;
        for (std::size_t i = 0; i < few.step.size(); ++i)
            few.step[i] = i % 30 == 0 && i / 30 < static_cast<std::size_t>(most) ? 3 : 1.6;
        CHECK(parameter(fit_noise(Cluster{}, few), "noise.straggler_rate").determined ==
              (most == 10));
    }
    s.step.resize(49);
    s.forward.clear();
    s.backward.clear();
    s.optimizer.clear();
    CHECK_THROWS_WITH(fit_noise(Cluster{}, s), Contains("49 steady steps"));
    s.step.push_back(1.6);
    CHECK(fit_noise(Cluster{}, s).findings.at(0) ==
          "only whole steps were recorded: bursts, stragglers and host load cannot be told apart");
}
