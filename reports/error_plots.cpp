#include "reports/error_plots.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>

#include "measured/medians.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/records/measurements.h"
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
double edge_of(std::vector<double> absolute) {
    std::sort(absolute.begin(), absolute.end());
    const double wide = absolute[absolute.size() * 9 / 10];
    for (const double edge : {15.0, 25.0, 50.0})
        if (1.2 * wide < edge) return edge;
    return 100;
}

double percent_off(const Comparison& c) { return 100 * relative_error(c); }
double drawn_at(const Comparison& c, double edge) {
    return std::clamp(percent_off(c), -0.98 * edge, 0.98 * edge);
}

std::vector<DataBlock> data_of(const CaseSeries& series, double edge) {
    Plot plot;
    for (std::size_t i = 0; const auto& [name, cases] : series)
        plot.add_block(fmt::format("error{}", i++), cases, [&](const Comparison* c) -> Row {
            return {c->what.measured_step.si(), 1.0 * c->what.experiment.workload.seq,
                    drawn_at(*c, edge), 1.0 * mark_of(*c)};
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
    for (const std::size_t i : indices_of(series)) plot.add_parts(i, {points.c_str()}, "");
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
    std::vector<double> absolute;
    for (const Comparison& c : comparisons)
        if (c.forecast) absolute.push_back(std::abs(percent_off(c)));
    const double edge = edge_of(std::move(absolute));
    std::vector<std::string> legend;
    for (const auto& [name, cases] : series) legend.push_back(series_label(name, cases));
    const PlotRange steps =
        range_of(series, [](const Comparison& c) { return c.what.measured_step.si(); });
    const PlotRange lengths = range_of(series, [](const Comparison& c) {
        return real(std::max(1, c.what.experiment.workload.seq));
    });
    const double right = legend_edge(legend), middle = (0.1 + right) / 2;
    const bool beyond = std::ranges::any_of(comparisons, [edge](const Comparison& c) {
        return c.forecast && std::abs(percent_off(c)) > edge;
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
        smaller, -edge, edge, middle - 0.02, steps.low, steps.high, log_ticks(steps, "x", 0.5));
    script += panel(series, 1, true);
    script += fmt::format(
        "unset label\nunset key\nset lmargin at screen {}\nset "
        "rmargin at screen "
        "{}\nset "
        "ylabel ''\nset format y ''\nset xlabel 'length of a sequence [tokens]'\nset logscale x "
        "2\nset xrange "
        "[{}:{}]\n{}",
        middle + 0.02, right, lengths.low, lengths.high, binary_ticks(lengths, "", 4));
    render_plot({data_of(series, edge), script + panel(series, 2, false) + "unset multiplot\n"},
                path);
    return true;
}

// ---- errors against the size of the job, test data apart

namespace {

// Cases in one colour.
struct SizeSeries {
    std::string label;
    const char* colour;
    std::vector<const Comparison*> cases;
};
// One of the plots side by side.
struct SizePanel {
    std::string name, head;  // of its data; what its cases are
    std::vector<SizeSeries> series;
    [[nodiscard]] std::vector<const Comparison*> cases() const {
        std::vector<const Comparison*> all;
        for (const SizeSeries& s : series) append(all, s.cases);
        return all;
    }
};

int gpus_of(const Comparison& c) { return rank_count(c.what.experiment.cluster); }

// Cases of one number of GPUs lie beside each other, or their points would hide what is below.
class SideBySide {
public:
    double operator()(int gpus) {
        constexpr double golden = 0.6180339887, wide = 0.7;  // of the way to twice as many
        const double turns = golden * met_[gpus]++ + 0.5;
        return gpus * std::exp2(wide * (turns - std::floor(turns) - 0.5));
    }

private:
    std::map<int, int> met_;
};

// The classes of steps (model/presets/scatter.toml); another name stands for itself.
std::string kind_label(const std::string& kind) {
    for (const auto& [name, label] : {std::pair{"named", "framework named"},
                                      {"unnamed", "framework not named"},
                                      {"untuned", "framework named, untuned"},
                                      {"thread", "users' threads"},
                                      {"complaint", "users who find it slow"}})
        if (kind == name) return label;
    return kind;
}

std::vector<const Comparison*> predicted(const std::vector<Comparison>& comparisons) {
    std::vector<const Comparison*> cases;
    for (const Comparison& c : comparisons)
        if (c.forecast) cases.push_back(&c);
    return cases;
}

std::string head_of(const std::string& what, const std::vector<const Comparison*>& cases) {
    std::vector<double> errors;
    std::set<std::string> sources;
    for (const Comparison* c : cases) {
        errors.push_back(std::abs(relative_error(*c)));
        sources.insert(c->what.source);
    }
    return fmt::format("{}\n{} steps of {} source{}\nmedian {}, mean {}", what, errors.size(),
                       sources.size(), sources.size() == 1 ? "" : "s",
                       percent_text(quantile(errors, 0.5)), percent_text(mean(errors)));
}

// The kind with the most cases comes first, behind the others.
SizePanel test_panel(const CasesByKind& left_out) {
    SizePanel panel{"test", "", {}};
    for (const auto& [kind, comparisons] : left_out)
        if (std::vector<const Comparison*> cases = predicted(comparisons); !cases.empty())
            panel.series.push_back(
                {fmt::format("{} ({})", kind_label(kind), cases.size()), "", std::move(cases)});
    std::ranges::stable_sort(panel.series, std::ranges::greater{},
                             [](const SizeSeries& s) { return s.cases.size(); });
    for (std::size_t i = 0; SizeSeries & s : panel.series) s.colour = colour(i++);
    if (!panel.series.empty()) panel.head = head_of("test: source left out", panel.cases());
    return panel;
}

// Of each power of two that enough cases are nearest to: it, and median, p10 and p90 of the errors.
std::vector<Row> errors_by_size(const SizePanel& panel, double edge) {
    constexpr std::size_t enough = 5;
    std::map<long, std::vector<double>> powers;
    for (const Comparison* c : panel.cases())
        powers[std::lround(std::log2(gpus_of(*c)))].push_back(drawn_at(*c, edge));
    std::vector<Row> rows;
    for (const auto& [power, errors] : powers)
        if (errors.size() >= enough)
            rows.push_back({std::exp2(power), quantile(errors, 0.5), quantile(errors, 0.1),
                            quantile(errors, 0.9)});
    return rows;
}

bool is_fitted(const Comparison* c) { return c->what.evidence == Evidence::fitted; }

Plot plot_of(const SizePanel& panel, double edge) {
    Plot plot{.parts = {"'+' using 1:(-10):(10) with filledcurves lc '#efefef'",
                        "0 with lines lc '#333333' lw 0.8"},
              .labels = {"within 10 %", ""}};
    SideBySide beside;
    for (std::size_t i = 0; const SizeSeries& s : panel.series) {
        const std::string block = fmt::format("{}{}", panel.name, i++);
        plot.add_block(block, s.cases, [&](const Comparison* c) -> Row {
            return {beside(gpus_of(*c)), drawn_at(*c, edge), is_fitted(c) ? 6.0 : 7.0};
        });
        plot.add(fmt::format("${} using 1:2:3 with points pt variable ps 0.7 lw 1.2 lc '{}'", block,
                             s.colour));
    }
    plot.data.push_back({panel.name + "_sizes", errors_by_size(panel, edge)});
    plot.add(fmt::format("${}_sizes using 1:2:3:4 with yerrorbars pt 7 ps 1.1 lw 1.8 lc '#111111'",
                         panel.name),
             "median, middle eight of ten");
    return plot;
}

void add_legend(Plot& plot, const std::vector<SizePanel>& panels) {
    bool fitted = false;
    for (const SizePanel& panel : panels)
        for (const SizeSeries& s : panel.series) {
            plot.add(fmt::format("NaN with points pt 7 ps 1.2 lc '{}'", s.colour), s.label);
            fitted = fitted || std::ranges::any_of(s.cases, is_fitted);
        }
    if (fitted)
        plot.add("NaN with points pt 6 ps 1.2 lw 1.2 lc '#555555'", "ring: a fit has read it");
}

// Across: numbers of GPUs. Up: room for the heads above the edge.
std::string size_axes(const std::vector<const Comparison*>& cases, double edge) {
    PlotRange gpus;
    for (const Comparison* c : cases) gpus.add(gpus_of(*c));
    gpus = {gpus.low / 1.5, gpus.high * 1.5};
    return fmt::format(
        "{}set samples 60\nset logscale x 2\nset xrange [{:.6g}:{:.6g}]\nset yrange "
        "[{}:{:.6g}]\nset ytics "
        "{},{},{}\nset xlabel 'GPUs of the job'\nset ylabel 'error of the forecast [%]' offset "
        "0.5\n{}",
        smaller, gpus.low, gpus.high, -edge, 1.35 * edge, -edge, edge / 5, edge,
        binary_ticks(gpus, "", 5));
}

// The plots from the left margin to `right`, one beside the other.
Drawing side_by_side(const std::vector<SizePanel>& panels, std::vector<Plot> plots, double right) {
    constexpr double left = 0.1, gap = 0.04;
    const double each = (right - left + gap) / real(panels.size());
    Drawing drawing;
    for (const std::size_t i : indices_of(panels)) {
        const double from = left + real(i) * each;
        if (i > 0) drawing.script += "unset label\nunset key\nset ylabel ''\nset format y ''\n";
        drawing.script += fmt::format(
            "set lmargin at screen {:.4f}\nset rmargin at screen {:.4f}\nset label 4 {} at graph "
            "0.02,0.965 font ',16' textcolor '#111111'\n",
            from, from + each - gap, gnuplot_text(panels[i].head));
        drawing.script += plot_command(plots[i].parts, plots[i].labels);
        append(drawing.data, std::move(plots[i].data));
    }
    return drawing;
}

}  // namespace

bool plot_left_out(const CasesByKind& left_out, const std::vector<Comparison>& shipped,
                   const std::string& path) {
    std::vector<SizePanel> panels{test_panel(left_out)};
    if (panels[0].series.empty()) return false;
    std::vector<const Comparison*> cases = panels[0].cases();
    std::vector<double> absolute;
    for (const Comparison* c : cases) absolute.push_back(std::abs(percent_off(*c)));
    const double edge = edge_of(std::move(absolute));
    if (const std::vector<const Comparison*> known = predicted(shipped); !known.empty()) {
        panels.push_back(
            {"shipped",
             head_of("development and training", known),
             {{fmt::format("recipes, as shipped ({})", known.size()), "#555555", known}}});
        append(cases, known);
    }
    const auto beyond = std::ranges::count_if(
        cases, [edge](const Comparison* c) { return std::abs(percent_off(*c)) > edge; });
    std::vector<Plot> plots;
    for (const SizePanel& panel : panels) plots.push_back(plot_of(panel, edge));
    add_legend(plots[0], panels);
    const std::string at_edge =
        beyond == 0 ? "" : fmt::format("; beyond {} %, at the edge: {}", edge, beyond);
    const std::string before =
        frame({"Errors on test data, by the size of the job",
               "above 0 the forecast is too slow, below too fast" + at_edge, "", plots[0].labels}) +
        "set multiplot\n" + size_axes(cases, edge);
    const double right = legend_edge(plots[0].labels);
    Drawing drawing = side_by_side(panels, std::move(plots), right);
    drawing.script = before + drawing.script + "unset multiplot\n";
    render_plot(drawing, path);
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
    for (const std::size_t p : indices_of(parts)) {
        plot.add_block(fmt::format("part{}", p), runs,
                       [&, r = std::size_t{0}](const Shares& run) mutable {
                           const auto found = value_in(run, parts[p]);
                           const double share = found ? *found : 0;
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
        real(runs.size()) - 0.3, low * 1.08, high * 1.08,
        named_ticks(names, [](const std::string& name) { return bar_label(name, ""); }));
    plot.draw(title + ": where the error comes from",
              "percent of the measured step; up: predicted too slow, down: too fast", "",
              settings + bar_labels(names, ""), path);
    return true;
}

}  // namespace stepcast
