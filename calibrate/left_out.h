// Blocks of measured steps that are left out in turn, and the errors of fits that have not seen
// them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "import/tables/cases.h"
#include "model/base/units.h"

namespace stepcast {

NAMED_ENUM(LeftOut, "a block", model, ranks, framework, device, source);
LeftOut parse_block(std::string_view text);  // throws ConfigError
std::string block_of(const Case& what, LeftOut by);

struct BlockErrors {
    std::string left_out;
    std::vector<double> errors;  // log(predicted / measured) of its rows, by a fit without them
    int inside = 0;              // how many of them lie within p10..p90 of that fit
};
// For a row that was left out: log(predicted / measured), and whether it lies within p10..p90.
using PredictLeftOut = std::function<std::pair<double, bool>(std::size_t row)>;
// Leaves out the rows of each name in turn. `without` gets the flags of the rows left out, fits to
// the others and returns the function that predicts one row. Stops early when `enough` says so.
std::vector<BlockErrors> leave_out_in_turn(
    const std::vector<std::string>& names,
    const std::function<PredictLeftOut(const std::vector<bool>&)>& without,
    const std::function<bool()>& enough = {});

std::string block_table(const std::vector<BlockErrors>& blocks, LeftOut by);

}  // namespace stepcast
