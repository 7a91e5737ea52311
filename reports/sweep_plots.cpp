#include "reports/sweep_plots.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "reports/plot_frame.h"
#include "reports/table.h"

namespace stepcast {
namespace {

constexpr std::size_t most_cells = 4096;  // a heat map with more is unreadable

std::string cluster_text(const SweepAnswer& r) {
    return fmt::format("cluster {} ({})", r.cluster, r.calibrated ? "fitted" : "uncalibrated");
}

std::string tick_list(const std::vector<std::string>& values) {
    return named_ticks(values, std::identity(), values.size() / 32 + 1);
}

struct AxisValue {
    double value = 0;
    const char* label = "";
};
AxisValue value_of(Objective objective, const SweepRow& row) {
    switch (objective) {
        case Objective::step: return {row.step.si(), "step [s]"};
        case Objective::tokens: return {row.tokens_per_second, "throughput [tokens/s]"};
        case Objective::cost:
            return {row.cost_per_token * 1e6, "cost of a million tokens [currency of the price]"};
        case Objective::memory:
            return {row.peak.si() / Bytes(parse_bytes("1 GiB")).si(),
                    "peak memory of a rank [GiB]"};
    }
    return {};
}

std::string short_figure(double value) {
    return value >= 1e6   ? figure(value / 1e6) + " M"
           : value >= 1e3 ? figure(value / 1e3) + " k"
                          : figure(value);
}

// Named ticks between two values of a log axis: 1, 2 and 5 of each decade; if these are too few,
// finer ones; if even these are too few, five at equal distances.
std::string few_ticks(double least, double most) {
    std::vector<double> ticks;
    for (const std::vector<double>& steps :
         {std::vector{1.0, 2.0, 5.0}, {1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0}}) {
        if (ticks.size() >= 3) break;
        ticks.clear();
        for (double decade = std::pow(10, std::floor(std::log10(least))); decade <= most;
             decade *= 10)
            for (const double step : steps)
                if (decade * step >= least && decade * step <= most) ticks.push_back(decade * step);
    }
    if (ticks.size() < 3) {
        ticks.clear();
        for (int i = 0; i < 5; ++i) ticks.push_back(least * std::pow(most / least, i / 4.0));
    }
    std::string text;
    for (const double tick : ticks)
        text += fmt::format("{}'{}' {:.6g}", text.empty() ? "" : ",", short_figure(tick), tick);
    return text;
}

// One row a cell.
DataBlock cells_of(const HeatMap& map, const std::function<double(Seconds)>& shown) {
    DataBlock cells{"map", {}};
    for (const std::size_t i : indices_of(map.step)) {
        const double step = shown(map.step[i]);
        cells.rows.push_back({real(i % map.columns.size()), real(i / map.columns.size()),
                              step > 0 ? step : std::nan("")});
    }
    return cells;
}

// The number in each cell, white on a dark one.
std::string numbers_in(const DataBlock& cells, const PlotRange& range, bool dark_is_low) {
    const double middle = std::sqrt(range.low * range.high);
    std::string text;
    for (const std::size_t i : indices_of(cells.rows))
        if (const double step = cells.rows[i][2]; step > 0)
            text +=
                fmt::format("set label {} \"{}\" at {},{} center front font ',15' textcolor '{}'\n",
                            100 + i, short_figure(step), cells.rows[i][0], cells.rows[i][1],
                            (step > middle) != dark_is_low ? "#ffffff" : "#101010");
    return text;
}

}  // namespace

bool plot_heat_map(const SweepAnswer& r, const std::string& path) {
    if (!r.map || r.map->step.empty() || r.map->step.size() > most_cells) return false;
    const HeatMap& map = *r.map;
    const TimeUnit unit =
        map.of_token ? TimeUnit{1, "tokens/s"} : axis_unit(std::ranges::max(map.step));
    const auto shown = [&](Seconds step) {  // 0 if nothing is feasible
        return step <= Seconds(0) ? 0 : map.of_token ? 1 / step.si() : step.si() * unit.factor;
    };
    const std::size_t columns = map.columns.size(), rows = map.rows.size();
    const bool numbers = columns <= 14 && rows <= 18;
    PlotRange range;
    for (const Seconds step : map.step)
        if (step > Seconds(0)) range.add(shown(step));
    Plot plot{.data = {cells_of(map, shown)}};
    plot.add("$map using 1:2:3 with image pixels");
    const std::string in_cells =
        numbers ? numbers_in(plot.data.front(), range, map.of_token) : std::string();
    const std::string settings =
        in_cells + fmt::format(
                       "set xlabel {}\nset ylabel {}\nset xtics ({})\nset ytics ({})\nset xrange "
                       "[-0.5:{}]\nset "
                       "yrange [-0.5:{}]\n"
                       "unset grid\nset rmargin at screen 0.86\nset cblabel '{}[{}]'\n"
                       "set palette defined ({})\nset logscale cb\nset "
                       "cbtics ({})\nset "
                       "colorbox user origin 0.875,0.135 size 0.022,0.73\n",
                       gnuplot_text(map.column_key), gnuplot_text(map.row_key),
                       tick_list(map.columns), tick_list(map.rows), real(columns) - 0.5,
                       real(rows) - 0.5, map.of_token ? "throughput " : "step ", unit.name,
                       map.of_token ? "0 '#7f2704', 0.3 '#d95f0e', 0.65 '#fec44f', 1 '#fff7bc'"
                                    : "0 '#fff7bc', 0.35 '#fec44f', 0.7 '#d95f0e', 1 '#7f2704'",
                       few_ticks(range.low, range.high));
    plot.draw(
        fmt::format("{}: {} of each {} and {}", r.experiment,
                    map.of_token ? "most tokens/s" : "shortest step", map.row_key, map.column_key),
        fmt::format("the best over all other varied keys, {}; empty: nothing feasible beyond the "
                    "memory margin",
                    map.simulated ? "simulated" : "by the closed form"),
        cluster_text(r), settings, path);
    return true;
}

bool plot_front(const SweepAnswer& r, const std::string& path) {
    if (!r.second || r.best.size() < 2) return false;
    Plot plot;
    plot.add_block("front", r.best, [&](const SweepRow& row) {
        return Row{value_of(r.objective, row).value, value_of(*r.second, row).value};
    });
    plot.add(fmt::format("$front using 1:2 with steps lc '{}' lw 1", colour(6)));
    plot.add(fmt::format("$front using 1:2 with points pt 7 ps 1.8 lc '{}'", colour(0)),
             "simulated, on the front");
    plot.draw(fmt::format("{}: Pareto front of {} and {}", r.experiment, to_string(r.objective),
                          to_string(*r.second)),
              fmt::format("{} of {} feasible configurations: no other is as good in both",
                          r.best.size(), count_text(real(r.counts.feasible))),
              cluster_text(r),
              fmt::format("set xlabel {}\nset ylabel {} offset 0.5\n"
                          "set offsets graph 0.05, graph 0.05, graph 0.05, graph 0.05\n",
                          gnuplot_text(value_of(r.objective, r.best.front()).label),
                          gnuplot_text(value_of(*r.second, r.best.front()).label)),
              path);
    return true;
}

namespace {

struct Point {
    double low = 0, middle = 0, high = 0;
};
// Tokens/s at the p90, p50 and p10 of the step.
Point tokens_of(const SweepRow& row) {
    const Interval& step = row.forecast.step;
    const double tokens = row.tokens_per_second * row.step.si();
    return {tokens / step.p90.si(), tokens / step.p50.si(), tokens / step.p10.si()};
}

}  // namespace

bool plot_scaling(const SweepAnswer& r, const std::string& path) {
    if (r.scaling.size() < 2) return false;
    const bool spread = std::ranges::any_of(
        r.scaling, [](const SweepRow& row) { return has_spread(row.forecast.step); });
    double most = 0;
    Plot plot;
    std::string ranks;
    const SweepRow &first = r.scaling.front(), &last = r.scaling.back();
    plot.add_block("curve", r.scaling, [&](const SweepRow& row) {
        const auto [low, middle, high] = tokens_of(row);
        const double proportional = first.tokens_per_second / first.ranks * row.ranks;
        most = std::max({most, high, proportional});
        ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", row.ranks);
        return Row{1.0 * row.ranks, middle, low, high, proportional};
    });
    if (spread) {
        plot.add(fmt::format("$curve using 1:3:4 with filledcurves lc '{}'", colour(0)),
                 "p10..p90");
        plot.add(
            fmt::format("$curve using 1:2:3:4 with yerrorbars pt -1 lw 0.9 lc '{}'", colour(0)));
    }
    plot.add(fmt::format("$curve using 1:2 with linespoints pt 7 ps 1.4 lw 1.6 lc '{}'", colour(0)),
             "best of each size, p50");
    plot.add(fmt::format("$curve using 1:5 with lines dt 2 lw 1.2 lc '{}'", colour(6)),
             "proportional");
    const double least = tokens_of(first).low / 1.2;
    const auto of_a_rank = [](const SweepRow& row) { return tokens_of(row).middle / row.ranks; };
    const std::string subtitle = fmt::format(
        "the best configuration of each size; each of {} ranks does {} of what each of {} does{}",
        last.ranks, percent_text(of_a_rank(last) / of_a_rank(first)), first.ranks,
        spread ? "" : "; no interval: routing.draws is 1");
    plot.draw(fmt::format("{}: tokens/s against ranks", r.experiment), subtitle, cluster_text(r),
              fmt::format("set xlabel 'ranks [GPUs]'\nset ylabel 'throughput [tokens/s]' offset "
                          "0.5\nset logscale "
                          "xy\nset xtics ({})\nset ytics ({})\n"
                          "set xrange [{}:{}]\nset yrange [{}:{}]\nset style fill transparent "
                          "solid 0.25 noborder\n",
                          ranks, few_ticks(least, most * 1.2), first.ranks / 1.15,
                          last.ranks * 1.15, least, most * 1.2),
              path);
    return true;
}

// ---- the best of each setting, as lines

namespace {

// Name of the series -> number on the x axis -> best result.
using Lines = std::map<std::string, std::map<double, Point>>;

struct Chart {
    std::string x_key;  // the first key with numbers; the others name the series
    Lines lines;
    bool spread = false;
};

std::string value_of(const SweepRow& row, const std::string& key) {
    const auto found =
        first_with(row.settings, key, [](const auto& setting) { return setting.first; });
    return found ? found->second : "";
}

// Steps in ms, or tokens/s if they are the objective.
Point point_of(const SweepAnswer& r, const SweepRow& row) {
    const Interval& step = row.forecast.step;
    return r.objective == Objective::tokens
               ? tokens_of(row)
               : Point{step.p10.si() * 1e3, step.p50.si() * 1e3, step.p90.si() * 1e3};
}

Chart chart_of(const SweepAnswer& r) {
    Chart chart;
    std::vector<std::string> names;
    for (const std::string& key : r.each_of) {
        const bool numbers = std::ranges::all_of(r.of_each, [&](const SweepRow& row) {
            return as_number<double>(value_of(row, key)).has_value();
        });
        if (numbers && chart.x_key.empty())
            chart.x_key = key;
        else
            names.push_back(key);
    }
    for (const SweepRow& row : r.of_each) {
        if (chart.x_key.empty()) break;
        std::string name;
        for (const std::string& key : names)
            name += (name.empty() ? "" : ", ") + value_of(row, key);
        chart.lines[name][*as_number<double>(value_of(row, chart.x_key))] = point_of(r, row);
        chart.spread = chart.spread || has_spread(row.forecast.step);
    }
    return chart;
}

// The ranges of the axes; logarithmic if wide.
std::string axes_text(const PlotRange& x, const PlotRange& y) {
    std::string script, axes;
    for (const auto& [axis, range] : {std::pair{"x", x}, {"y", y}}) {
        if (!range.is_wide()) continue;
        axes += axis;
        script += log_ticks(range, axis);
    }
    if (!axes.empty()) script = "set logscale " + axes + "\n" + script;
    const double margin = x.is_wide() ? std::pow(x.high / x.low, 0.04) : 0,
                 pad = 0.04 * (x.high - x.low);
    script += fmt::format("set xrange [{}:{}]\nset offsets 0, 0, graph 0.05, graph 0.05\n",
                          x.is_wide() ? x.low / margin : x.low - pad,
                          x.is_wide() ? x.high * margin : x.high + pad);
    return script;
}

}  // namespace

bool plot_series(const SweepAnswer& r, const std::string& path) {
    const Chart chart = chart_of(r);
    if (std::ranges::none_of(chart.lines, [](const auto& line) { return line.second.size() > 1; }))
        return false;
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
            return Row{number, p.low, p.middle, p.high};
        });
        if (chart.spread) {  // below the lines
            plot.parts.insert(
                plot.parts.begin(),
                {fmt::format("$series{} using 1:2:4 with filledcurves lc '{}'", i, colour(i)),
                 fmt::format("$series{} using 1:3:2:4 with yerrorbars pt -1 lw 0.7 lc '{}'", i,
                             colour(i))});
            plot.labels.insert(plot.labels.begin(), {"", ""});
        }
        plot.add(fmt::format("$series{} using 1:3 with linespoints pt {} ps 1.3 lw 1.6 lc '{}'", i,
                             point_type(i), colour(i)),
                 name);
        ++i;
    }
    plot.draw(
        fmt::format("{}: {} against {}", r.experiment, tokens ? "tokens/s" : "step", chart.x_key),
        fmt::format("the best of each{}", chart.spread ? "; bands: p10..p90" : ""), "",
        fmt::format("set xlabel {}\nset ylabel '{}' offset 0.5\nset style fill transparent solid "
                    "0.2 noborder\n",
                    gnuplot_text(chart.x_key), tokens ? "throughput [tokens/s]" : "step [ms]") +
            axes_text(x, y),
        path);
    return true;
}

std::vector<std::string> plot_sweep(const SweepAnswer& r, const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& [name, plot] : {std::pair{"map", &plot_heat_map},
                                     {"front", plot_front},
                                     {"scaling", plot_scaling},
                                     {"series", plot_series}})
        if (plot(r, folder + "/" + name)) names.push_back(std::string(name) + ".png");
    return names;
}

}  // namespace stepcast
