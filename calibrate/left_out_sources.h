// How far forecasts are off on sources that nothing has seen: each table and thread is left out as
// a whole, and all that its rows decided is decided without them.
#pragma once

#include <string>
#include <vector>

#include "calibrate/scatter.h"

namespace stepcast {

// A row as if its source were unknown: nobody's recipe, and its framework named only if rows of
// another source ran in it.
struct UnseenRow {
    ScatterRow row;
    std::string source, device, kind;  // kind: class of scatter.toml
};
std::vector<UnseenRow> rows_of_unseen(const std::vector<std::string>& measurements,
                                      const Progress& progress = {});

// The table of errors by source, device and class, each source forecast by middles and widths of
// the others. Constants of devices and host costs of frameworks are the shipped ones.
std::string cross_validate_sources(const std::vector<std::string>& measurements,
                                   const Progress& progress = {});

}  // namespace stepcast
