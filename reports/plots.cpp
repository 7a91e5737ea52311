#include "reports/plots.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "reports/compare.h"
#include "reports/comparison_words.h"
#include "reports/error_plots.h"
#include "reports/plot_frame.h"
#include "reports/table.h"

namespace stepcast {
namespace {

// The step of a case and the ends of its prediction, in the unit of the plot.
struct StepAxis {
    TimeUnit unit;
    PlotRange range;
    explicit StepAxis(const CaseSeries& series) {
        std::vector<Seconds> times;
        for (const auto& [name, cases] : series)
            for (const Comparison* c : cases)
                times.insert(times.end(),
                             {c->what.measured_step, c->forecast->step.p10, c->forecast->step.p90});
        unit = axis_unit(std::ranges::max(times) / 10);
        for (const Seconds time : times) range.add(time.si() * unit.factor);
    }
    // measured, p50, p10, p90, x, mark
    Row operator()(const Comparison* c) const {
        const Interval& step = c->forecast->step;
        Row row;
        for (const Seconds time : {c->what.measured_step, step.p50, step.p10, step.p90})
            row.push_back(time.si() * unit.factor);
        row.insert(row.end(), {c->what.x, 1.0 * mark_of(*c)});
        return row;
    }
};

// The positions on a log axis whose labels do not touch: at least a 25th of the axis apart.
std::vector<double> apart(const std::set<double>& positions) {
    const double step = std::pow(1.15 * 1.15 * *positions.rbegin() / *positions.begin(), 0.04);
    std::vector<double> kept;
    for (const double position : positions)
        if (kept.empty() || position >= kept.back() * step) kept.push_back(position);
    return kept;
}

// Whether x is the sequence length: cases of whole models are plotted over it, layers over their
// experts.
bool are_lengths(const CaseSeries& series) {
    return std::ranges::all_of(series, [](const auto& named) {
        return std::ranges::all_of(named.second, [](const Comparison* c) {
            return c->what.x == c->what.experiment.workload.seq;
        });
    });
}

}  // namespace

bool plot_scatter(const std::vector<Comparison>& comparisons, const std::string& title,
                  const std::string& path) {
    const CaseSeries series = series_of(comparisons, false);
    if (series.empty()) return false;
    const StepAxis step(series);
    const PlotRange& data = step.range;
    const double margin = data.is_wide() ? std::pow(data.high / data.low, 0.06) : 0;
    const double pad =
        // so that the 10 % band is visible around a single case
        (data.high - data.low) * 0.08 + data.high * 0.2;
    const PlotRange axis = data.is_wide()
                               ? PlotRange{data.low / margin, data.high * margin}
                               : PlotRange{std::max(0.0, data.low - pad), data.high + pad};
    Plot plot{.parts = {"'+' using 1:($1*0.9):($1*1.1) with filledcurves lc '#efefef'",
                        "'+' using 1:($1*0.95):($1*1.05) with filledcurves lc '#dadada'",
                        "x with lines lc '#333333' lw 0.8"},
              .labels = {"within 10 %", "within 5 %", "predicted = measured"}};
    plot.add_series("series", series, step,
                    {"$series{0} using 1:2:3:4 with yerrorbars lc '{1}' pt 7 ps 0 lw 1.2",
                     "$series{0} using 1:2:6 with points pt variable ps 1.5 lw 1.2 lc '{1}'"},
                    [](const auto&, const auto&) { return ""; });
    add_marks(plot, series, 1.5);
    if (std::ranges::any_of(comparisons, [](const Comparison& c) {
            return c.forecast && has_spread(c.forecast->step);
        }))
        plot.add("$series0 using (NaN):2:3:4 with yerrorbars lc '#555555' pt 7 ps 0 lw 1.2",
                 "p10..p90 of the prediction");
    std::string settings = fmt::format(
        "set xlabel 'measured step [{2}]'\nset ylabel 'predicted step [{2}]' offset 0.5\n"
        "set xrange [{0}:{1}]\nset yrange [{0}:{1}]\nset samples 400\n",
        axis.low, axis.high, step.unit.name);
    if (data.is_wide()) settings += "set logscale xy\n" + log_ticks(axis, "xy");
    plot.draw(title + machine_title(comparisons) + ": " + count_title(comparisons, size_of(series)),
              error_text(comparisons), clusters_text(comparisons), settings, path);
    return true;
}

bool plot_against_experts(const std::vector<Comparison>& comparisons, const std::string& title,
                          const std::string& path) {
    const CaseSeries series = series_of(comparisons, true);
    if (series.empty()) return false;
    const StepAxis step(series);
    const PlotRange& data = step.range;
    const bool logarithmic = data.low > 0 && data.high > 20 * data.low;
    std::set<double> positions;
    for (const auto& [name, cases] : series)
        for (const Comparison* c : cases) positions.insert(c->what.x);
    Plot plot;
    plot.add_series("series", series, step,  // all bands first, below the lines
                    {"$series{0} using 5:3:4 with filledcurves lc '{1}'",
                     "$series{0} using 5:2:3:4 with yerrorbars pt -1 lw 0.7 lc '{1}'"},
                    [](const auto&, const auto&) { return ""; });
    for (std::size_t i = 0; const auto& [name, cases] : series) {
        plot.add_parts(i, {"$series{0} using 5:2 with linespoints pt 6 ps 0.8 lc '{1}' lw 1.6"},
                       name + ", predicted");
        plot.add_parts(i++, {"$series{0} using 5:1 with points lc '{1}' pt {2} ps 2"},
                       name + ", measured");
    }
    std::string settings = fmt::format(
        "set xlabel '{}'\nset ylabel 'step [{}]' offset 0.5\nset logscale x 2\nset xrange "
        "[{}:{}]\nset xtics ({})\n",
        are_lengths(series) ? "length of a sequence [tokens]"
                            : "experts of the layer, over all ranks",
        step.unit.name, *positions.begin() / 1.15, *positions.rbegin() * 1.15,
        fmt::join(apart(positions), ","));
    settings += logarithmic ? "set logscale y\n" + log_ticks({data.low / 1.2, data.high * 1.2}, "y")
                            : fmt::format("set yrange [0:{}]\n", data.high * 1.06);
    plot.draw(title + machine_title(comparisons) + ": " + count_title(comparisons, size_of(series)),
              "lines: p50 of the prediction, bands: its p10..p90", clusters_text(comparisons),
              settings + "set style fill transparent solid 0.2 noborder\n", path);
    return true;
}

namespace {

// What all names begin with, up to a separator: stated once instead of under every bar.
std::string common_beginning(const std::vector<std::string>& names) {
    if (names.size() < 2) return "";
    std::string common = names.front();
    for (const std::string& name : names)
        while (!name.starts_with(common)) common.pop_back();
    return common.substr(0, common.find_last_of("-_/. ") + 1);
}

// The cases to show: with more than `most` bars names would be unreadable, so then the ones with
// the largest errors.
std::vector<const Comparison*> worst_cases(const std::vector<Comparison>& comparisons) {
    constexpr std::size_t most = 48;
    std::vector<const Comparison*> cases;
    for (const Comparison& c : comparisons)
        if (c.forecast) cases.push_back(&c);
    if (cases.size() <= most) return cases;
    std::ranges::stable_sort(cases, std::ranges::greater{},
                             [](const Comparison* c) { return std::abs(relative_error(*c)); });
    cases.resize(most);
    std::sort(cases.begin(), cases.end());
    return cases;
}

// The scale of bars: ms, or s for long steps; for steps of very different lengths percent of each
// measured step.
struct BarScale {
    const char* label;
    double of_ms;
    bool relative;
    [[nodiscard]] double operator()(Seconds time, const Comparison& c) const {
        return relative ? 100 * (time / c.what.measured_step) : in_ms(time) * of_ms;
    }
};
BarScale bar_scale(const std::vector<const Comparison*>& shown) {
    const auto [least, most] =
        std::ranges::minmax(shown, {}, [](const Comparison* c) { return c->what.measured_step; });
    if (most->what.measured_step > 20 * least->what.measured_step)
        return {"share of the measured step [%]", 0, true};
    return most->what.measured_step >= Seconds(10) ? BarScale{"step [s]", 1e-3, false}
                                                   : BarScale{"step [ms]", 1, false};
}

}  // namespace

bool plot_breakdown(const std::vector<Comparison>& comparisons, const std::string& title,
                    const std::string& path) {
    const std::vector<const Comparison*> shown = worst_cases(comparisons);
    if (shown.empty()) return false;
    std::vector<std::string> names;
    for (const Comparison* c : shown) names.push_back(c->what.case_id);
    const std::string beginning = common_beginning(names);
    const BarScale scaled = bar_scale(shown);
    Plot plot;
    double highest = 0;
    plot.add_block("bars", shown, [&](const Comparison* c) {
        Row row;
        for (const StepPart& part : parts_of(c->forecast->breakdown))
            row.push_back(scaled(part.time, *c));
        row.push_back(scaled(c->what.measured_step, *c));
        highest = std::max({highest, scaled(total(c->forecast->breakdown), *c), row.back()});
        return row;
    });
    for (const StepPart& part : parts_of(Breakdown{})) {
        const std::size_t i = plot.parts.size();
        plot.add(fmt::format("$bars using {} lc '{}'", i + 1, colour(i)), part.name);
    }
    plot.add("$bars using ($0-0.42):7:(0.84):(0) with vectors nohead lc '#000000' lw 2.5",
             "measured step");
    const std::string footnote = clusters_text(comparisons) +
                                 (beginning.empty() ? "" : "; all names begin with " + beginning);
    const std::string settings = fmt::format(
        "set ylabel '{}' offset 0.5\nset yrange [0:{}]\nset xrange [-0.7:{}]\nset style data "
        "histograms\nset "
        "style histogram rowstacked\n"
        "set style fill solid 0.9 border lc '#ffffff'\nset boxwidth 0.72\nset grid noxtics\nset "
        "key invert\nset xtics ({})\n",
        scaled.label, highest * 1.06, real(names.size()) - 0.3,
        named_ticks(names, [&](const std::string& name) { return bar_label(name, beginning); }));
    plot.draw(title + machine_title(comparisons) + ": " + count_title(comparisons, names.size()),
              "predicted step of the slowest rank (median draw) by what it spends its time on; "
              "black line: measured step",
              footnote, settings + bar_labels(names, beginning), path);
    return true;
}

std::vector<std::string> plot_comparison(const std::vector<Comparison>& comparisons,
                                         const std::string& title, const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& [name, plot] : {std::pair{"scatter", &plot_scatter},
                                     {"errors", plot_errors},
                                     {"breakdown", plot_breakdown},
                                     {"experts", plot_against_experts},
                                     {"attribution", plot_attribution}})
        if (plot(comparisons, title, folder + "/" + name))
            names.push_back(std::string(name) + ".png");
    return names;
}

void plot_curves(const std::vector<FittedCurve>& curves, const std::string& title,
                 const std::string& x_label, const std::string& y_label, const std::string& path) {
    Plot plot;
    std::size_t left_out = 0;
    PlotRange across, up;
    const auto add = [&](const std::string& block,
                         const std::vector<std::pair<double, double>>& points) {
        plot.add_block(block, points, [&](const auto& point) -> Row {
            const auto [x, y] = point;
            if (!(x > 0 && y > 0 && std::isfinite(x) && std::isfinite(y))) {
                ++left_out;
                return {};
            }
            across.add(x);
            up.add(y);
            return {x, y};
        });
    };
    for (const std::size_t i : indices_of(curves)) {
        if (!curves[i].fitted.empty()) {
            add(fmt::format("fitted{}", i), curves[i].fitted);
            plot.add(fmt::format("$fitted{} with lines lw 1.5 lc '{}'", i, colour(i)),
                     curves[i].name + ", fit");
        }
        if (!curves[i].measured.empty()) {
            add(fmt::format("measured{}", i), curves[i].measured);
            plot.add(fmt::format("$measured{} with points pt {} ps 1.4 lc '{}'", i, point_type(i),
                                 colour(i)),
                     curves[i].name + ", measured");
        }
    }
    if (across.high == 0)
        throw ConfigError(path + ".png: no curve to plot; expected at least one point above 0");
    const std::string subtitle =
        left_out == 0
            ? "points: measured, lines: fit"
            : fmt::format("points: measured, lines: fit; left out, not above 0: {}", left_out);
    const std::string settings = fmt::format(
        "set xlabel {}\nset ylabel {}\nset logscale xy\nset format x '%.0s %c'\nset format y "
        "'{}'\nset xrange [{}:{}]\nset yrange [{}:{}]\n",
        gnuplot_text(x_label), gnuplot_text(y_label), up.high > 1000 * up.low ? "%.0s %c" : "%.6g",
        across.low / 1.4, across.high * 1.4, up.low / 1.5, up.high * 1.5);
    plot.draw(title, subtitle, "", settings, path);
}

namespace {

// "12 points on h100; median error 3.1 %, worst 12.0 %".
std::string fit_words(const std::vector<CaseResult>& points, const std::string& cluster) {
    std::vector<double> errors;
    for (const CaseResult& p : points) errors.push_back(std::abs(p.fitted / p.measured - 1));
    std::sort(errors.begin(), errors.end());
    return fmt::format("{} points on {}; median error {:.1f} %, worst {:.1f} %", errors.size(),
                       cluster, 100 * errors[errors.size() / 2], 100 * errors.back());
}

}  // namespace

void plot_fit(const std::string& title, const std::vector<CaseResult>& points,
              const std::string& cluster, const std::string& path) {
    if (points.empty()) throw ConfigError(path + ".png: no points to plot; expected at least one");
    std::map<std::string, std::vector<CaseResult>> series;
    for (const CaseResult& point : points) series[point.kind].push_back(point);
    Plot plot;
    for (auto& [kind, members] : series) std::ranges::sort(members, {}, &CaseResult::fitted);
    plot.add_series(
        "data", series,
        [](const CaseResult& p) {
            return Row{1e6 * p.fitted.si(), p.fitted / p.measured};
        },
        {"$data{0} using 1:2 with points pt {2} ps 0.6 lc rgb '{1}'"},
        [](const std::string& kind, const auto&) { return kind; });
    plot.add("1 with lines lc rgb '#555555' dt 2");
    plot.draw(title + ": fitted cost model against measurement", fit_words(points, cluster), "",
              "set logscale xy\nset xlabel 'fitted time [us]'\nset ylabel 'fitted over measured'\n"
              "set yrange [0.5:2]\nset ytics (0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.4, "
              "2)\nset grid\n",
              path);
}

}  // namespace stepcast
