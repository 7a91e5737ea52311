// How numbers look in every report, and the content of a table: terminal, Markdown and HTML show
// the same one.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/units.h"
#include "sim/results/forecast.h"

namespace stepcast {

inline constexpr std::size_t table_width = 110;

// "31.60 ms" below ten seconds, then "12.35 s"; "n/a" if not finite.
std::string time_text(Seconds time);
std::string range_text(const Interval& interval);  // "20.10 .. 25.32 ms", or "-" without spread

// The unit of times that stand together: seconds where one of them is ten or more, else
// milliseconds.
enum class UnitOfTime { milliseconds, seconds };
UnitOfTime unit_of(const std::vector<Seconds>& times);
std::string time_text(Seconds time, UnitOfTime unit);
std::string range_text(const Interval& interval, UnitOfTime unit);
std::string bytes_text(Bytes bytes);               // "1.23 GiB", "14.0 MiB"
std::string joules_text(Joules energy);            // "302 kJ", "4.78 MJ": three figures
std::string percent_text(double fraction);         // "4.1 %"
std::string chance_text(double chance);            // "4 %", "below 0.1 %"
std::string signed_percent_text(double fraction);  // "-1.2 %"
std::string count_text(double count);              // "1,468,006"
std::string figure(double value);                  // three figures: "7.60", "18.0", "163"

// Breaks lines at spaces to table_width; further lines begin with `indent` spaces. Ends with a
// newline.
std::string wrapped(std::string_view text, std::size_t indent = 2);

// `text` escaped for one line of Markdown, so that it makes no link, picture, markup or table cell.
std::string markdown_text(std::string_view text);

// The six parts of a breakdown and the four phases of a step, with the order and names of every
// report; `key`: in JSON.
struct StepPart {
    const char *name, *key;
    Seconds time;
};
std::vector<StepPart> parts_of(const Breakdown& breakdown);
std::vector<StepPart> phases_of(const StepTimes& times);

// The kind of a task as a reader calls it: "memory-bound kernel" of memory_pass, "all reduce".
std::string kind_words(std::string_view kind);

inline bool has_spread(const Interval& interval) { return interval.p10 < interval.p90; }

struct Cell {
    std::string text;
    std::optional<double> value = {};  // the cell sorts by it, or without one by its text
    // A time, or both ends of a range: the cell is written in the unit of all times of its table.
    std::vector<Seconds> times = {};
    friend bool operator==(const Cell&, const Cell&) = default;
};
// Text is aligned left, numbers right. `width`: the minimum on a terminal.
struct Column {
    std::string name;
    std::size_t width = 0;
    bool is_text = false;
    friend bool operator==(const Column&, const Column&) = default;
};
struct Table {
    std::string name;  // if the columns' names do not suffice
    std::vector<Column> columns = {};
    std::vector<std::vector<Cell>> rows = {};  // a row with a single cell goes across the columns
    std::string below = {};                    // a line below the table
    friend bool operator==(const Table&, const Table&) = default;
};

Cell time_cell(Seconds time);
Cell range_cell(const Interval& interval);  // "-" without spread
Cell bytes_cell(Bytes bytes);
Cell percent_cell(double fraction);
Cell signed_percent_cell(double fraction);
Cell count_cell(double count);
Cell error_cell(Seconds predicted, Seconds measured);  // "-" if nothing was measured

std::string text_of(const Table& table);  // every column as wide as its cells
std::string markdown_of(const Table& table);
std::string html_of(const Table& table);

// The text with every `from` replaced by `to`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

// The text with each of these characters replaced by its escape.
std::string escaped(std::string_view text,
                    std::initializer_list<std::pair<char, std::string_view>> by);

// The word as a shell reads it, quoted if necessary.
std::string shell_word(const std::string& word);

// `text` escaped for HTML, also for a quoted attribute.
std::string html_text(std::string_view text);

}  // namespace stepcast
