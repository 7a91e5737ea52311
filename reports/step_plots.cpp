// Plots of a step: its slots over time, and which parameters would change it.
#include "reports/plots.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "reports/plot_frame.h"
#include "reports/table.h"

namespace stepcast {
namespace {

constexpr double top = 0.865, bottom = 0.1, gap = 0.06;  // of the picture's height
constexpr double memory_rows = 2;                        // height of the memory curve, in rows
// width of a digit, as a share of the axis
constexpr double number_width = 0.011;
// a narrower hatched box would hide its neighbours
constexpr double hatch_width = 0.004;
// in one row; with more, the row shows shares of ..
constexpr std::size_t most_boxes = 1200;
constexpr std::size_t bins = 400;  // .. this many parts of the axis

struct Look {
    GanttKind kind;
    const char* name;
    const char* colour;
};
constexpr std::array<Look, 8> looks{{{GanttKind::forward, "forward", "#7FB8DC"},
                                     {GanttKind::backward, "backward", "#F0A35E"},
                                     {GanttKind::input_backward, "backward, inputs", "#F4BE8A"},
                                     {GanttKind::weight_backward, "backward, weights", "#7CCBA2"},
                                     {GanttKind::optimizer, "optimizer", "#B9A0CC"},
                                     {GanttKind::other, "other kernels", "#BBBBBB"},
                                     {GanttKind::exchange, "exposed exchange", "#C1272D"},
                                     {GanttKind::idle, "idle (bubble)", "#999999"}}};

// The height of one panel, in rows.
double height_of(const Gantt& g) {
    return static_cast<double>(g.rows.size()) + (g.memory.empty() ? 0 : memory_rows + 0.6);
}

// Where a box is drawn: collectives are a strip along the lower edge of their row.
struct Placed {
    GanttKind kind;
    Seconds start, finish;
    double low, high;
};
constexpr double half = 0.4, strip = 0.18;

bool is_crowded(const GanttRow& row) { return row.boxes.size() > most_boxes; }

// For boxes that are too narrow to see: the share of each kind in each part of the axis, stacked.
std::vector<Placed> shares_of(const GanttRow& row, double y, Seconds longest) {
    const Seconds width = longest / static_cast<double>(bins);
    std::vector<std::array<double, looks.size()>> shares(bins);
    for (const GanttBox& box : row.boxes)
        for (auto bin = static_cast<std::size_t>(box.start / width);
             bin < bins && static_cast<double>(bin) * width < box.finish; ++bin)
            shares[bin][static_cast<std::size_t>(box.kind)] +=
                (std::min(box.finish, static_cast<double>(bin + 1) * width) -
                 std::max(box.start, static_cast<double>(bin) * width)) /
                width;
    std::vector<Placed> placed;
    for (std::size_t bin = 0; bin < bins; ++bin) {
        double from = y - half;
        for (const Look& look : looks) {
            const double share = std::min(1.0, shares[bin][static_cast<std::size_t>(look.kind)]);
            if (share < 0.01 || look.kind == GanttKind::idle) continue;
            const bool exchange = look.kind == GanttKind::exchange;
            const double low = exchange ? y + half * (1 - 2 * share) : from,
                         high = exchange ? y + half : std::min(y + half, from + 2 * half * share);
            placed.push_back({look.kind, static_cast<double>(bin) * width,
                              static_cast<double>(bin + 1) * width, low, high});
            if (!exchange) from = high;
        }
    }
    return placed;
}

std::vector<Placed> placed_boxes(const GanttRow& row, std::size_t index, Seconds longest) {
    const auto y = static_cast<double>(index);
    std::vector<Placed> placed;
    if (is_crowded(row)) placed = shares_of(row, y, longest);
    for (const GanttBox& box : row.boxes) {
        const bool idle = box.kind == GanttKind::idle;
        if (idle && (box.finish - box.start) / longest < hatch_width) continue;
        if (!idle && is_crowded(row)) continue;
        placed.push_back({box.kind, box.start, box.finish,
                          box.kind == GanttKind::exchange ? y + half - strip : y - half, y + half});
    }
    return placed;
}

// Draws the slots of one step in the axes that `settings` set up.
std::string timeline_of(const Gantt& g, std::size_t index, Seconds longest, const TimeUnit& unit,
                        const std::string& settings) {
    Plot panel;
    std::vector<Placed> placed;
    for (std::size_t r = 0; r < g.rows.size(); ++r)
        for (const Placed& box : placed_boxes(g.rows[r], r, longest)) placed.push_back(box);
    for (const Look& look : looks) {
        std::string lines;
        for (const Placed& box : placed)
            if (box.kind == look.kind)
                lines += fmt::format("{0:.7g} {1:.7g} {0:.7g} {2:.7g} {1:.7g} {3:.7g}\n",
                                     box.start.si() * unit.factor, box.low,
                                     // x, y, and the box's ends along x and y
                                     box.finish.si() * unit.factor, box.high);
        if (lines.empty()) continue;
        const auto name = fmt::format("$g{}k{}", index, static_cast<int>(look.kind));
        panel.data += name + " << EOD\n" + lines + "EOD\n";
        const char* const style =
            look.kind == GanttKind::idle ? "fs pattern 4 border lc '#cccccc'" : "fs solid noborder";
        panel.add(fmt::format("{} using 1:2:3:4:5:6 with boxxyerror {} fc '{}' lw 0.6", name, style,
                              look.colour));
    }
    std::string numbers;
    for (std::size_t r = 0; r < g.rows.size(); ++r)
        for (const GanttBox& box : g.rows[r].boxes) {
            const std::string text = std::to_string(box.micro_batch + 1);
            if (is_crowded(g.rows[r]) || box.micro_batch < 0 ||
                (box.finish - box.start) / longest <
                    number_width * static_cast<double>(text.size()))
                continue;
            numbers +=
                fmt::format("{:.7g} {:.7g} {}\n", (box.start + box.finish).si() / 2 * unit.factor,
                            static_cast<double>(r) - 0.06, text);
        }
    if (!numbers.empty()) {
        panel.data += fmt::format("$n{} << EOD\n{}EOD\n", index, numbers);
        panel.add(
            fmt::format("$n{} using 1:2:3 with labels font ',13' textcolor '#101010'", index));
    }
    return panel.data + settings + plot_command(panel.parts, panel.labels);
}

// A distance between ticks that shows two or three: 1, 2 or 5 of a decade.
double tick_of(double high) {
    const double decade = std::pow(10, std::floor(std::log10(high / 2)));
    for (const double step : {5.0, 2.0})
        if (step * decade <= high / 2) return step * decade;
    return decade;
}

constexpr double gib = 1024.0 * 1024 * 1024;

// Whether the device's capacity is close enough to the used memory to be drawn.
bool shows_capacity(const Gantt& g) {
    const auto most =
        std::ranges::max_element(g.memory, {}, [](const auto& one) { return one.second; });
    return g.capacity > Bytes(0) && g.capacity < 3 * most->second;
}

std::string memory_of(const Gantt& g, std::size_t index, const TimeUnit& unit, bool is_low,
                      bool is_alone, const std::string& settings) {
    Plot panel;
    double most = 0, before = g.memory.front().second.si() / gib;
    // a stair: two points per change
    panel.add_block(fmt::format("m{}", index), g.memory, [&](const auto& change) {
        const double now = change.second.si() / gib, x = change.first.si() * unit.factor;
        most = std::max(most, now);
        return fmt::format("{0:.7g} {1:.6g}\n{0:.7g} {2:.6g}\n", x, std::exchange(before, now),
                           now);
    });
    const double capacity = g.capacity.si() / gib;
    const bool shown = shows_capacity(g);
    panel.add(fmt::format("$m{} using 1:2 with filledcurves y1=0 fs solid 0.3 noborder lc '{}'",
                          index, colour(0)));
    panel.add(fmt::format("$m{} using 1:2 with lines lw 1.2 lc '{}'", index, colour(0)));
    if (shown) panel.add(fmt::format("{} with lines dt 2 lw 1.2 lc '#C1272D'", capacity));
    const double high = shown ? std::max(most, capacity) : most;
    // next to the curve; with several panels in their titles, as the key of colours is beside the
    // first
    const std::string label =
        is_alone ? g.memory_label + " [GiB]" + (shown ? "\ndashed: the device's" : "") : "";
    const std::string ticks = is_low ? fmt::format("(0, {:.0f})", shown ? capacity : most)
                                     : fmt::format("{}", tick_of(high));
    return panel.data + settings +
           fmt::format(
               "set label 5 {} at graph 1.012,0.55 font ',13' textcolor '#333333'\nset yrange "
               "[0:{}]\n"
               "set ytics {} font ',12'\n",
               gnuplot_text(label), 1.12 * high, ticks) +
           plot_command(panel.parts, panel.labels);
}

// The key of the kinds that occur, in the column on the right.
std::string legend(std::span<const Gantt> gantts, double left) {
    std::set<GanttKind> kinds;
    for (const Gantt& g : gantts)
        for (const GanttRow& row : g.rows)
            for (const GanttBox& box : row.boxes) kinds.insert(box.kind);
    std::string text;
    double y = top - 0.02;
    int object = 100;
    for (const Look& look : looks) {
        if (!kinds.contains(look.kind)) continue;
        text += fmt::format(
            "set object {0} rectangle from screen {1},{2} to screen {3},{4} fc rgb '{5}' {6} lw "
            "0.6\n"
            "set label {0} {7} at screen {8},{9} font ',15'\n",
            object++, left, y - 0.012, left + 0.02, y + 0.012, look.colour,
            look.kind == GanttKind::idle ? "fs pattern 4 border lc '#cccccc'" : "fs solid noborder",
            gnuplot_text(look.name), left + 0.026, y);
        y -= 0.036;
    }
    return text;
}

// The title, and what the marks mean.
std::string gantt_frame(std::span<const Gantt> gantts, Seconds longest) {
    const std::string title = gantts.size() == 1
                                  ? gantts.front().title + ": one step, " + time_text(longest)
                                  : fmt::format("{} steps on one axis", gantts.size());
    const bool crowded = std::ranges::any_of(
        gantts, [](const Gantt& g) { return std::ranges::any_of(g.rows, is_crowded); });
    const std::string meaning =
        std::string(crowded ? "heights: shares of the time, as slots are too many to show"
                            : "numbers: micro-batches") +
        "; hatched: the rank's devices do nothing";
    return frame({title, meaning, "", {"backward, weights.."}});
}

}  // namespace

void plot_gantts(std::span<const Gantt> gantts, const std::string& path) {
    if (gantts.empty() || gantts.front().rows.empty())
        throw ConfigError(path + ".png: no step to draw");
    Seconds longest;
    double rows = 0;
    for (const Gantt& g : gantts) {
        longest = std::max(longest, g.step);
        rows += height_of(g);
    }
    const TimeUnit unit = unit_of(longest);
    const double row_height = (top - bottom - gap * static_cast<double>(gantts.size() - 1)) / rows;
    std::string script = gantt_frame(gantts, longest);
    script += "unset key\nunset grid\nset multiplot\nset xrange [0:" +
              fmt::format("{:.7g}", 1.005 * longest.si() * unit.factor) +
              "]\nset lmargin at screen 0.135\nset rmargin at screen 0.815\n";
    script += legend(gantts, 0.83);
    double y = top;
    for (std::size_t i = 0; i < gantts.size(); ++i) {
        const Gantt& g = gantts[i];
        const bool last = i + 1 == gantts.size();
        const double end = y - row_height * static_cast<double>(g.rows.size());
        const bool memory = !g.memory.empty();
        const std::string x_label =
            fmt::format("set xlabel 'time [{}]' offset 0,0.3\nset format x '%g'\n", unit.name);
        std::string settings = fmt::format(
            "set tmargin at screen {:.4f}\nset bmargin at screen {:.4f}\nset yrange [{}:-0.5]\n"
            "set ytics ({}) font ',13'\n",
            y, end, static_cast<double>(g.rows.size()) - 0.5,
            named_ticks(g.rows, &GanttRow::label));
        settings += last && !memory ? x_label : "unset xlabel\nset format x ''\n";
        if (gantts.size() > 1)
            settings += fmt::format(
                "set label 4 {} at screen 0.135,{:.4f} font ',16'\n",
                gnuplot_text(g.title + ", " + time_text(g.step) +
                             (memory ? "; beneath: " + g.memory_label + " [GiB]" +
                                           (shows_capacity(g) ? ", dashed: the device's" : "")
                                     : "")),
                y + 0.016);
        script += timeline_of(g, i, longest, unit, settings) + "unset label\n" + "unset object\n";
        y = end;
        if (memory) {
            const double from = y - 0.6 * row_height, to = from - memory_rows * row_height;
            settings = fmt::format("set tmargin at screen {:.4f}\nset bmargin at screen {:.4f}\n",
                                   from, to) +
                       (last ? x_label : "unset xlabel\nset format x ''\n");
            script += memory_of(g, i, unit, memory_rows * row_height < 0.08, gantts.size() == 1,
                                settings) +
                      "unset label 5\n";
            y = to;
        }
        y -= gap;
    }
    render_plot(script + "unset multiplot\n", path);
}

// ---- what more of each parameter does to the step

namespace {

constexpr std::size_t shown = 18;

// An empty block is an error in gnuplot, so it gets a line without numbers.
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
        const double simulated = 100 * (e.simulated / x.step),
                     along = 100 * (e.along_path / x.step);
        const auto row = static_cast<double>(count - i);
        (simulated < 0 ? bars.gains : bars.losses) +=
            fmt::format("{:.6g} {:.6g}\n", simulated, row);
        bars.marks += fmt::format("{:.6g} {:.6g}\n", along, row);
        bars.ticks += fmt::format("{}{} {}", i == 0 ? "" : ",", gnuplot_text(e.key), row);
        bars.least = std::min({bars.least, simulated, along});
        bars.most = std::max({bars.most, simulated, along});
    }
    return bars;
}

}  // namespace

void plot_elasticities(const Explanation& x, const std::string& title, const std::string& path) {
    const auto moves = std::ranges::count_if(
        x.elasticities, [](const Elasticity& e) { return e.simulated != Seconds(0); });
    const std::size_t count = std::min(shown, static_cast<std::size_t>(moves));
    if (count == 0)
        throw ConfigError(
            "elasticity: no parameter of the cluster changes this step; nothing to plot");
    const Bars bars = bars_of(x, count);
    const double room = 0.06 * (bars.most - bars.least);
    const std::string settings = fmt::format(
        "set lmargin at screen 0.28\nset border 1\nset yrange [0.3:{}]\nset xrange "
        "[{:.6g}:{:.6g}]\n"
        "set ytics ({}) font ',15'\nset xlabel 'change of the step, %' font ',17'\nset format x "
        "'%g'\n"
        "set style fill solid 0.85 noborder\nset arrow from 0,0.3 to 0,{} nohead lc '#555555' lw "
        "1\n",
        static_cast<double>(count) + 0.7, bars.least - room, bars.most + room, bars.ticks,
        static_cast<double>(count) + 0.7);
    const Plot plot{
        .data =
            block("gains", bars.gains) + block("losses", bars.losses) + block("marks", bars.marks),
        .parts = {fmt::format(
                      "$gains using ($1/2):2:(abs($1)/2):(0.34) with boxxyerror lc rgb '{}'",
                      colour(2)),
                  fmt::format(
                      "$losses using ($1/2):2:(abs($1)/2):(0.34) with boxxyerror lc rgb '{}'",
                      colour(1)),
                  "$marks using 1:2 with points pt 2 ps 1.6 lw 2.2 lc rgb '#111111'"},
        .labels = {"shorter step", "longer step", "along the path"}};
    plot.draw(title,
              fmt::format("change of the step of {} with {:.0f} % more of a parameter: {} "
                          "strongest of {} with an effect",
                          time_text(x.step), 100 * x.change, count, moves),
              "bars: simulated again; marks: along the critical path", settings, path);
}

}  // namespace stepcast
