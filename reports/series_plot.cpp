#include "reports/plots.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "model/files/plain_text.h"
#include "reports/plot_frame.h"
#include "reports/text.h"

namespace stepcast {
namespace {

struct Point {
    double low = 0, middle = 0, high = 0;
};
// Name of the series -> number -> the best there.
using Lines = std::map<std::string, std::map<double, Point>>;

struct Chart {
    std::string x_key;  // the one key with numbers; the others name the series
    Lines lines;
    bool spread = false;
};

std::string value_of(const SweepRow& row, const std::string& key) {
    const auto found = std::ranges::find(row.settings, key, [](const auto& setting) { return setting.first; });
    return found == row.settings.end() ? "" : found->second;
}

// Steps, or tokens/s where these rank: then p10 of the step is the most.
Point point_of(const SweepAnswer& r, const SweepRow& row) {
    const Interval& step = row.forecast.step;
    if (r.objective != Objective::tokens) return {step.p10.si() * 1e3, step.p50.si() * 1e3, step.p90.si() * 1e3};
    const double tokens = row.tokens_per_second * row.step.si();
    return {tokens / step.p90.si(), tokens / step.p50.si(), tokens / step.p10.si()};
}

Chart chart_of(const SweepAnswer& r) {
    Chart chart;
    std::vector<std::string> names;
    for (const std::string& key : r.each_of) {
        const bool numbers = std::ranges::all_of(
            r.of_each, [&](const SweepRow& row) { return as_number<double>(value_of(row, key)).has_value(); });
        if (numbers && chart.x_key.empty())
            chart.x_key = key;
        else
            names.push_back(key);
    }
    for (const SweepRow& row : r.of_each) {
        if (chart.x_key.empty()) break;
        std::string name;
        for (const std::string& key : names) name += (name.empty() ? "" : ", ") + value_of(row, key);
        chart.lines[name][*as_number<double>(value_of(row, chart.x_key))] = point_of(r, row);
        chart.spread = chart.spread || has_spread(row.forecast.step);
    }
    return chart;
}

// Ranges, and decades where one is wide.
std::string axes_text(const PlotRange& x, const PlotRange& y) {
    std::string script, axes;
    for (const auto& [axis, range] : {std::pair{"x", x}, {"y", y}}) {
        if (!range.is_wide()) continue;
        axes += axis;
        script += log_ticks(range, axis);
    }
    if (!axes.empty()) script = "set logscale " + axes + "\n" + script;
    const double margin = x.is_wide() ? std::pow(x.high / x.low, 0.04) : 0, pad = 0.04 * (x.high - x.low);
    script += fmt::format("set xrange [{}:{}]\nset offsets 0, 0, graph 0.05, graph 0.05\n",
                          x.is_wide() ? x.low / margin : x.low - pad, x.is_wide() ? x.high * margin : x.high + pad);
    return script;
}

}  // namespace

bool plot_series(const SweepAnswer& r, const std::string& path) {
    const Chart chart = chart_of(r);
    if (std::ranges::none_of(chart.lines, [](const auto& line) { return line.second.size() > 1; })) return false;
    const bool tokens = r.objective == Objective::tokens;
    PlotRange x, y;
    Plot plot;
    std::size_t i = 0;
    for (const auto& [name, points] : chart.lines) {
        plot.add_block(fmt::format("series{}", i), points, [&](const auto& named) {
            const auto& [number, p] = named;
            x.add(number);
            y.add(p.low);
            y.add(p.high);
            return fmt::format("{} {} {} {}\n", number, p.low, p.middle, p.high);
        });
        if (chart.spread) {  // beneath the lines
            plot.parts.insert(plot.parts.begin(),
                              {fmt::format("$series{} using 1:2:4 with filledcurves lc '{}'", i, colour(i)),
                               fmt::format("$series{} using 1:3:2:4 with yerrorbars pt -1 lw 0.7 lc '{}'", i, colour(i))});
            plot.labels.insert(plot.labels.begin(), {"", ""});
        }
        plot.add(fmt::format("$series{} using 1:3 with linespoints pt {} ps 1.3 lw 1.6 lc '{}'", i, point_type(i), colour(i)), name);
        ++i;
    }
    plot.draw(fmt::format("{}: {} against {}", r.experiment, tokens ? "tokens/s" : "step", chart.x_key),
              fmt::format("the best of each{}", chart.spread ? "; bands: p10..p90" : ""), "",
              fmt::format("set xlabel {}\nset ylabel '{}' offset 0.5\nset style fill transparent solid 0.2 noborder\n",
                          gnuplot_text(chart.x_key), tokens ? "tokens/s" : "step [ms]") +
                  axes_text(x, y),
              path);
    return true;
}

}  // namespace stepcast
