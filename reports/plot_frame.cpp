#include "reports/plot_frame.h"

#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "reports/gnuplot.h"

namespace stepcast {

double legend_edge(const std::vector<std::string>& legend) {
    std::size_t longest = 0;
    for (const std::string& label : legend) longest = std::max(longest, label.size());
    return std::clamp(0.932 - real(longest) * 0.0079, 0.45, 0.8);
}

std::string frame(const PlotWords& words, int height) {
    const double right_edge = legend_edge(words.legend);
    const auto from_top = [height](double pixels) { return 1 - pixels / height; };
    return fmt::format(
        "set label 1 {} at screen 0.02,{:.4f} font ',25' textcolor '#111111'\n"
        "set label 2 {} at screen 0.02,{:.4f} font ',17' textcolor '#555555'\n"
        "set label 3 {} at screen 0.985,{:.4f} right font ',14' textcolor '#555555'\n"
        "set lmargin at screen 0.1\nset rmargin at screen {:.4f}\n"
        "set tmargin at screen {:.4f}\nset bmargin at screen {:.4f}\n"
        "set grid back lt 1 lc '#e4e4e4' lw 0.7\nset border 3 lc '#555555' lw 0.8\n"
        "set tics nomirror\nset errorbars 0.5\n"
        "set key at screen {:.4f},{:.4f} left top Left reverse vertical maxrows 24 samplen 1.6 "
        "spacing 1.35 font ',16' nobox\n",
        gnuplot_text(words.title), from_top(45), gnuplot_text(words.subtitle), from_top(92),
        gnuplot_text(words.footnote), 18.0 / height, right_edge, from_top(135), 135.0 / height,
        right_edge + 0.012, from_top(135));
}

std::string log_ticks(const PlotRange& range, const char* axes, double width) {
    if (!(range.low > 0)) return "";  // no decades at or below 0
    const double decades = std::log10(range.high / range.low) / width;
    const std::vector<double> steps = decades > 4     ? std::vector{1.0}
                                      : decades > 2   ? std::vector{1.0, 3.0}
                                      : decades > 0.7 ? std::vector{1.0, 2.0, 5.0}
                                                      : std::vector{1.0, 1.5, 2.0, 3.0, 5.0, 7.0};
    std::string text;
    for (double decade = std::pow(10, std::floor(std::log10(range.low))); decade <= range.high;
         decade *= 10)
        for (const double step : steps)
            if (const double tick = decade * step; tick >= range.low && tick <= range.high)
                text += fmt::format("{}\"{:.9g}\" {:.6g}", text.empty() ? "" : ",", tick, tick);
    std::string lines;
    for (const char* axis = axes; *axis; ++axis)
        lines += fmt::format("set {}tics ({})\n", *axis, text);
    return lines;
}

std::string binary_ticks(const PlotRange& range, std::string_view unit, std::size_t most) {
    std::vector<double> places;
    for (double tick = 1; tick <= range.high; tick *= 2)
        if (tick >= range.low) places.push_back(tick);
    const std::size_t each = (places.size() + most - 1) / most;
    std::string text;
    for (std::size_t i = 0; i < places.size(); i += std::max<std::size_t>(1, each)) {
        constexpr std::array prefixes{"", "Ki", "Mi", "Gi", "Ti"};
        std::size_t prefix = 0;
        double shown = places[i];
        for (; !unit.empty() && shown >= 1024 && prefix + 1 < prefixes.size(); shown /= 1024)
            ++prefix;
        text += fmt::format("{}\"{:.0f}{}{}{}\" {:.0f}", text.empty() ? "" : ",", shown,
                            unit.empty() ? "" : " ", prefixes[prefix], unit, places[i]);
    }
    return fmt::format("set xtics ({})\n", text);
}

std::string bar_label(const std::string& name, const std::string& beginning) {
    // characters; the last ones usually distinguish cases
    constexpr std::size_t most = 44, end = 20;
    std::string own = name.substr(beginning.size());
    if (own.size() <= most) return own;
    const auto letter = [&](std::size_t at) {  // next position that is not inside a UTF-8 character
        while (at < own.size() && (own[at] & 0xC0) == 0x80) ++at;
        return at;
    };
    return own.substr(0, letter(most - end - 2)) + ".." + own.substr(letter(own.size() - end));
}

std::string bar_labels(const std::vector<std::string>& names, const std::string& beginning) {
    std::size_t longest = 0;
    for (const std::string& name : names)
        longest = std::max(longest, bar_label(name, beginning).size());
    const int size = names.size() > 24   ? 10
                     : names.size() > 14 ? 12
                                         : 15,
              angle = longest > 20 || names.size() > 14 ? 60 : 35;
    const double letter = 0.72 * size / 1000, degree = 3.14159265 / 180;
    const double room =
        std::clamp(real(longest) * letter * std::sin(angle * degree) + 0.07, 0.12, 0.6);
    return fmt::format(
        "set bmargin at screen {:.3f}\nset xtics rotate by {} right font ',{}' scale 0\n", room,
        angle, size);
}

std::string plot_command(const std::vector<std::string>& parts,
                         const std::vector<std::string>& labels) {
    if (parts.size() != labels.size()) throw std::logic_error("a plot's parts and their labels");
    std::string text;
    for (const std::size_t i : indices_of(parts))
        text += (i == 0 ? "plot " : ", \\\n  ") + parts[i] +
                (labels[i].empty() ? " notitle" : " title " + gnuplot_text(labels[i]));
    return text + "\n";
}

void Plot::add_parts(std::size_t i, std::initializer_list<const char*> drawn,
                     const std::string& label) {
    for (const char* const& part : drawn)
        add(fmt::format(fmt::runtime(part), i, colour(i), point_type(i)),
            &part + 1 == drawn.end() ? label : "");
}

void Plot::draw(const std::string& title, const std::string& subtitle, const std::string& footnote,
                const std::string& settings, const std::string& path) const {
    render_plot(
        {data, frame({title, subtitle, footnote, labels}) + settings + plot_command(parts, labels)},
        path);
}

void add_panel(Drawing& drawing, Plot&& panel, const std::string& settings) {
    append(drawing.data, std::move(panel.data));
    drawing.script += settings + plot_command(panel.parts, panel.labels);
}

}  // namespace stepcast
