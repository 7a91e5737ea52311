#include "reports/memory_plots.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "reports/gnuplot.h"
#include "reports/memory_tables.h"
#include "reports/plot_frame.h"
#include "reports/table.h"

namespace stepcast {
namespace {

constexpr double panels_left = 0.075,
                 panels_right = 0.80;  // of the panels, as shares of the picture
constexpr const char* reserved_colour = "#333333";
constexpr const char* limit_line = "dt (10,8) lw 1.2 lc '#C1272D'";

// A panel between two heights, as shares of the picture from below.
void add_panel_at(double low, double high, Drawing& drawing, Plot&& plot,
                  const std::string& settings) {
    add_panel(drawing, std::move(plot),
              fmt::format("set lmargin at screen {}\nset rmargin at screen {}\nset tmargin at "
                          "screen {}\nset bmargin at screen {}\n",
                          panels_left, panels_right, high, low) +
                  settings);
    drawing.script += "unset label\nunset object\nunset arrow\n";
}

// In the column on the right: kinds of tensors, and the two lines.
std::string legend(const AllocatorForecast& f, bool shows_limit) {
    constexpr double x = panels_right + 0.02, swatch = 0.02, line = 0.034;
    std::string text;
    double y = 0.84;
    int object = 100;
    const auto add = [&](std::string_view name) {
        text += fmt::format("set label {} \"{}\" at screen {},{:.4f} font ',15'\n", object++, name,
                            x + swatch + 0.008, y);
        y -= line;
    };
    const auto add_line = [&](const char* name, const std::string& style) {
        text += fmt::format("set arrow {} from screen {},{:.4f} to screen {},{:.4f} nohead {}\n",
                            object, x, y, x + swatch, y, style);
        add(name);
    };
    add_line("reserved", fmt::format("lw 2 lc '{}'", reserved_colour));
    add_line("allocated", fmt::format("lw 6 lc '{}'", colour(0)));
    if (shows_limit) add_line("left for the allocator", limit_line);
    y = 0.435;
    for (const std::size_t i : indices_of(f.kinds)) {
        text += fmt::format(
            "set object {} rectangle from screen {},{:.4f} to screen {},{:.4f} fc rgb '{}' fs "
            "solid noborder\n",
            object, x, y + 0.011, x + swatch, y - 0.011, colour(i));
        add(words_of(f.kinds[i].kind));
    }
    return text;
}

void add_over_time(Drawing& drawing, const AllocatorForecast& f, double high, double limit) {
    Plot plot;
    double at = 0;
    plot.add_block("time", f.over_time, [&](const AllocatorForecast::Level& s) -> Row {
        return {2 * at++ / real(f.over_time.size()), in_gib(s.allocated), in_gib(s.reserved)};
    });
    plot.add(fmt::format("$time using 1:2 with filledcurves y1=0 fs solid 0.35 noborder lc '{}'",
                         colour(0)));
    plot.add(fmt::format("$time using 1:2 with lines lw 1.5 lc '{}'", colour(0)));
    plot.add(fmt::format("$time using 1:3 with lines lw 2 lc '{}'", reserved_colour));
    if (limit > 0) plot.add(fmt::format("{} with lines {}", limit, limit_line));
    add_panel_at(
        0.53, 0.87, drawing, std::move(plot),
        fmt::format("set xrange [0:2]\nset yrange [0:{}]\nset ylabel 'GiB' font "
                    "',15' offset 2,0\nset xtics 0,0.5,2 font ',13'\nset ytics font ',13'\nset "
                    "xlabel 'steps, in equal numbers of requests' font ',14' offset "
                    "0,0.4\n",
                    high) +
            legend(f, limit > 0));
}

void add_stack(Drawing& drawing, const AllocatorForecast& f) {
    Plot plot;
    double from = 0;
    for (const std::size_t i : indices_of(f.kinds)) {
        const double to = from + in_gib(f.kinds[i].bytes);
        plot.data.push_back({fmt::format("kind{}", i), {{from, 0.5, from, to, 0.0, 1.0}}});
        plot.add(fmt::format("$kind{} using 1:2:3:4:5:6 with boxxyerror fs solid noborder fc '{}'",
                             i, colour(i)));
        from = to;
    }
    add_panel_at(0.36, 0.44, drawing, std::move(plot),
                 fmt::format("set xrange [0:{}]\nset yrange [0:1]\nunset ylabel\nunset "
                             "ytics\nset xtics auto font ',13'\nset xlabel 'what lives at the "
                             "fullest moment [GiB]' font ',14' offset 0,0.4\n",
                             from));
}

void add_stages(Drawing& drawing, const AllocatorForecast& f) {
    if (f.stages.size() < 2) return;
    Plot plot;
    double at = 0;
    plot.add_block("stages", f.stages, [&](const AllocatorForecast::Level& s) -> Row {
        return {at++, in_gib(s.allocated), in_gib(s.reserved)};
    });
    plot.add(
        fmt::format("$stages using 1:3:(0.72) with boxes fs solid 0.12 border lc '{0}' fc '{0}'",
                    reserved_colour));
    plot.add(
        fmt::format("$stages using 1:2:(0.5) with boxes fs solid 0.6 noborder lc '{}'", colour(0)));
    const auto most = std::ranges::max_element(
        f.stages, {}, [](const AllocatorForecast::Level& s) { return s.reserved; });
    add_panel_at(
        0.085, 0.265, drawing, std::move(plot),
        fmt::format("set xrange [-0.6:{}]\nset yrange [0:{}]\nset ylabel 'GiB' font "
                    "',15' offset 2,0\nset ytics auto nomirror font ',13'\nset xtics 0,{},{} font "
                    "',13'\nset xlabel 'stage' font ',14' offset 0,0.4\n",
                    real(f.stages.size()) - 0.4, 1.1 * in_gib(most->reserved),
                    1 + f.stages.size() / 24, f.stages.size()));
}

}  // namespace

void plot_memory(const AllocatorForecast& f, const std::string& title, const std::string& path) {
    const double limit = in_gib(f.capacity - f.context), used = in_gib(f.reserved);
    const bool near = f.capacity > Bytes(0) && limit < 3 * used;
    Drawing drawing;
    drawing.script =
        frame({title,
               fmt::format("memory of {} as its allocator sees it: allocated {}, reserved {}",
                           f.stages.size() > 1 ? fmt::format("stage {}", f.stage) : "a rank",
                           bytes_text(f.allocated), bytes_text(f.reserved)),
               "",
               {"left for the allocator"}}) +
        "unset key\nunset grid\nset multiplot\nset border 3\nset tics nomirror\n";
    add_over_time(drawing, f, 1.1 * std::max(used, near ? limit : 0), near ? limit : 0);
    add_stack(drawing, f);
    add_stages(drawing, f);
    drawing.script += "unset multiplot\n";
    render_plot(drawing, path);
}

}  // namespace stepcast
