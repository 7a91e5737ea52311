// What all plots share: colours, titles, legend, ticks. Internal to reports/.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/units.h"

namespace stepcast {

// `text` as a gnuplot string; may have line breaks.
std::string gnuplot_text(std::string_view text);

// Okabe and Ito's palette, distinguishable with any colour vision; beyond seven, colours of Paul
// Tol's muted palette.
inline constexpr std::array<const char*, 12> colours{"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                     "#E69F00", "#56B4E9", "#555555", "#332288",
                                                     "#882255", "#999933", "#44AA99", "#DDCC77"};
inline constexpr std::array<int, 5> point_types{7, 5, 9, 13, 11};
inline const char* colour(std::size_t i) { return colours[i % colours.size()]; }
inline int point_type(std::size_t i) { return point_types[i % point_types.size()]; }

inline constexpr int picture_width = 1600, usual_height = 1000;  // pixels

using Row = std::vector<double>;
struct DataBlock {
    std::string name;  // "a": the script plots $a
    std::vector<Row> rows;
};

// All that gnuplot is told but terminal and output.
struct Drawing {
    std::vector<DataBlock> data = {};
    std::string script = {};
    int height = usual_height;
};

struct PlotWords {
    std::string title, subtitle, footnote;
    std::vector<std::string> legend;
};

// Where the legend's column begins, as a share of the picture's width; the column is as wide as its
// longest text.
double legend_edge(const std::vector<std::string>& legend);

// Title and subtitle at the top left; the legend in its own column on the right, so that it covers
// no data.
std::string frame(const PlotWords& words, int height = usual_height);

struct PlotRange {
    double low = std::numeric_limits<double>::infinity(), high = 0;
    [[nodiscard]] bool is_wide() const { return low > 0 && high > 4 * low; }
    void add(double value) {
        low = std::min(low, value);
        high = std::max(high, value);
    }
};

// The unit of a time axis, chosen by its longest value.
struct TimeUnit {
    double factor;
    const char* name;
};
inline TimeUnit axis_unit(Seconds longest) {
    return longest >= Seconds(1) ? TimeUnit{1, "s"} : TimeUnit{1e3, "ms"};
}

// Ticks of a log axis: more than gnuplot's own over one or two decades, fewer over many. `axes` is
// "x", "y" or "xy", `width` the share of a whole picture's width that the axis has.
std::string log_ticks(const PlotRange& range, const char* axes, double width = 1);

// Powers of two along x, at most `most` of them: "64 KiB" with unit "B", "8192" without one.
std::string binary_ticks(const PlotRange& range, std::string_view unit, std::size_t most = 7);

// Ticks at 0, 1, .. with the names of the items, or of every `every`-th item.
template <typename Items, typename NameOf>
std::string named_ticks(const Items& items, NameOf name_of, std::size_t every = 1) {
    std::string text;
    std::size_t at = 0;
    for (const auto& item : items) {
        if (at % every == 0)
            text += (at == 0 ? "" : ",") + gnuplot_text(std::invoke(name_of, item)) + " " +
                    std::to_string(at);
        ++at;
    }
    return text;
}

// The label under a bar: the name without the `beginning` that all share; in a long one the middle
// is left out.
std::string bar_label(const std::string& name, const std::string& beginning);

// Slanted labels under bars, with room for the longest.
std::string bar_labels(const std::vector<std::string>& names, const std::string& beginning);

// The plot command for the parts, each with its label in the legend; "" = no label.
std::string plot_command(const std::vector<std::string>& parts,
                         const std::vector<std::string>& labels);

// gnuplot's axes of memory are in GiB.
inline double in_gib(Bytes bytes) { return bytes.si() / (1024.0 * 1024 * 1024); }

// A plot under construction: blocks of data, and what is drawn of them with labels in the legend.
struct Plot {
    std::vector<DataBlock> data = {};
    std::vector<std::string> parts = {}, labels = {};

    void add(std::string part, std::string label = "") {
        parts.push_back(std::move(part));
        labels.push_back(std::move(label));
    }
    // Adds a data block $NAME with the row of each item, where it has one.
    template <typename Items, typename RowOf>
    void add_block(const std::string& name, const Items& items, RowOf row_of) {
        std::vector<Row>& rows = data.emplace_back(DataBlock{name, {}}).rows;
        for (const auto& item : items)
            if (Row row = row_of(item); !row.empty()) rows.push_back(std::move(row));
    }
    // Adds what is drawn of the i-th series. In `drawn`, {0} stands for i, {1} for its colour, {2}
    // for its point type. The last has the label.
    void add_parts(std::size_t i, std::initializer_list<const char*> drawn,
                   const std::string& label);
    // The same for each series of a map, with a block $NAMEi of its members.
    template <typename Series, typename RowOf, typename LabelOf>
    void add_series(const std::string& name, const Series& series, RowOf row_of,
                    std::initializer_list<const char*> drawn, LabelOf label_of) {
        for (std::size_t i = 0; const auto& [key, members] : series) {
            add_block(name + std::to_string(i), members, row_of);
            add_parts(i++, drawn, label_of(key, members));
        }
    }
    // Draws the plot with these texts and additional `settings`. Writes PATH.png and PATH.svg.
    void draw(const std::string& title, const std::string& subtitle, const std::string& footnote,
              const std::string& settings, const std::string& path) const;
};

// Draws in the axes that `settings` set up.
void add_panel(Drawing& drawing, Plot&& panel, const std::string& settings);

}  // namespace stepcast
