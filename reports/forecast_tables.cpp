#include "reports/forecast_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "measured/medians.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "reports/campaign_tables.h"
#include "sim/interval.h"
#include "sim/scatter.h"

namespace stepcast {
namespace {

std::string bar(double share) {
    const auto width = as_index(std::lround(std::clamp(share, 0.0, 1.0) * 50));
    return width == 0 ? "" : "  " + std::string(width, '#');
}

std::string breakdown_lines(const Breakdown& b) {
    const Seconds sum = total(b);
    std::vector<Seconds> times;
    for (const StepPart& part : parts_of(b)) times.push_back(part.time);
    std::string text;
    for (const auto& [name, key, time] : parts_of(b)) {
        const double share = sum > Seconds(0) ? time / sum : 0;
        text += fmt::format("  {:<22} {:>11} {:>8}{}\n", name, time_text(time, unit_of(times)),
                            percent_text(share), bar(share));
    }
    return text;
}

std::string memory_lines(const MemoryUse& m) {
    std::string verdict = m.fits ? "fits" : "DOES NOT FIT", chance;
    if (m.capacity > Bytes(0)) {
        const Bytes needed = m.peak + m.overheads,
                    gap = m.fits ? m.capacity - needed : needed - m.capacity;
        verdict = fmt::format(
            "of {}: {}", bytes_text(m.capacity),
            m.fits ? "fits, " + bytes_text(gap) + " free" + (m.tight ? ", within the margin" : "")
                   : verdict + ", " + bytes_text(gap) + " too much");
        chance = "  P(out of memory) " + chance_text(m.out_of_memory) + "\n";
    }
    const std::string overheads =
        m.overheads > Bytes(0)
            ? fmt::format(", with context and allocator {}", bytes_text(m.peak + m.overheads))
            : "";
    return fmt::format("highest peak memory of a rank {}{} {}\n", bytes_text(m.peak), overheads,
                       verdict) +
           chance +
           wrapped(
               fmt::format("  weights {}, gradients {}, optimizer {}, activations {}, buffers {}",
                           bytes_text(m.weights), bytes_text(m.gradients), bytes_text(m.optimizer),
                           bytes_text(m.activations), bytes_text(m.buffers)));
}

std::string phase_lines(const Forecast& f) {
    const auto range = [](const Interval& interval) {
        return has_spread(interval) ? range_cell(interval) : Cell{};
    };
    return text_of(
        {"",
         {{"phases", 23, true}, {"time", 11}, {has_spread(f.step) ? "p10 .. p90" : "", 0, true}},
         {{{"  forward"}, time_cell(f.phases.forward), range(f.forward)},
          {{"  backward"}, time_cell(f.phases.backward), range(f.backward)},
          {{"  gradient sync"}, time_cell(f.phases.gradient_sync), {}},
          {{"  optimizer"}, time_cell(f.phases.optimizer), {}}}});
}

std::string framework_text(const Forecast& f) {
    if (f.framework == default_framework) return f.framework + " (none named)";
    return f.framework + (f.framework_steps > 0
                              ? fmt::format(" ({} {} steps)",
                                            f.framework_as_begun ? "compared with" : "fitted to",
                                            f.framework_steps)
                              : "");
}

// The components of p10 and p90, each as if it were the only one.
std::string doubts_line(const Doubts& d) {
    const auto reach = [](double faster, double slower) {
        return fmt::format("{:+.0f} .. {:+.0f} %", 100 * std::expm1(-faster),
                           100 * std::expm1(slower));
    };
    const auto [less, more] = reach_of_constants(d);
    std::string text = fmt::format(
        "interval: steps of this framework and device that no fit has read {}; constants {}",
        reach(d.faster, d.slower), reach(less, more));
    if (d.draws_faster > 0 || d.draws_slower > 0)
        text += fmt::format("; draws {}", reach(d.draws_faster, d.draws_slower));
    for (const OtherReading& r : d.readings)
        text += fmt::format("; {}: {:+.0f} %", r.what, 100 * (r.step - 1));
    return wrapped(text);
}

std::string energy_line(const Forecast& f) {
    const double tokens = f.tokens_per_second * f.step.p50.si();
    const double watts = f.energy.si() / f.step.p50.si() / f.gpus;
    return fmt::format("energy of the boards {} a step, {} a token; {:.0f} W a GPU\n",
                       joules_text(f.energy), joules_text(f.energy / tokens), watts);
}

// Cut between words to the width of a table; `more` follows uncut.
std::string one_line(const std::string& text, const std::string& more) {
    if (text.size() + more.size() <= table_width) return text + more + "\n";
    const std::size_t room = table_width - more.size() - 3;
    return text.substr(0, text.rfind(' ', room)) + " .." + more + "\n";
}

}  // namespace

std::string every_note(const std::vector<Note>& notes) {
    std::string text;
    for (const Note& note : notes) text += wrapped("note: " + to_string(note));
    return text;
}

std::string brief_notes(const std::vector<Note>& notes) {
    std::vector<std::string> laws, others;
    std::size_t undetermined = 0;
    for (const Note& n : notes) {
        if (n.kind == Note::Kind::extrapolated)
            laws.push_back(n.key);
        else if (n.kind == Note::Kind::undetermined)
            ++undetermined;
        else
            others.push_back(n.text);
    }
    // each once, even if a step is both below and above the fitted range
    laws.erase(std::unique(laws.begin(), laws.end()), laws.end());
    std::string known = laws.empty() ? "" : fmt::format("extrapolated: {}", joined(laws, ", "));
    if (undetermined > 0)
        known += fmt::format("{}{} parameters kept their prior", known.empty() ? "" : "; ",
                             undetermined);
    constexpr std::size_t most = 4;  // others that are said, a line each
    const bool all_said = known.empty() && others.size() <= 1;
    const std::string why = all_said ? "" : " (--explain says more)";
    if (others.empty()) return known.empty() ? "" : one_line("note: " + known, why);
    std::string text = known.empty() ? "" : one_line("note: " + known, "");
    for (std::size_t i = 0; i < std::min(most, others.size()); ++i) {
        const bool last = i + 1 == std::min(most, others.size());
        text +=
            one_line("note: " + others[i],
                     !last                  ? ""
                     : others.size() > most ? fmt::format(" (+{}: --explain)", others.size() - most)
                                            : why);
    }
    return text;
}

std::string masked_text(const Forecast& f) {
    const double masked = f.masked_flops_utilization;
    return masked > 0 && masked < f.model_flops_utilization ? "; counted " + percent_text(masked)
                                                            : "";
}

std::string drawn_text(const Forecast& f) {
    if (!f.drawn) return "";
    const bool stops = f.memory.fits && !f.drawn->stops.empty();
    const std::string step =
        f.drawn->step > 0 ? fmt::format("the step takes {:.2f} x and needs", f.drawn->step)
                          : "the step, which has too many tasks to be simulated with it, needs";
    return fmt::format("experts balanced: drawn by an untrained gate {} {}{}", step,
                       bytes_text(f.drawn->memory),
                       stops ? fmt::format("; it no longer fits with routing.kind = {}, {}",
                                           f.drawn->stops, bytes_text(f.drawn->stops_at))
                             : "");
}

std::string unequal_text(const UnequalStages& u, Seconds step) {
    std::string text = fmt::format(
        "unequal stages: {} of the step ({}), as stage {} of {} works {:.1f} x the median{}",
        percent_text(u.lost / step), time_text(u.lost), u.stage + 1, u.stages, u.over_median,
        u.logits ? ": logits" : "");
    if (!u.layout.empty())
        text += fmt::format("; layout={}, stage_layers=[{}], gives {} ({})", u.layout,
                            joined(u.layers, ","), time_text(u.step),
                            signed_percent_text(u.step / step - 1));
    return text;
}

std::string forecast_table(const Forecast& f, bool all_notes) {
    const UnitOfTime unit = unit_of({f.step.p50, f.step.p10, f.step.p90});
    std::string text = fmt::format("step {}", time_text(f.step.p50, unit));
    if (has_spread(f.step)) text += fmt::format("   p10..p90 {}", range_text(f.step, unit));
    if (f.draws > 1)
        text += fmt::format(", mean {}, {} draws", time_text(f.step.mean, unit), f.draws);
    text +=
        "\n" + wrapped(fmt::format("{} on {}{}, {}", f.experiment, f.cluster,
                                   f.framework.empty() ? "" : ", framework " + framework_text(f),
                                   calibrated_text(f)));
    text += wrapped(
        fmt::format("{} tokens/s, {} a GPU; model FLOP utilization {}, {:.3g} TFLOP/s a GPU "
                    "(causal mask not counted{})",
                    count_text(f.tokens_per_second), count_text(f.tokens_per_second / f.gpus),
                    percent_text(f.model_flops_utilization), f.model_flops_per_gpu / teraflops,
                    masked_text(f)));
    if (f.energy > Joules(0)) text += energy_line(f);
    text += fmt::format("{} tasks on {} simulated ranks\n\n", count_text(real(f.tasks)),
                        f.ranks_simulated);
    const char* const which = f.draws > 1 ? " (median draw)" : "";
    text += phase_lines(f) + fmt::format("\nwhere the step of the slowest rank goes{}\n", which) +
            breakdown_lines(f.breakdown);
    if (f.unequal) text += wrapped(unequal_text(*f.unequal, f.step.p50));
    text += "\n" + memory_lines(f.memory);
    if (f.drawn) text += wrapped("  " + drawn_text(f));
    if (all_notes) text += "\n" + doubts_line(f.doubts);
    const std::string notes = all_notes ? every_note(f.notes) : brief_notes(f.notes);
    return text + (notes.empty() ? "" : "\n") + notes;
}

Table kernel_times(const Forecast& f) {
    struct Sum {
        Seconds busiest, all;
        int ranks = 0;
    };
    std::map<std::pair<std::string, Phase>, Sum> by_name;
    for (const KernelTime& k : f.kernels) {
        Sum& sum = by_name[{k.name, k.phase}];
        sum.busiest = std::max(sum.busiest, k.time);
        sum.all += k.time;
        ++sum.ranks;
    }
    std::vector<std::pair<std::pair<std::string, Phase>, Sum>> rows(by_name.begin(), by_name.end());
    std::ranges::stable_sort(rows, std::ranges::greater{},
                             [](const auto& row) { return row.second.busiest; });
    Table table{"",
                {{"kernels", 39, true},
                 {"phase", 13, true},
                 {"busiest rank", 12},
                 {"average", 11},
                 {"ranks", 5}},
                {}};
    for (const auto& [kernel, sum] : rows)
        table.rows.push_back({{kernel.first},
                              {std::string(to_string(kernel.second))},
                              time_cell(sum.busiest),
                              time_cell(sum.all / sum.ranks),
                              count_cell(sum.ranks)});
    return table;
}

std::string kernel_table(const Forecast& f) { return text_of(kernel_times(f)); }

std::string measurement_table(const std::string& experiment, const Measurement& m) {
    if (m.steps.empty())
        return fmt::format("{} executed on {}: no step was finished\n", experiment, m.device);
    const StepTimes t = median_times(m);
    const auto accepted = std::ranges::count_if(m.steps, &MeasuredStep::accepted);
    std::string text = fmt::format(
        "step {}   median of {}, {} warm-up\n", time_text(t.step),
        accepted == 0 ? fmt::format("all {} steps: NONE was accepted", m.steps.size())
                      : fmt::format("{} accepted of {} steps", accepted, m.steps.size()),
        m.warmup);
    text += wrapped(fmt::format("{} executed on {}", experiment, m.device));
    text += fmt::format("forward {}, backward {}, gradient sync {}, optimizer {}\n",
                        time_text(t.forward), time_text(t.backward), time_text(t.gradient_sync),
                        time_text(t.optimizer));
    text += fmt::format("machine {}, {} idle before the run\n", m.quiet ? "quiet" : "BUSY",
                        percent_text(m.idle_share));
    for (const std::string& line : m.kernels) text += wrapped("ran " + line);
    for (const std::string& warning : m.warnings) text += wrapped("warning: " + warning);
    return text;
}

Table columns_of(const std::vector<ForecastColumn>& columns) {
    using Forecasted = ForecastColumn;
    Table table{"", {{"", 0, true}}, {}};
    for (const Forecasted& c : columns) table.columns.push_back({c.label});
    const auto add = [&](const std::string& name, const auto& cell) {
        std::vector<Cell> line{{name}};
        bool says_something = false;
        for (const Forecasted& c : columns)
            says_something |= line.emplace_back(Cell{cell(c)}).text != "-";
        if (says_something) table.rows.push_back(std::move(line));
    };
    const Seconds first = columns.front().forecast.step.p50;
    add("cluster", [](const Forecasted& c) {
        return c.forecast.cluster + (c.forecast.calibrated ? "" : ", uncalibrated");
    });
    add("framework", [](const Forecasted& c) {
        return c.forecast.framework.empty() ? "-" : c.forecast.framework;
    });
    add("parallel layout",
        [](const Forecasted& c) { return c.forecast.split.empty() ? "-" : c.forecast.split; });
    add("sequences x tokens", [](const Forecasted& c) {
        return c.forecast.sequences == 0 ? "-"
                                         : fmt::format("{} x {}", count_text(c.forecast.sequences),
                                                       count_text(c.forecast.seq));
    });
    add("step", [](const Forecasted& c) { return time_text(c.forecast.step.p50); });
    add("  p10 .. p90", [](const Forecasted& c) { return range_text(c.forecast.step); });
    add("  against the first", [&](const Forecasted& c) {
        const double more = c.forecast.step.p50 / first - 1;
        return !c.forecast.memory.fits && more < 0 ? "does not fit" : signed_percent_text(more);
    });
    add("tokens/s", [](const Forecasted& c) { return count_text(c.forecast.tokens_per_second); });
    add("MFU, unmasked",
        [](const Forecasted& c) { return percent_text(c.forecast.model_flops_utilization); });
    const auto add_parts = [&](const auto& parts) {
        const std::vector<StepPart> of_first = parts(columns.front());
        for (const std::size_t i : indices_of(of_first))
            add(of_first[i].name, [&](const Forecasted& c) { return time_text(parts(c)[i].time); });
    };
    add_parts([](const Forecasted& c) { return phases_of(c.forecast.phases); });
    add_parts([](const Forecasted& c) { return parts_of(c.forecast.breakdown); });
    add("highest peak memory",
        [](const Forecasted& c) { return bytes_text(c.forecast.memory.peak); });
    add("  fits", [](const Forecasted& c) { return c.forecast.memory.fits ? "yes" : "NO"; });
    if (std::ranges::none_of(columns, [](const Forecasted& c) { return c.campaign.has_value(); }))
        return table;
    add("training, time", [](const Forecasted& c) { return days_text(*c.campaign); });
    add("  money", [](const Forecasted& c) { return money_text(*c.campaign); });
    add("  energy, at most", [](const Forecasted& c) { return energy_text(*c.campaign); });
    return table;
}

std::string columns_table(const std::vector<ForecastColumn>& columns) {
    return text_of(columns_of(columns));
}

}  // namespace stepcast
