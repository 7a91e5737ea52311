// Golden texts, in six digits, of everything but the forecast of drawn experiments: why a step
// takes as long as it does, its picture, its labels, the best splits around it and the training
// that it is part of.
#include "sim/campaign.h"
#include "sim/explain/explain.h"
#include "sim/gantt.h"
#include "sim/sweep/sweep.h"
#include "tests/golden_text.h"
#include "tests/sim/drawn_experiments.h"

#include <span>

#include <fmt/format.h>

using namespace stepcast;

namespace {

template <class T>
std::span<const T> first(const std::vector<T>& all) {
    return std::span(all).first(std::min<std::size_t>(all.size(), 15));
}

std::string why(const Experiment& e) {
    const Explanation x = explain(e);
    std::string text =
        fmt::format("step {:.6g}, uncertain by {:.4g}\n", x.step.si(), x.uncertainty.si());
    for (const PathShare& p : x.path)
        text += fmt::format("  {} {} {} {:.6g} {}\n", p.kind, to_string(p.link), p.on_host,
                            p.time.si(), p.tasks);
    for (const IdleTime& i : {x.slowest, x.median})
        text += fmt::format("  rank {} for {}: {:.6g} {:.6g} {:.6g} {:.6g} {:.6g}\n", i.rank,
                            i.stands_for, i.busy.si(), i.bubble.si(), i.straggler.si(),
                            i.exposed_communication.si(), i.host.si());
    for (const Elasticity& l : first(x.elasticities))
        text += fmt::format("  {} {} {:.5g} {:.5g}\n", l.key, l.value, l.simulated.si(),
                            l.along_path.si());
    text += fmt::format("  {} without effect\n", x.without_effect.size());
    for (const Uncertainty& u : first(x.uncertainties))
        text += fmt::format("  {} {} {} {:.4g} {:.4g} {:.4g}\n", u.key, u.value,
                            to_string(u.source), u.relative_error, u.widening.si(), u.share);
    return text;
}

std::string picture_text(const Experiment& e) {
    const Prediction p = predict_step(e);
    const Gantt g = gantt_of(e, p);
    std::string text = fmt::format("{}, {:.6g} s, {} {:.6g}\n", g.title, g.step.si(),
                                   g.memory_label, g.capacity.si());
    for (const GanttRow& row : g.rows) {
        text += "  " + row.label + ":";
        for (std::size_t i = 0; i < row.boxes.size(); i += 1 + row.boxes.size() / 12) {
            const GanttBox& b = row.boxes[i];
            text += fmt::format(" {}{}:{:.5g}..{:.5g}", static_cast<int>(b.kind), b.micro_batch,
                                1e6 * b.start.si(), 1e6 * b.finish.si());
        }
        text += fmt::format(" of {}\n", row.boxes.size());
    }
    for (std::size_t i = 0; i < g.memory.size(); i += 1 + g.memory.size() / 8)
        text += fmt::format("  {:.5g} us {:.6g} B\n", 1e6 * g.memory[i].first.si(),
                            g.memory[i].second.si());
    for (const CostBasis& b : p.forecast.basis)
        text += fmt::format("  {} {} {} {:.5g}\n", b.kind, b.key, b.measured, b.share);
    for (std::size_t i = 0; i < p.forecast.kernels.size();
         i += 1 + p.forecast.kernels.size() / 10) {
        const KernelTime& k = p.forecast.kernels[i];
        text += fmt::format("  {} {} {} {:.6g}\n", k.name, to_string(k.phase), k.rank, k.time.si());
    }
    long micro = 0, layer = 0;  // position-weighted sums, so that swapped labels show
    const std::size_t labelled = p.graph.has_labels() ? p.graph.size() : 0;
    for (TaskId t = 0; t < labelled; ++t)
        micro += p.graph.label(t).micro_batch * static_cast<long>(t % 101),
            layer += p.graph.label(t).layer * static_cast<long>(t % 103);
    return text + fmt::format("  labels {} {} {}\n", labelled, micro, layer);
}

std::string best(const Experiment& e, bool second) {
    SweepQuestion q;
    q.experiment = e;
    q.experiment.cluster.gpu.memory = Bytes(second ? 4e7 : 1e10);
    q.experiment.parallelism.global_batch = 32;
    for (const char* axis :
         {"parallelism.tp=1,2,4", "parallelism.pp=1,2,4", "parallelism.zero=0,1,3",
          "parallelism.micro_batch=1,2", "parallelism.recompute=none,full", "parallelism.vp=1,2"})
        q.axes.push_back(parse_axis(axis));
    if (second) q.second = Objective::memory;
    std::string text;
    try {
        const SweepAnswer a = sweep(q, {.threads = 1, .map = true});
        for (const auto* rows : {&a.best, &a.scaling})
            for (const SweepRow& row : *rows) {
                for (const auto& [key, value] : row.settings) text += fmt::format(" {}", value);
                text += fmt::format(": {:.6g} {:.6g} {:.6g} {:.6g} {:.6g}\n", row.step.si(),
                                    row.lower.si(), row.estimate.si(), row.peak.si(),
                                    row.tokens_per_second);
            }
        text += fmt::format("  {} points {} legal {} feasible {} bounded {} simulated {} twins\n",
                            a.counts.points, a.counts.legal, a.counts.feasible,
                            a.counts.bounded_away, a.counts.simulated, a.counts.twins);
        for (const auto* reasons : {&a.counts.illegal, &a.counts.infeasible})
            for (const auto& [reason, count] : *reasons)
                text += fmt::format("  {}: {}\n", reason, count);
        if (a.points)
            text += fmt::format("  {} points of {} keys to explore\n", a.points->points.size(),
                                a.points->keys.size());
    } catch (const ConfigError& error) {
        text += std::string(error.what()) + "\n";
    }
    return text;
}

std::string training(const Experiment& e) {
    Training t;
    t.tokens = 1e12;
    t.market.currency = "USD";
    t.market.failures = {Seconds(1e8), Seconds(30), Seconds(600), "own"};
    t.market.offers = {
        {"test", 2.5, "a list", Watts(700), Watts(100), Watts(250), 1.2, "a datasheet"}};
    const Campaign c = campaign_of(t, e, predict(e));
    return fmt::format(
        "  {:.6g} steps on {}: useful {:.6g} of all, every {:.6g} s; {:.6g} s, {:.6g} {}, {:.6g} "
        "J\n",
        c.steps, c.ranks, c.goodput.share, c.goodput.checkpoint_every.si(), c.time[1].si(),
        c.money[1], c.currency, c.energy[1].si());
}

}  // namespace

TEST_CASE("golden answers: why, pictures, spaces and trainings of drawn experiments") {
    std::string text;
    for (std::uint64_t seed = 3; seed <= 300; seed += 13) {
        std::string taken;
        const Experiment e = drawn_experiments::draw(seed, taken);
        text += fmt::format("==== {}{}\n", seed, taken) + why(e) + picture_text(e) + training(e);
        if (seed % 3 == 0) text += best(e, seed % 2 == 0);
    }
    check_golden("sim/golden/answers.txt", text);
}
