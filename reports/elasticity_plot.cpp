#include "reports/plots.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/errors.h"
#include "reports/plot_frame.h"
#include "reports/text.h"

namespace stepcast {
namespace {

constexpr std::size_t shown = 18;

// gnuplot draws an empty block as an error.
std::string block(const std::string& name, const std::string& rows) {
    return fmt::format("${} << EOD\n{}EOD\n", name, rows.empty() ? "NaN NaN\n" : rows);
}

struct Bars {
    std::string gains, losses, marks, ticks;
    double least = 0, most = 0;
};

Bars bars_of(const Explanation& x, std::size_t count) {
    Bars bars;
    for (std::size_t i = 0; i < count; ++i) {
        const Elasticity& e = x.elasticities[i];
        const double simulated = 100 * (e.simulated / x.step), along = 100 * (e.along_path / x.step);
        const auto row = static_cast<double>(count - i);
        (simulated < 0 ? bars.gains : bars.losses) += fmt::format("{:.6g} {:.6g}\n", simulated, row);
        bars.marks += fmt::format("{:.6g} {:.6g}\n", along, row);
        bars.ticks += fmt::format("{}{} {}", i == 0 ? "" : ",", gnuplot_text(e.key), row);
        bars.least = std::min({bars.least, simulated, along});
        bars.most = std::max({bars.most, simulated, along});
    }
    return bars;
}

}  // namespace

void plot_elasticities(const Explanation& x, const std::string& title, const std::string& path) {
    const auto moves =
        std::ranges::count_if(x.elasticities, [](const Elasticity& e) { return e.simulated != Seconds(0); });
    const std::size_t count = std::min(shown, static_cast<std::size_t>(moves));
    if (count == 0) throw ConfigError("elasticity: no parameter of the cluster changes this step; nothing to plot");
    const Bars bars = bars_of(x, count);
    const double room = 0.06 * (bars.most - bars.least);
    const std::string settings = fmt::format(
        "set lmargin at screen 0.28\nset border 1\nset yrange [0.3:{}]\nset xrange [{:.6g}:{:.6g}]\n"
        "set ytics ({}) font ',15'\nset xlabel 'change of the step, %' font ',17'\nset format x '%g'\n"
        "set style fill solid 0.85 noborder\nset arrow from 0,0.3 to 0,{} nohead lc '#555555' lw 1\n",
        static_cast<double>(count) + 0.7, bars.least - room, bars.most + room, bars.ticks,
        static_cast<double>(count) + 0.7);
    const Plot plot{.data = block("gains", bars.gains) + block("losses", bars.losses) + block("marks", bars.marks),
                    .parts = {fmt::format("$gains using ($1/2):2:(abs($1)/2):(0.34) with boxxyerror lc rgb '{}'", colour(2)),
                              fmt::format("$losses using ($1/2):2:(abs($1)/2):(0.34) with boxxyerror lc rgb '{}'", colour(1)),
                              "$marks using 1:2 with points pt 2 ps 1.6 lw 2.2 lc rgb '#111111'"},
                    .labels = {"shorter step", "longer step", "along the path"}};
    plot.draw(title,
              fmt::format("change of the step of {} with {:.0f} % more of a parameter: {} strongest of {} with an effect",
                          time_text(x.step), 100 * x.change, count, moves),
              "bars: simulated again; marks: along the critical path", settings, path);
}

}  // namespace stepcast
