#include "reports/plots.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "model/errors.h"
#include "reports/plot_frame.h"

namespace stepcast {
namespace {

using Series = std::map<std::string, std::vector<FitPoint>>;

Series series_of(const FitPlot& plot) {
    Series series;
    for (const FitPoint& point : plot.points) series[point.kind].push_back(point);
    for (auto& [kind, points] : series) std::ranges::sort(points, {}, &FitPoint::fitted);
    return series;
}

std::string words(const FitPlot& plot, const std::string& cluster) {
    std::vector<double> errors;
    for (const FitPoint& p : plot.points) errors.push_back(std::abs(p.fitted / p.measured - 1));
    std::sort(errors.begin(), errors.end());
    return fmt::format("{} points on {}; median error {:.1f} %, worst {:.1f} %", errors.size(), cluster,
                       100 * errors[errors.size() / 2], 100 * errors.back());
}

}  // namespace

void plot_fit(const FitPlot& fit, const std::string& cluster, const std::string& path) {
    if (fit.points.empty()) throw ConfigError(path + ".png: no points to plot; expected at least one");
    const Series series = series_of(fit);
    Plot plot;
    std::size_t index = 0;
    for (const auto& [kind, points] : series) {
        plot.data += fmt::format("$data{} << EOD\n", index);
        for (const FitPoint& p : points)
            plot.data += fmt::format("{:.6g} {:.6g}\n", 1e6 * p.fitted.si(), p.fitted / p.measured);
        plot.data += "EOD\n";
        plot.add(fmt::format("$data{} using 1:2 with points pt {} ps 0.6 lc rgb '{}'", index, point_type(index),
                                    colour(index)), kind);
        ++index;
    }
    plot.add("1 with lines lc rgb '#555555' dt 2");
    plot.draw(fmt::format("{}: fitted law against measurement", fit.kind), words(fit, cluster), "",
              "set logscale xy\nset xlabel 'fitted time (us)'\nset ylabel 'fitted over measured'\n"
              "set yrange [0.5:2]\nset ytics (0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.4, 2)\nset grid\n",
              path);
}

}  // namespace stepcast
