#include "reports/error_plots.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "model/base/numbers.h"
#include "reports/compare.h"
#include "reports/comparison_words.h"
#include "reports/gnuplot.h"
#include "reports/plot_frame.h"
#include "reports/table.h"

namespace stepcast {
namespace {

// Smaller letters on all axes, as both halves are narrow.
constexpr const char* smaller =
    "set tics font ',16'\nset xlabel font ',17'\nset ylabel font ',17'\n";

// The picture ends at a round number that contains nine of ten cases; the others are drawn at its
// edge.
double edge_of(const std::vector<Comparison>& comparisons) {
    std::vector<double> absolute;
    for (const Comparison& c : comparisons)
        if (c.forecast) absolute.push_back(100 * std::abs(relative_error(c)));
    std::sort(absolute.begin(), absolute.end());
    const double wide = absolute[absolute.size() * 9 / 10];
    for (const double edge : {15.0, 25.0, 50.0})
        if (1.2 * wide < edge) return edge;
    return 100;
}

std::vector<DataBlock> data_of(const CaseSeries& series, double edge) {
    Plot plot;
    for (std::size_t i = 0; const auto& [name, cases] : series)
        plot.add_block(fmt::format("error{}", i++), cases, [&](const Comparison* c) -> Row {
            return {c->what.measured_step.si(), 1.0 * c->what.experiment.workload.seq,
                    std::clamp(100 * relative_error(*c), -0.98 * edge, 0.98 * edge),
                    1.0 * mark_of(*c)};
        });
    return plot.data;
}

// One of two plots side by side; only the first has a legend.
std::string panel(const CaseSeries& series, int column, bool first) {
    Plot plot{.parts = {"'+' using 1:(-10):(10) with filledcurves lc '#efefef'",
                        "'+' using 1:(-5):(5) with filledcurves lc '#dadada'",
                        "0 with lines lc '#333333' lw 0.8"},
              .labels = {"within 10 %", "within 5 %", ""}};
    const std::string points = fmt::format(
        "$error{{0}} using {}:3:4 with points pt variable ps 1.2 lw 1.2 lc '{{1}}'", column);
    for (std::size_t i = 0; i < series.size(); ++i) plot.add_parts(i, {points.c_str()}, "");
    add_marks(plot, series, 1.2);
    return plot_command(plot.parts,
                        first ? plot.labels : std::vector<std::string>(plot.parts.size()));
}

PlotRange range_of(const CaseSeries& series, double (*value)(const Comparison&)) {
    PlotRange range;
    for (const auto& [name, cases] : series)
        for (const Comparison* c : cases) range.add(value(*c));
    return {range.low / 1.4, range.high * 1.4};
}

}  // namespace

bool plot_errors(const std::vector<Comparison>& comparisons, const std::string& title,
                 const std::string& path) {
    const CaseSeries series = series_of(comparisons, false);
    if (series.empty()) return false;
    const double edge = edge_of(comparisons);
    std::vector<std::string> legend;
    for (const auto& [name, cases] : series) legend.push_back(series_label(name, cases));
    const PlotRange steps =
        range_of(series, [](const Comparison& c) { return c.what.measured_step.si(); });
    const PlotRange lengths = range_of(series, [](const Comparison& c) {
        return real(std::max(1, c.what.experiment.workload.seq));
    });
    const double right = legend_edge(legend), middle = (0.1 + right) / 2;
    const bool beyond = std::ranges::any_of(comparisons, [edge](const Comparison& c) {
        return c.forecast && 100 * std::abs(relative_error(c)) > edge;
    });
    std::string script = frame(
        {title + machine_title(comparisons) + ": errors of " +
             count_title(comparisons, size_of(series)),
         error_text(comparisons) + (beyond ? fmt::format("; beyond {} % at the edge", edge) : ""),
         clusters_text(comparisons), legend});
    script += fmt::format(
        "set multiplot\n{}set samples 60\nset logscale x\nset yrange [{}:{}]\nset ylabel "
        "'error of the prediction [%]' offset 0.5\nset rmargin at screen {}\nset xlabel 'measured "
        "step [s]'\nset xrange "
        "[{}:{}]\n{}",
        smaller, -edge, edge, middle - 0.02, steps.low, steps.high, log_ticks(steps, "x"));
    script += panel(series, 1, true);
    script += fmt::format(
        "unset label\nunset key\nset lmargin at screen {}\nset "
        "rmargin at screen "
        "{}\nset "
        "ylabel ''\nset format y ''\nset xlabel 'length of a sequence [tokens]'\nset logscale x "
        "2\nset xrange "
        "[{}:{}]\n{}",
        middle + 0.02, right, lengths.low, lengths.high, binary_ticks(lengths, "", 5));
    render_plot({data_of(series, edge), script + panel(series, 2, false) + "unset multiplot\n"},
                path);
    return true;
}

// ---- where the error of own runs comes from

namespace {

using Shares = std::map<std::string, double>;  // percent of the measured step

// The effects of single kinds do not quite add up to the cost error; the rest is what the kinds do
// together.
Shares shares_of(const ErrorAttribution& a) {
    Shares shares;
    double sum = 0;
    for (const KindError& k : a.kinds) {
        shares[fmt::format("{}, {}", kind_words(k.kind), kind_words(to_string(k.phase)))] =
            100 * (k.effect / a.measured);
        sum += k.effect / a.measured;
    }
    shares["kinds together"] = 100 * (cost_error(a) - sum);
    shares["schedule"] = 100 * schedule_error(a);
    return shares;
}

// The parts with the largest share in any run; smaller ones are not shown.
std::vector<std::string> shown_parts(const std::vector<Shares>& runs) {
    Shares largest;
    for (const Shares& run : runs)
        for (const auto& [part, share] : run)
            largest[part] = std::max(largest[part], std::abs(share));
    std::vector<std::string> parts;
    for (const auto& [part, share] : largest)
        if (share >= 0.05) parts.push_back(part);
    std::ranges::stable_sort(parts, std::ranges::greater{},
                             [&](const auto& part) { return largest.at(part); });
    constexpr std::size_t most = 10;
    if (parts.size() > most) parts.resize(most);
    return parts;
}

}  // namespace

bool plot_attribution(const std::vector<Comparison>& comparisons, const std::string& title,
                      const std::string& path) {
    std::vector<Shares> runs;
    std::vector<std::string> names;
    for (const Comparison& c : comparisons) {
        if (!c.attribution) continue;
        runs.push_back(shares_of(*c.attribution));
        names.push_back(c.what.case_id);
    }
    if (runs.empty()) return false;
    const std::vector<std::string> parts = shown_parts(runs);
    // One box per part, stacked up or down from the end of the last box of the same sign: columns
    // x, low, high.
    Plot plot;
    std::vector<std::pair<double, double>> reach(runs.size());
    double low = -1, high = 1;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        plot.add_block(fmt::format("part{}", p), runs,
                       [&, r = std::size_t{0}](const Shares& run) mutable {
                           const auto found = run.find(parts[p]);
                           const double share = found == run.end() ? 0 : found->second;
                           double& from = share < 0 ? reach[r].first : reach[r].second;
                           Row bar{real(r++), from, from + share};
                           from += share;
                           low = std::min(low, from), high = std::max(high, from);
                           return bar;
                       });
        plot.add(
            fmt::format(
                "$part{} using 1:2:($1-0.36):($1+0.36):2:3 with boxxyerror fs solid 0.9 lc '{}'", p,
                colour(p)),
            parts[p]);
    }
    plot.add_block("whole", runs, [r = 0.0](const Shares& run) mutable -> Row {
        double whole = 0;
        for (const auto& [part, share] : run) whole += share;
        return {r++, whole};
    });
    plot.add("$whole using ($1-0.42):2:(0.84):(0) with vectors nohead lc '#000000' lw 2.5",
             "error of the step");
    const std::string settings = fmt::format(
        "set ylabel 'share of the measured step [%]'\nset xrange [-0.7:{}]\nset yrange "
        "[{}:{}]\nset xzeroaxis lt 1 lc "
        "'#333333'\nset grid noxtics\nset xtics ({})\n",
        real(runs.size()) - 0.3, low * 1.08, high * 1.08, named_ticks(names, std::identity()));
    plot.draw(title + ": where the error comes from",
              "percent of the measured step; up: predicted too slow, down: too fast", "",
              settings + bar_labels(names, ""), path);
    return true;
}

}  // namespace stepcast
