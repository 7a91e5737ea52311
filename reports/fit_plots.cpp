#include "reports/plots.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "model/errors.h"
#include "reports/plot_frame.h"

namespace stepcast {
namespace {

std::string words(const std::vector<CaseResult>& points, const std::string& cluster) {
    std::vector<double> errors;
    for (const CaseResult& p : points) errors.push_back(std::abs(p.fitted / p.measured - 1));
    std::sort(errors.begin(), errors.end());
    return fmt::format("{} points on {}; median error {:.1f} %, worst {:.1f} %", errors.size(), cluster,
                       100 * errors[errors.size() / 2], 100 * errors.back());
}

}  // namespace

void plot_fit(const std::string& title, const std::vector<CaseResult>& points, const std::string& cluster, const std::string& path) {
    if (points.empty()) throw ConfigError(path + ".png: no points to plot; expected at least one");
    std::map<std::string, std::vector<CaseResult>> series;
    for (const CaseResult& point : points) series[point.kind].push_back(point);
    Plot plot;
    for (auto& [kind, members] : series) std::ranges::sort(members, {}, &CaseResult::fitted);
    plot.add_series("data", series, [](const CaseResult& p) { return fmt::format("{:.6g} {:.6g}\n", 1e6 * p.fitted.si(), p.fitted / p.measured); },
                    {"$data{0} using 1:2 with points pt {2} ps 0.6 lc rgb '{1}'"}, [](const std::string& kind, const auto&) { return kind; });
    plot.add("1 with lines lc rgb '#555555' dt 2");
    plot.draw(title + ": fitted law against measurement", words(points, cluster), "",
              "set logscale xy\nset xlabel 'fitted time (us)'\nset ylabel 'fitted over measured'\n"
              "set yrange [0.5:2]\nset ytics (0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.4, 2)\nset grid\n",
              path);
}

}  // namespace stepcast
