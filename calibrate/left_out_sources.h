// How far forecasts are off on sources that nothing has seen: each table and thread is left out as
// a whole, and all that its rows decided is decided without them.
#pragma once

#include <string>
#include <vector>

#include "calibrate/scatter.h"

namespace stepcast {

// A row as if its source were unknown: nobody's recipe, and its framework is one that rows of
// another source ran in, or unnamed.
struct UnseenRow {
    ScatterRow row;
    std::string kind;  // class of scatter.toml
};
// Of `shipped`, the same measurements' rows as they are, it takes the forecasts that stay the same.
std::vector<UnseenRow> rows_of_unseen(const std::vector<std::string>& measurements,
                                      const std::vector<ScatterRow>& shipped,
                                      const Progress& progress = {});

// What a table of widths is fitted to: of `shipped` the recipes, in their own software, and every
// source as if it were unknown.
std::vector<ScatterRow> with_unseen(const std::vector<ScatterRow>& shipped,
                                    const std::vector<UnseenRow>& unseen);

// Such a row beside its forecast, whose interval is by widths of the other sources. Its evidence is
// `unseen`, or `fitted` where a parameter of its device was fitted to it: those stay as shipped.
struct LeftOutRow {
    Comparison of;
    std::string kind;
};
// Each source is forecast by middles and widths of the others among `shipped`. Throws ConfigError
// for rows of one source only.
std::vector<LeftOutRow> left_out_rows(const std::vector<ScatterRow>& shipped,
                                      const std::vector<UnseenRow>& unseen);

// The tables of errors by source, device and class. Constants of devices and host costs of
// frameworks are the shipped ones.
std::string left_out_tables(const std::vector<LeftOutRow>& rows);

}  // namespace stepcast
