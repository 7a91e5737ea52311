#include "reports/tables.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace stepcast {
namespace {

std::string ms(Seconds t) {
    const double value = t.si() * 1e3;
    const int decimals = value >= 100 ? 1 : value >= 1 ? 2 : 4;
    return fmt::format("{:.{}f} ms", value, decimals);
}

std::string gib(Bytes b) { return fmt::format("{:.2f} GiB", b.si() / 1073741824.0); }

std::string percent(double fraction) { return fmt::format("{:.1f} %", fraction * 100); }
std::string signed_percent(double fraction) { return fmt::format("{:+.1f} %", fraction * 100); }

std::string bar(double share) {
    const int width = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * 30));
    return std::string(static_cast<std::size_t>(width), '#');
}

std::string breakdown_lines(const Breakdown& b) {
    const std::array<std::pair<const char*, Seconds>, 6> parts{{{"compute", b.compute}, {"memory passes", b.memory},
        {"exposed communication", b.exposed_communication}, {"pipeline bubble", b.bubble}, {"imbalance", b.imbalance}, {"host", b.host}}};
    std::string text;
    for (const auto& [name, time] : parts) {
        const double share = time / total(b);
        text += fmt::format("  {:<22} {:>11} {:>7}  {}\n", name, ms(time), percent(share), bar(share));
    }
    return text;
}

std::string memory_lines(const MemoryUse& m) {
    return fmt::format("memory per rank {}: weights {}, gradients {}, optimizer {}, activations {}, buffers {}{}\n", gib(m.peak), gib(m.weights),
                       gib(m.gradients), gib(m.optimizer), gib(m.activations), gib(m.buffers), m.fits ? "" : "; DOES NOT FIT");
}

std::string summary_line(const CompareSummary& s) {
    if (s.predicted == 0) return fmt::format("0 of {} cases predicted\n", s.cases);
    std::string text = fmt::format("{} of {} cases predicted: mean error {}, median {}, p90 {}, bias {}, worst {} ({})\n", s.predicted, s.cases,
                                   percent(s.mape), percent(s.median_ape), percent(s.p90_ape), signed_percent(s.bias), signed_percent(s.worst_error), s.worst_case);
    text += fmt::format("measured inside p10..p90: {:.0f} of {}", s.inside_interval * s.predicted, s.predicted);
    if (s.rank_correlation) text += fmt::format("; rank correlation within series {:.3f}", *s.rank_correlation);
    return text + "\n";
}

std::vector<std::string> all_assumptions(const std::vector<Comparison>& comparisons) {
    std::vector<std::string> found;
    for (const Comparison& c : comparisons)
        for (const std::string& assumption : c.what.assumptions)
            if (std::find(found.begin(), found.end(), assumption) == found.end()) found.push_back(assumption);
    return found;
}

}  // namespace

std::string forecast_table(const Forecast& f) {
    std::string text = fmt::format("step {}", ms(f.step.p50));
    if (f.draws > 1) text += fmt::format("   p10..p90 {} .. {}, mean {}, {} draws of routing and noise", ms(f.step.p10), ms(f.step.p90), ms(f.step.mean), f.draws);
    text += fmt::format("\n{} on {}{}\n", f.experiment, f.cluster, f.calibrated ? "" : " (uncalibrated: datasheet values and assumed costs)");
    text += fmt::format("forward {}, backward {}, gradient sync {}, optimizer {}\n", ms(f.phases.forward), ms(f.phases.backward), ms(f.phases.gradient_sync), ms(f.phases.optimizer));
    text += fmt::format("{:.0f} tokens/s, model FLOP utilization {}, {} tasks on {} ranks\n\n", f.tokens_per_second, percent(f.model_flops_utilization), f.tasks, f.ranks_simulated);
    text += fmt::format("where the step of the slowest rank goes{}\n", f.draws > 1 ? " (median draw)" : "");
    text += breakdown_lines(f.breakdown) + "\n" + memory_lines(f.memory);
    for (const std::string& note : f.notes) text += "note: " + note + "\n";
    return text;
}

std::string measurement_table(const std::string& experiment, const Measurement& m) {
    const StepTimes t = median_times(m);
    const auto accepted = std::count_if(m.steps.begin(), m.steps.end(), [](const MeasuredStep& s) { return s.accepted; });
    std::string text = fmt::format("step {}   median of {} accepted of {} steps, {} warm-up\n", ms(t.step), accepted, m.steps.size(), m.warmup);
    text += fmt::format("{} executed on {}\n", experiment, m.device);
    text += fmt::format("forward {}, backward {}, gradient sync {}, optimizer {}\n", ms(t.forward), ms(t.backward), ms(t.gradient_sync), ms(t.optimizer));
    text += fmt::format("machine {}, {} idle before the run\n", m.quiet ? "quiet" : "BUSY", percent(m.idle_share));
    for (const std::string& warning : m.warnings) text += "warning: " + warning + "\n";
    return text;
}

std::string comparison_table(const std::vector<Comparison>& comparisons) {
    std::size_t width = 4;
    for (const Comparison& c : comparisons) width = std::min<std::size_t>(48, std::max(width, c.what.case_id.size()));
    std::string text = fmt::format("{:<{}}  {:>11}  {:>11}  {:>24}  {:>8}\n", "case", width, "measured", "predicted", "p10 .. p90", "error");
    for (const Comparison& c : comparisons) {
        if (!c.forecast) continue;
        const Interval& step = c.forecast->step;
        text += fmt::format("{:<{}}  {:>11}  {:>11}  {:>24}  {:>8}{}\n", c.what.case_id, width, ms(c.what.measured_step), ms(step.p50), ms(step.p10) + " .. " + ms(step.p90),
                            signed_percent(relative_error(c)), inside_interval(c) || step.p10 == step.p90 ? "" : "  outside");
    }
    for (const Comparison& c : comparisons)
        if (!c.forecast) text += fmt::format("{:<{}}  refused: {}\n", c.what.case_id, width, c.refused_because);
    text += summary_line(summarise(comparisons));
    for (const std::string& assumption : all_assumptions(comparisons)) text += "assumed: " + assumption + "\n";
    return text;
}

std::string comparison_csv(const std::vector<Comparison>& comparisons) {
    std::string text = "source,case_id,series,measured_s,predicted_s,p10_s,p90_s,error,refused_because\n";
    for (const Comparison& c : comparisons) {
        text += fmt::format("{},{},{},{:.9g},", c.what.source, c.what.case_id, c.what.series, c.what.measured_step.si());
        if (c.forecast) text += fmt::format("{:.9g},{:.9g},{:.9g},{:.6g},\n", c.forecast->step.p50.si(), c.forecast->step.p10.si(), c.forecast->step.p90.si(), relative_error(c));
        else text += fmt::format(",,,,\"{}\"\n", c.refused_because);
    }
    return text;
}

std::string comparison_markdown(const std::vector<Comparison>& comparisons) {
    std::string text = "| case | measured | predicted | p10 .. p90 | error |\n|---|---|---|---|---|\n";
    for (const Comparison& c : comparisons) {
        if (c.forecast)
            text += fmt::format("| {} | {} | {} | {} .. {} | {} |\n", c.what.case_id, ms(c.what.measured_step), ms(c.forecast->step.p50),
                                ms(c.forecast->step.p10), ms(c.forecast->step.p90), signed_percent(relative_error(c)));
        else text += fmt::format("| {} | {} | refused: {} | | |\n", c.what.case_id, ms(c.what.measured_step), c.refused_because);
    }
    text += "\n" + summary_line(summarise(comparisons));
    for (const std::string& assumption : all_assumptions(comparisons)) text += "\nAssumed: " + assumption + "\n";
    return text;
}

}  // namespace stepcast
