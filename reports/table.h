// A table before it is text: the terminal, Markdown and HTML print the same one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/units.h"

namespace stepcast {

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

// `text` within HTML, also within a quoted attribute: as it stands, no markup of its own.
std::string html_text(std::string_view text);

}  // namespace stepcast
