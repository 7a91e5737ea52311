// How figures look in every text report, and a table before it is text: the terminal, Markdown and HTML print the same one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/answers/forecast.h"
#include "model/units.h"

namespace stepcast {

inline constexpr std::size_t table_width = 110;

// "31.60 ms" up to ten seconds, then "12.35 s"; "n/a" for what is not finite.
std::string time_text(Seconds time);
std::string range_text(const Interval& interval);  // "20.10 .. 25.32 ms", or "-" without spread
std::string bytes_text(Bytes bytes);               // "1.23 GiB", "14.0 MiB"
std::string percent_text(double fraction);         // "4.1 %"
std::string signed_percent_text(double fraction);  // "-1.2 %"
std::string count_text(double count);              // "1,468,006"
std::string figure(double value);                  // three of them: "7.60", "18.0", "163"

// Broken at spaces to table_width; further lines begin with `indent` spaces. Ends with a newline.
std::string wrapped(std::string_view text, std::size_t indent = 2);

// `text` on a line of a Markdown page: as it stands, no link, picture, markup or cell of its own.
std::string markdown_text(std::string_view text);

// The six parts of a breakdown and the four phases of a step, in the order and with the names of every report; `key` in JSON.
struct StepPart {
    const char *name, *key;
    Seconds time;
};
std::vector<StepPart> parts_of(const Breakdown& breakdown);
std::vector<StepPart> phases_of(const StepTimes& times);

inline bool has_spread(const Interval& interval) { return interval.p10 < interval.p90; }

struct Cell {
    std::string text;
    std::optional<double> value = {};  // what it sorts by; without one, its text
    friend bool operator==(const Cell&, const Cell&) = default;
};
// Text stands left, figures right. `width` is the least on a terminal.
struct Column {
    std::string name;
    std::size_t width = 0;
    bool is_text = false;
    friend bool operator==(const Column&, const Column&) = default;
};
struct Table {
    std::string name;  // where the columns' names do not say it
    std::vector<Column> columns = {};
    std::vector<std::vector<Cell>> rows = {};  // one of a single cell is a line across the columns
    std::string below = {};  // a line of its own
    friend bool operator==(const Table&, const Table&) = default;
};

Cell time_cell(Seconds time);
Cell bytes_cell(Bytes bytes);
Cell percent_cell(double fraction);
Cell signed_percent_cell(double fraction);
Cell count_cell(double count);
Cell error_cell(Seconds predicted, Seconds measured);  // "-" where nothing was measured

std::string text_of(const Table& table);  // every column as wide as its cells
std::string markdown_of(const Table& table);
std::string html_of(const Table& table);

// All of `from` in a text, `to` in its place.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

// `text` within HTML, also within a quoted attribute: as it stands, no markup of its own.
std::string html_text(std::string_view text);

}  // namespace stepcast
