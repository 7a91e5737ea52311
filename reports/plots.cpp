#include "reports/plots.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "model/errors.h"
#include "reports/compare.h"
#include "reports/gnuplot.h"

namespace stepcast {
namespace {

// Okabe and Ito's palette: told apart with any colour vision.
constexpr std::array<const char*, 7> colours{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555"};
const char* colour(std::size_t i) { return colours[i % colours.size()]; }
constexpr std::array<int, 5> point_types{7, 5, 9, 13, 11};

std::string quoted(std::string text) {
    std::replace(text.begin(), text.end(), '\'', ' ');
    return "'" + text + "'";
}

// A title may break into lines, which gnuplot does in double quotes only.
std::string title_line(std::string text) {
    std::replace(text.begin(), text.end(), '"', ' ');
    return "set title \"" + text + "\"\n";
}

double in_ms(Seconds t) { return t.si() * 1e3; }

std::string count_text(std::size_t shown, std::size_t all) {
    return shown == all ? fmt::format("{} cases", all) : fmt::format("only {} of {} cases: the others were refused or have no place here", shown, all);
}

const char* const frame = "set grid back lc '#dddddd' lw 0.7\nset border 3 lc '#555555'\nset tics nomirror\n";

using Series = std::map<std::string, std::vector<const Comparison*>>;

Series series_of(const std::vector<Comparison>& comparisons, bool need_position) {
    Series series;
    for (const Comparison& c : comparisons)
        if (c.forecast && (!need_position || c.what.x > 0)) series[c.what.series].push_back(&c);
    for (auto& [name, cases] : series)
        std::stable_sort(cases.begin(), cases.end(), [](const Comparison* a, const Comparison* b) { return a->what.x < b->what.x; });
    return series;
}

std::size_t size_of(const Series& series) {
    std::size_t n = 0;
    for (const auto& [name, cases] : series) n += cases.size();
    return n;
}

void need_cases(std::size_t shown, const std::string& path) {
    if (shown == 0) throw ConfigError(path + ".png: no case to plot; expected at least one predicted case");
}

std::string error_text(const std::vector<Comparison>& comparisons) {
    const CompareSummary s = summarise(comparisons);
    return fmt::format("mean error {:.1f} %, median {:.1f} %, bias {:+.1f} %, {:.0f} of {} measured inside p10..p90", s.mape * 100, s.median_ape * 100,
                       s.bias * 100, s.inside_interval * s.predicted, s.predicted);
}

// measured, p50, p10, p90, x per case, a block of its own per series.
std::string data_blocks(const Series& series) {
    std::string text;
    std::size_t i = 0;
    for (const auto& [name, cases] : series) {
        text += fmt::format("$series{} << EOD\n", i++);
        for (const Comparison* c : cases)
            text += fmt::format("{} {} {} {} {}\n", in_ms(c->what.measured_step), in_ms(c->forecast->step.p50), in_ms(c->forecast->step.p10), in_ms(c->forecast->step.p90), c->what.x);
        text += "EOD\n";
    }
    return text;
}

std::pair<double, double> range_ms(const Series& series) {
    double low = 1e300, high = 0;
    for (const auto& [name, cases] : series)
        for (const Comparison* c : cases)
            for (const Seconds t : {c->what.measured_step, c->forecast->step.p10, c->forecast->step.p90}) {
                low = std::min(low, in_ms(t));
                high = std::max(high, in_ms(t));
            }
    return {low, high};
}

// Ticks at 1, 1.5, 2, 3, 5, 7 of each decade: a log axis over less than a decade has few of its own.
std::string log_ticks(double low, double high) {
    std::string text;
    for (double decade = 1e-6; decade < 1e9; decade *= 10)
        for (const double step : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0})
            if (const double tick = decade * step; tick >= low && tick <= high) text += fmt::format("{}{:g}", text.empty() ? "" : ",", tick);
    return fmt::format("set xtics ({0})\nset ytics ({0})\n", text);
}

std::string join(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : ", \\\n  ") + part;
    return text;
}

}  // namespace

void plot_scatter(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path) {
    const Series series = series_of(comparisons, false);
    need_cases(size_of(series), path);
    const auto [low, high] = range_ms(series);
    std::string script = data_blocks(series) + frame;
    script += title_line(title + " (" + count_text(size_of(series), comparisons.size()) + ")\\n" + error_text(comparisons));
    script += "set xlabel 'measured step, ms'\nset ylabel 'predicted step, ms'\nset logscale xy\nset key bottom right Left reverse box lc '#dddddd' opaque\n";
    script += fmt::format("set xrange [{0}:{1}]\nset yrange [{0}:{1}]\nset samples 400\n", low * 0.85, high * 1.18) + log_ticks(low * 0.85, high * 1.18);
    std::vector<std::string> parts{"'+' using 1:($1*0.9):($1*1.1) with filledcurves lc '#eeeeee' title '10 %'",
                                   "'+' using 1:($1*0.95):($1*1.05) with filledcurves lc '#dcdcdc' title '5 %'",
                                   "x with lines lc '#333333' lw 1 title 'predicted = measured'"};
    std::size_t i = 0;
    for (const auto& [name, cases] : series) {
        parts.push_back(fmt::format("$series{} using 1:2:3:4 with yerrorbars lc '{}' pt {} ps 1.8 lw 1.5 title {}", i, colour(i), point_types[i % point_types.size()], quoted(name + ", p10..p90")));
        ++i;
    }
    render_plot(script + "plot " + join(parts) + "\n", path);
}

void plot_against_experts(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path) {
    const Series series = series_of(comparisons, true);
    need_cases(size_of(series), path);
    std::string script = data_blocks(series) + frame;
    script += title_line(title + " (" + count_text(size_of(series), comparisons.size()) + ")");
    script += "set xlabel 'experts of the layer, all ranks'\nset ylabel 'step, ms'\nset logscale x 2\nset offsets graph 0.03, graph 0.03, 0, 0\nset yrange [0:*]\nset key top left Left reverse box lc '#dddddd' opaque\nset style fill solid 0.18 noborder\n";
    std::vector<std::string> parts;
    std::size_t i = 0;
    for (const auto& [name, cases] : series) {
        parts.push_back(fmt::format("$series{0} using 5:3:4 with filledcurves lc '{1}' notitle", i, colour(i)));
        parts.push_back(fmt::format("$series{0} using 5:2 with lines lc '{1}' lw 2 title {2}", i, colour(i), quoted(name + " predicted p50, band p10..p90")));
        parts.push_back(fmt::format("$series{0} using 5:1 with points lc '{1}' pt {2} ps 2 title {3}", i, colour(i), point_types[i % point_types.size()], quoted(name + " measured median")));
        ++i;
    }
    render_plot(script + "plot " + join(parts) + "\n", path);
}

void plot_breakdown(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path) {
    std::string data = "$bars << EOD\n";
    std::size_t shown = 0;
    for (const Comparison& c : comparisons) {
        if (!c.forecast) continue;
        const Breakdown& b = c.forecast->breakdown;
        data += fmt::format("\"{}\" {} {} {} {} {} {} {}\n", c.what.case_id, in_ms(b.compute), in_ms(b.memory), in_ms(b.exposed_communication),
                            in_ms(b.bubble), in_ms(b.imbalance), in_ms(b.host), in_ms(c.what.measured_step));
        ++shown;
    }
    need_cases(shown, path);
    std::string script = data + "EOD\n" + frame;
    script += title_line(title + " (" + count_text(shown, comparisons.size()) + ")");
    script += "set ylabel 'step of the slowest rank, ms'\nset yrange [0:*]\nset style data histograms\nset style histogram rowstacked\nset style fill solid 0.9 border lc '#ffffff'\n"
              "set boxwidth 0.7\nset xtics rotate by -35 font ',13'\nset key outside right top Left reverse box lc '#dddddd'\nset bmargin 7\n";
    const std::array<const char*, 6> names{"compute", "memory passes", "exposed communication", "pipeline bubble", "imbalance", "host"};
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < names.size(); ++i)
        parts.push_back(fmt::format("$bars using {}{} lc '{}' title '{}'", i + 2, i == 0 ? ":xtic(1)" : "", colour(i), names[i]));
    parts.push_back("$bars using 0:8 with points pt 2 ps 2 lw 2 lc '#000000' title 'measured'");
    render_plot(script + "plot " + join(parts) + "\n", path);
}

void plot_curves(const std::vector<CurvePlot>& curves, const std::string& title, const std::string& x_label, const std::string& y_label, const std::string& path) {
    std::string data;
    std::vector<std::string> parts;
    const auto add = [&](const std::string& block, const std::vector<std::pair<double, double>>& points) {
        data += "$" + block + " << EOD\n";
        for (const auto& [x, y] : points) data += fmt::format("{} {}\n", x, y);
        data += "EOD\n";
    };
    for (std::size_t i = 0; i < curves.size(); ++i) {
        if (!curves[i].fitted.empty()) {
            add(fmt::format("fitted{}", i), curves[i].fitted);
            parts.push_back(fmt::format("$fitted{} with lines lw 1.5 lc '{}' title {}", i, colour(i), quoted(curves[i].name + ", fit")));
        }
        if (!curves[i].measured.empty()) {
            add(fmt::format("measured{}", i), curves[i].measured);
            parts.push_back(fmt::format("$measured{} with points pt {} ps 1.4 lc '{}' title {}", i, point_types[i % point_types.size()], colour(i), quoted(curves[i].name + ", measured")));
        }
    }
    need_cases(parts.size(), path);
    std::string script = data + frame + title_line(title) + fmt::format("set xlabel {}\nset ylabel {}\n", quoted(x_label), quoted(y_label));
    script += "set logscale xy\nset format x '%.0s %c'\nset key top left Left reverse box lc '#dddddd' opaque\n";
    render_plot(script + "plot " + join(parts) + "\n", path);
}

}  // namespace stepcast
