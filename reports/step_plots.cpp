#include "reports/step_plots.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "reports/gnuplot.h"
#include "reports/plot_frame.h"
#include "reports/table.h"

namespace stepcast {
namespace {

// Heights in pixels: above the first step and below the last, of a step's name, between two steps.
constexpr double head = 135, foot = 100, name_room = 34, step_gap = 34;
constexpr double memory_rows = 2, memory_gap = 0.6;  // of the memory curve and above it, in rows
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
    [[nodiscard]] const char* style() const {
        return kind == GanttKind::idle ? "fs pattern 4 border lc '#cccccc'" : "fs solid noborder";
    }
};
constexpr std::array<Look, 8> looks{{{GanttKind::forward, "forward", "#7FB8DC"},
                                     {GanttKind::backward, "backward", "#F0A35E"},
                                     {GanttKind::input_backward, "backward, inputs", "#F4BE8A"},
                                     {GanttKind::weight_backward, "backward, weights", "#7CCBA2"},
                                     {GanttKind::optimizer, "optimizer", "#B9A0CC"},
                                     {GanttKind::other, "other kernels", "#BBBBBB"},
                                     {GanttKind::exchange, "exposed exchange", "#C1272D"},
                                     {GanttKind::idle, "idle (bubble)", "#999999"}}};

// The picture is as high as its rows need.
struct Layout {
    double row = 0, height = head + foot;  // pixels
    bool named = false;                    // each step under its name
    explicit Layout(std::span<const Gantt> gantts) : named(gantts.size() > 1) {
        double rows = 0;
        for (const Gantt& g : gantts)
            rows += real(g.rows.size()) + (g.memory.empty() ? 0 : memory_rows + memory_gap);
        row = std::clamp(765 / rows, 30.0, 90.0);
        height += std::round(rows * row) + step_gap * real(gantts.size() - 1) +
                  (named ? name_room * real(gantts.size()) : 0);
    }
    // The place so many pixels below the top, as a share of the height.
    [[nodiscard]] double at(double pixels) const { return 1 - pixels / height; }
    [[nodiscard]] std::string margins(double from, double to) const {
        return fmt::format("set tmargin at screen {:.4f}\nset bmargin at screen {:.4f}\n", at(from),
                           at(to));
    }
};

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
    const Seconds width = longest / real(bins);
    std::vector<std::array<double, looks.size()>> shares(bins);
    for (const GanttBox& box : row.boxes)
        for (auto bin = static_cast<std::size_t>(box.start / width);
             bin < bins && real(bin) * width < box.finish; ++bin)
            shares[bin][as_index(box.kind)] += (std::min(box.finish, real(bin + 1) * width) -
                                                std::max(box.start, real(bin) * width)) /
                                               width;
    std::vector<Placed> placed;
    for (std::size_t bin = 0; bin < bins; ++bin) {
        double from = y - half;
        for (const Look& look : looks) {
            const double share = std::min(1.0, shares[bin][as_index(look.kind)]);
            if (share < 0.01 || look.kind == GanttKind::idle) continue;
            const bool exchange = look.kind == GanttKind::exchange;
            const double low = exchange ? y + half * (1 - 2 * share) : from,
                         high = exchange ? y + half : std::min(y + half, from + 2 * half * share);
            placed.push_back({look.kind, real(bin) * width, real(bin + 1) * width, low, high});
            if (!exchange) from = high;
        }
    }
    return placed;
}

std::vector<Placed> placed_boxes(const GanttRow& row, std::size_t index, Seconds longest) {
    const auto y = real(index);
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

// A step, and the axis that it shares with others.
struct DrawnStep {
    const Gantt& gantt;
    std::size_t index;
    Seconds longest;
    const TimeUnit& unit;
};

Plot timeline_of(const DrawnStep& step) {
    const Gantt& g = step.gantt;
    const TimeUnit& unit = step.unit;
    Plot panel;
    std::vector<Placed> placed;
    for (const std::size_t r : indices_of(g.rows))
        for (const Placed& box : placed_boxes(g.rows[r], r, step.longest)) placed.push_back(box);
    for (const Look& look : looks) {
        if (!contains(placed, look.kind, &Placed::kind)) continue;
        const auto name = fmt::format("g{}k{}", step.index, as_int(look.kind));
        panel.add_block(name, placed, [&](const Placed& box) -> Row {
            if (box.kind != look.kind) return {};
            const double start = box.start.si() * unit.factor;
            // x, y, and the box's ends along x and y
            return {start, box.low, start, box.finish.si() * unit.factor, box.low, box.high};
        });
        panel.add(fmt::format("${} using 1:2:3:4:5:6 with boxxyerror {} fc '{}' lw 0.6", name,
                              look.style(), look.colour));
    }
    DataBlock numbers{fmt::format("n{}", step.index), {}};
    for (const std::size_t r : indices_of(g.rows))
        for (const GanttBox& box : g.rows[r].boxes) {
            const int number = box.micro_batch + 1;
            const double room = (box.finish - box.start) / step.longest / number_width;
            if (is_crowded(g.rows[r]) || number < 1 || room < real(std::to_string(number).size()))
                continue;
            numbers.rows.push_back(
                {(box.start + box.finish).si() / 2 * unit.factor, real(r) - 0.06, real(number)});
        }
    if (numbers.rows.empty()) return panel;
    panel.add(
        fmt::format("${} using 1:2:3 with labels font ',13' textcolor '#101010'", numbers.name));
    panel.data.push_back(std::move(numbers));
    return panel;
}

// A distance between ticks that shows two or three: 1, 2 or 5 of a decade.
double tick_of(double high) {
    const double decade = std::pow(10, std::floor(std::log10(high / 2)));
    for (const double step : {5.0, 2.0})
        if (step * decade <= high / 2) return step * decade;
    return decade;
}

constexpr const char* capacity_line = "dt (10,8) lw 1.2 lc '#C1272D'";

// Whether the device's capacity is close enough to the used memory to be drawn.
bool shows_capacity(const Gantt& g) {
    const auto most =
        std::ranges::max_element(g.memory, {}, [](const auto& one) { return one.second; });
    return most != g.memory.end() && g.capacity > Bytes(0) && g.capacity < 3 * most->second;
}

void add_memory(Drawing& drawing, const DrawnStep& step, bool is_low, const std::string& settings) {
    const Gantt& g = step.gantt;
    const std::size_t index = step.index;
    Plot panel;
    double most = 0, before = in_gib(g.memory.front().second);
    std::vector<Row> stair;  // two points per change
    for (const auto& [time, bytes] : g.memory) {
        const double now = in_gib(bytes), x = time.si() * step.unit.factor;
        most = std::max(most, now);
        stair.push_back({x, std::exchange(before, now)});
        stair.push_back({x, now});
    }
    panel.data.push_back({fmt::format("m{}", index), std::move(stair)});
    const double capacity = in_gib(g.capacity);
    const bool shown = shows_capacity(g);
    panel.add(fmt::format("$m{} using 1:2 with filledcurves y1=0 fs solid 0.3 noborder lc '{}'",
                          index, colour(0)));
    panel.add(fmt::format("$m{} using 1:2 with lines lw 1.2 lc '{}'", index, colour(0)));
    if (shown) panel.add(fmt::format("{} with lines {}", capacity, capacity_line));
    const double high = shown ? std::max(most, capacity) : most;
    const std::string ticks = is_low ? fmt::format("(0, {:.0f})", shown ? capacity : most)
                                     : fmt::format("{}", tick_of(high));
    add_panel(
        drawing, std::move(panel),
        settings + fmt::format("set label 5 {} at graph -0.17,0.62 font ',13' textcolor "
                               "'#333333'\nset yrange [0:{}]\nset ytics {} font ',12'\n",
                               gnuplot_text(replaced(g.memory_label, " of ", " of\n") + " [GiB]"),
                               1.12 * high, ticks));
}

// The key of the kinds that occur, in the column on the right.
std::string legend(std::span<const Gantt> gantts, const Layout& layout, double left) {
    std::set<GanttKind> kinds;
    for (const Gantt& g : gantts)
        for (const GanttRow& row : g.rows)
            for (const GanttBox& box : row.boxes) kinds.insert(box.kind);
    std::string text;
    double y = head + 20;
    int object = 100;
    const auto add_name = [&](const char* name) {
        text += fmt::format("set label {} \"{}\" at screen {},{:.4f} font ',15'\n", object++, name,
                            left + 0.026, layout.at(y));
        y += 36;
    };
    for (const Look& look : looks) {
        if (!kinds.contains(look.kind)) continue;
        text += fmt::format(
            "set object {} rectangle from screen {},{:.4f} to screen {},{:.4f} fc rgb '{}' {} lw "
            "0.6\n",
            object, left, layout.at(y + 12), left + 0.02, layout.at(y - 12), look.colour,
            look.style());
        add_name(look.name);
    }
    if (std::ranges::none_of(gantts, shows_capacity)) return text;
    text += fmt::format("set arrow {} from screen {},{:.4f} to screen {},{:.4f} nohead {}\n",
                        object, left, layout.at(y), left + 0.02, layout.at(y), capacity_line);
    add_name("the GPU's memory");
    return text;
}

// The title, and what the marks mean.
std::string gantt_frame(std::span<const Gantt> gantts, Seconds longest, const Layout& layout) {
    const std::string title = layout.named
                                  ? fmt::format("{} steps on one axis", gantts.size())
                                  : gantts.front().title + ": one step, " + time_text(longest);
    const bool crowded = std::ranges::any_of(
        gantts, [](const Gantt& g) { return std::ranges::any_of(g.rows, is_crowded); });
    return frame({title,
                  std::string("numbers: micro-batches") +
                      (crowded ? "; where a rank has too many slots to draw, heights are shares of "
                                 "the time"
                               : ""),
                  "",
                  {"backward, weights.."}},
                 static_cast<int>(layout.height));
}

}  // namespace

void plot_gantts(std::span<const Gantt> gantts, const std::string& path) {
    if (gantts.empty() || gantts.front().rows.empty())
        throw ConfigError(path + ".png: no step to draw");
    const Seconds longest = std::ranges::max_element(gantts, {}, &Gantt::step)->step;
    const TimeUnit unit = axis_unit(longest);
    const Layout layout(gantts);
    Drawing drawing{.height = static_cast<int>(layout.height)};
    drawing.script = gantt_frame(gantts, longest, layout) +
                     fmt::format(
                         "unset key\nunset grid\nset multiplot\nset xrange [0:{:.7g}]\nset "
                         "lmargin at screen 0.135\nset rmargin at screen 0.815\n",
                         1.005 * longest.si() * unit.factor) +
                     legend(gantts, layout, 0.83);
    const std::string x_label =
        fmt::format("set xlabel 'time [{}]' offset 0,0.3\nset format x '%g'\n", unit.name);
    double y = head;
    for (const std::size_t i : indices_of(gantts)) {
        const Gantt& g = gantts[i];
        const DrawnStep step{g, i, longest, unit};
        const auto axis = [&](bool lowest) {
            return lowest && i + 1 == gantts.size() ? x_label : "unset xlabel\nset format x ''\n";
        };
        if (layout.named) y += name_room;
        const double end = y + layout.row * real(g.rows.size());
        std::string settings =
            layout.margins(y, end) +
            fmt::format("set yrange [{}:-0.5]\nset ytics ({}) font ',13'\n",
                        real(g.rows.size()) - 0.5, named_ticks(g.rows, &GanttRow::label)) +
            axis(g.memory.empty());
        if (layout.named)
            settings +=
                fmt::format("set label 4 {} at screen 0.135,{:.4f} font ',16'\n",
                            gnuplot_text(g.title + ", " + time_text(g.step)), layout.at(y - 14));
        add_panel(drawing, timeline_of(step), settings);
        drawing.script += "unset label\nunset object\nunset arrow\n";
        y = end;
        if (!g.memory.empty()) {
            const double from = y + memory_gap * layout.row;
            y = from + memory_rows * layout.row;
            add_memory(drawing, step, y - from < 80, layout.margins(from, y) + axis(true));
            drawing.script += "unset label 5\n";
        }
        y += step_gap;
    }
    drawing.script += "unset multiplot\n";
    render_plot(drawing, path);
}

// ---- what more of each parameter does to the step

namespace {

constexpr std::size_t most_bars = 18;

struct Bars {
    std::vector<Row> gains, losses, marks;
    std::string ticks;
    double least = 0, most = 0;
};

Bars bars_of(const Explanation& x, std::size_t count) {
    Bars bars;
    for (std::size_t i = 0; i < count; ++i) {
        const Elasticity& e = x.elasticities[i];
        const double simulated = 100 * (e.simulated / x.step),
                     along = 100 * (e.along_path / x.step);
        const auto row = real(count - i);
        (simulated < 0 ? bars.gains : bars.losses).push_back({simulated, row});
        bars.marks.push_back({along, row});
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
    const std::size_t count = std::min(most_bars, as_index(moves));
    if (count == 0)
        throw ConfigError(
            "elasticity: no parameter of the cluster changes this step; nothing to plot");
    const Bars bars = bars_of(x, count);
    const double room = 0.06 * (bars.most - bars.least);
    const std::string settings = fmt::format(
        "set lmargin at screen 0.28\nset border 1\nset yrange [0.3:{}]\nset xrange "
        "[{:.6g}:{:.6g}]\n"
        "set ytics ({}) font ',15'\nset xlabel 'change of the step [%]' font ',17'\nset format x "
        "'%g'\n"
        "set style fill solid 0.85 noborder\nset arrow from 0,0.3 to 0,{} nohead lc '#555555' lw "
        "1\n",
        real(count) + 0.7, bars.least - room, bars.most + room, bars.ticks, real(count) + 0.7);
    const Plot plot{
        .data = {{"gains", bars.gains}, {"losses", bars.losses}, {"marks", bars.marks}},
        .parts = {fmt::format(
                      "$gains using ($1/2):2:(abs($1)/2):(0.34) with boxxyerror lc rgb '{}'",
                      colour(2)),
                  fmt::format(
                      "$losses using ($1/2):2:(abs($1)/2):(0.34) with boxxyerror lc rgb '{}'",
                      colour(1)),
                  "$marks using 1:2 with points pt 2 ps 1.6 lw 2.2 lc rgb '#111111'"},
        .labels = {"shorter step", "longer step", "along the critical path"}};
    plot.draw(title,
              fmt::format("change of the step of {} with {:.0f} % more of a parameter: {} "
                          "strongest of {} with an effect",
                          time_text(x.step), 100 * x.change, count, moves),
              "bars: simulated again", settings, path);
}

}  // namespace stepcast
