#include "reports/plots.h"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "model/errors.h"
#include "reports/plot_frame.h"

namespace stepcast {
namespace {

using Shares = std::map<std::string, double>;  // percent of the measured step

// The effects of the kinds taken one by one do not quite add up to the cost error: the rest is what they do together.
Shares shares_of(const ErrorAttribution& a) {
    Shares shares;
    double sum = 0;
    for (const KindError& k : a.kinds) {
        shares[fmt::format("{}, {}", k.kind, to_string(k.phase))] = 100 * (k.effect / a.measured);
        sum += k.effect / a.measured;
    }
    shares["kinds together"] = 100 * (cost_error(a) - sum);
    shares["schedule"] = 100 * schedule_error(a);
    return shares;
}

// The parts with the largest share in any run; the others are one.
std::vector<std::string> shown_parts(const std::vector<Shares>& runs) {
    Shares largest;
    for (const Shares& run : runs)
        for (const auto& [part, share] : run) largest[part] = std::max(largest[part], std::abs(share));
    std::vector<std::string> parts;
    for (const auto& [part, share] : largest)
        if (share >= 0.05) parts.push_back(part);
    std::ranges::stable_sort(parts, std::ranges::greater{}, [&](const auto& part) { return largest.at(part); });
    constexpr std::size_t most = 10;
    if (parts.size() > most) parts.resize(most);
    return parts;
}

}  // namespace

void plot_attribution(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path) {
    std::vector<Shares> runs;
    std::vector<std::string> names;
    for (const Comparison& c : comparisons) {
        if (!c.attribution) continue;
        runs.push_back(shares_of(*c.attribution));
        names.push_back(c.what.case_id);
    }
    if (runs.empty()) throw ConfigError(path + ".png: no run to plot; expected at least one with its measured tasks");
    const std::vector<std::string> parts = shown_parts(runs);
    // One box a part, stacked up or down from where the last of its sign ended: columns x, low, high.
    Plot plot;
    std::vector<std::pair<double, double>> reach(runs.size());
    double low = -1, high = 1;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        plot.add_block(fmt::format("part{}", p), runs, [&, r = std::size_t{0}](const Shares& run) mutable {
            const auto found = run.find(parts[p]);
            const double share = found == run.end() ? 0 : found->second;
            double& from = share < 0 ? reach[r].first : reach[r].second;
            const std::string line = fmt::format("{} {} {}\n", r++, from, from + share);
            from += share;
            low = std::min(low, from), high = std::max(high, from);
            return line;
        });
        plot.add(fmt::format("$part{} using 1:2:($1-0.36):($1+0.36):2:3 with boxxyerror fs solid 0.9 lc '{}'",
                                       p, colour(p)), parts[p]);
    }
    plot.add_block("whole", runs, [r = 0](const Shares& run) mutable {
        double whole = 0;
        for (const auto& [part, share] : run) whole += share;
        return fmt::format("{} {}\n", r++, whole);
    });
    std::string ticks;
    for (std::size_t r = 0; r < runs.size(); ++r)
        ticks += fmt::format("{}{} {}", r == 0 ? "" : ", ", gnuplot_text(names[r]), r);
    plot.add("$whole using ($1-0.42):2:(0.84):(0) with vectors nohead lc '#000000' lw 2.5", "error of the step");
    const std::string settings = fmt::format(
        "set ylabel 'share of the measured step [%]'\nset xrange [-0.7:{}]\nset yrange [{}:{}]\nset xzeroaxis lt 1 lc "
        "'#333333'\nset grid noxtics\nset xtics ({})\n",
        static_cast<double>(runs.size()) - 0.3, low * 1.08, high * 1.08, ticks);
    plot.draw(title + ": where the error comes from", "percent of the measured step; up: predicted too slow, down: too fast", "",
              settings + bar_labels(names, ""), path);
}

}  // namespace stepcast
