#include "sim/own_steps.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <cmath>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/input/fields.h"
#include "sim/interval.h"
#include "sim/scatter.h"

namespace stepcast {
namespace {

// How far forecasts of one user are off, as standard deviations of logarithms: all alike; each kind
// of work (software sets the first two, the network and the host the others); configurations, by
// distance; and a step against its repetition. Chosen on five drawn rows each of 18 tables.
constexpr double common = 0.1, configuration = 0.5, repetition = 0.04;
constexpr std::array work_shares{0.25, 0.25, 0.8, 0.8};
constexpr double error_reach = 4;  // distance of settings at which errors are still alike by 1/e
constexpr double other_word = 2, other_model = 0.5;

double distance(const OwnStep& a, const OwnStep& b) {
    double sum = 0;
    for (std::size_t i = 0; i < std::min(a.settings.size(), b.settings.size()); ++i)
        sum += std::abs(a.settings[i] - b.settings[i]);
    for (std::size_t i = 0; i < std::min(a.words.size(), b.words.size()); ++i)
        if (a.words[i] != b.words[i]) sum += i < 2 ? other_word : other_model;
    return sum;
}

double of_work(const OwnStep& a, const OwnStep& b, std::size_t kind) {
    return work_shares[kind] * work_shares[kind] * a.shares.at(kind) * b.shares.at(kind);
}

double of_configuration(const OwnStep& a, const OwnStep& b) {
    return configuration * configuration * std::exp(-distance(a, b) / error_reach);
}

double covariance(const OwnStep& a, const OwnStep& b) {
    double sum = common * common + of_configuration(a, b);
    for (const std::size_t kind : indices_of(work_shares)) sum += of_work(a, b, kind);
    return sum;
}

std::vector<double> settings_of(const Experiment& e) {
    const Parallelism& p = e.parallelism;
    const Workload& w = e.workload;
    std::vector<double> settings;
    for (const int count : {rank_count(e.cluster), p.tp, p.pp, p.vp, p.ep, p.cp, p.micro_batch,
                            w.seq, w.hidden, w.hidden, w.layers})
        settings.push_back(std::log2(std::max(1, count)));
    settings.push_back(p.zero == 3 ? other_word : 0);
    settings.push_back(p.recompute == Recompute::full ? other_word : 0);
    return settings;
}

void rescale(double factor, Forecast& f) {
    for (Interval* i : {&f.step, &f.forward, &f.backward, &f.gradient_sync, &f.optimizer})
        for (Seconds* time : {&i->mean, &i->p10, &i->p50, &i->p90}) *time *= factor;
    for (const auto part : {&StepTimes::step, &StepTimes::forward, &StepTimes::backward,
                            &StepTimes::gradient_sync, &StepTimes::optimizer})
        f.phases.*part *= factor;
    for (const auto part :
         {&Breakdown::compute, &Breakdown::memory, &Breakdown::exposed_communication,
          &Breakdown::bubble, &Breakdown::imbalance, &Breakdown::host})
        f.breakdown.*part *= factor;
    for (KernelTime& kernel : f.kernels) kernel.time *= factor;
    f.energy *= factor;
    f.tokens_per_second /= factor;
    f.model_flops_per_gpu = f.model_flops_per_gpu / factor;
    f.model_flops_utilization /= factor;
    f.masked_flops_utilization /= factor;
    if (f.unequal) {
        f.unequal->lost *= factor;
        f.unequal->step *= factor;
    }
}

// What is known of a step cannot make it less sure: the way to an end by the user's own steps, or,
// if that is shorter, as it was before them. That of the draws is added later.
double no_wider(const Narrowed& n, double before, double draws) {
    return std::min(p90_of_normal * n.deviation,
                    std::sqrt(std::max(0.0, before * before - draws * draws)));
}

std::string note_of(const Narrowed& n, std::size_t steps) {
    const auto percent = [](double log) { return fmt::format("{:+.0f} %", 100 * std::expm1(log)); };
    return fmt::format(
        "narrowed by {} measured step{} of your own: this step {}; of it common to all steps {}, "
        "GEMM and attention {}, memory-bound kernels {}, the network {}, the host {}, similar "
        "configurations {}",
        steps, steps == 1 ? "" : "s", percent(n.off), percent(n.common), percent(n.work[0]),
        percent(n.work[1]), percent(n.work[2]), percent(n.work[3]), percent(n.configuration));
}

}  // namespace

OwnStep own_step(const Experiment& e, const Forecast& f, Seconds measured) {
    const Breakdown& b = f.breakdown;
    // a rank that waits waits for such work of others
    const Seconds busy = b.compute + b.memory + b.exposed_communication + b.host;
    OwnStep step{
        .name = e.name,
        .off = measured > Seconds(0) ? std::log(measured / f.step.p50) : 0,
        .shares = {},
        .settings = settings_of(e),
        .words = {std::string(to_string(e.workload.dtype)), e.cluster.gpu.name, e.workload.name}};
    for (const Seconds part : {b.compute, b.memory, b.exposed_communication, b.host})
        step.shares.push_back(busy > Seconds(0) ? part / busy : 0);
    return step;
}

OwnSteps read_own_steps(const std::string& path) {
    OwnSteps read = read_table<OwnSteps>(path, "a file of own steps");
    for (const OwnStep& step : read.steps)
        if (step.shares.size() != work_shares.size())
            refuse("{}: step \"{}\" has {} shares; expected {}", path, step.name,
                   step.shares.size(), work_shares.size());
    return read;
}

std::string write_own_steps(const OwnSteps& own) {
    std::string text =
        "# Measured steps beside their forecasts, for --measured (docs/model.md). off: the "
        "logarithm of measured over forecast.\n";
    for (const OwnStep& s : own.steps) {
        std::string words;
        for (const std::string& word : s.words)
            words += (words.empty() ? "" : ", ") + quoted_toml(word);
        text += fmt::format(
            "\n[[step]]\nname = {}\noff = {:.6f}\nshares = [{:.6f}]\nsettings = [{:.6f}]\nwords = "
            "[{}]\n",
            quoted_toml(s.name), s.off, fmt::join(s.shares, ", "), fmt::join(s.settings, ", "),
            words);
    }
    return text;
}

Narrowed narrowed(const OwnSteps& own, const OwnStep& asked) {
    Narrowed found;
    found.work.assign(work_shares.size(), 0);
    const std::vector<OwnStep>& steps = own.steps;
    const auto count = static_cast<Eigen::Index>(steps.size());
    Eigen::MatrixXd between(count, count);
    Eigen::VectorXd offs(count), to_asked(count);
    for (Eigen::Index i = 0; i < count; ++i) {
        const OwnStep& step = steps[as_index(i)];
        for (Eigen::Index j = 0; j < count; ++j)
            between(i, j) = covariance(step, steps[as_index(j)]);
        between(i, i) += repetition * repetition;
        offs[i] = step.off;
        to_asked[i] = covariance(step, asked);
    }
    const Eigen::LLT<Eigen::MatrixXd> factor(between);
    const Eigen::VectorXd weights = factor.solve(offs), seen = factor.solve(to_asked);
    found.off = weights.dot(to_asked);
    for (Eigen::Index i = 0; i < count; ++i) {
        const OwnStep& step = steps[as_index(i)];
        found.common += weights[i] * common * common;
        found.configuration += weights[i] * of_configuration(step, asked);
        for (const std::size_t kind : indices_of(work_shares))
            found.work[kind] += weights[i] * of_work(step, asked, kind);
    }
    found.deviation = std::sqrt(std::max(0.0, covariance(asked, asked) - seen.dot(to_asked)) +
                                repetition * repetition);
    return found;
}

void narrow(const OwnSteps& own, const Experiment& e, Forecast& f) {
    if (own.steps.empty()) return;
    const Narrowed n = narrowed(own, own_step(e, f, Seconds(0)));
    const Interval before = f.step;
    rescale(std::exp(n.off), f);
    // the user's own steps replace what was assumed of anybody's
    f.doubts.constants = f.doubts.hidden = 0;
    f.doubts.readings.clear();
    f.doubts.faster = no_wider(n, std::log(before.p50 / before.p10), f.doubts.draws_faster);
    f.doubts.slower = no_wider(n, std::log(before.p90 / before.p50), f.doubts.draws_slower);
    for (Interval* i : {&f.step, &f.forward, &f.backward, &f.gradient_sync, &f.optimizer})
        *i = predictive_interval(i->p50, i->mean, f.doubts);
    f.notes.insert(f.notes.begin(), remark(note_of(n, own.steps.size())));
}

void narrow(const OwnSteps& own, const Experiment& e, Prediction& p) {
    const Seconds before = p.forecast.step.p50;
    narrow(own, e, p.forecast);
    const double factor = p.forecast.step.p50 / before;
    for (auto* times : {&p.timeline.start, &p.timeline.finish})
        for (Seconds& time : *times) time *= factor;
    p.timeline.end *= factor;
}

}  // namespace stepcast
