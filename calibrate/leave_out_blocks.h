// Tests fits to tables of kernels on every measured machine with a block of sizes left out, which
// the fit has not seen, or a tenth of them.
#pragma once

#include <string>
#include <vector>

#include "model/base/progress.h"
#include "model/cluster.h"

namespace stepcast {

struct BlockLeftOut {
    std::string cluster, block;
    int fitted_rows = 0;
    std::vector<HeldOutError> errors;  // by kind, on the block's rows
    friend bool operator==(const BlockLeftOut&, const BlockLeftOut&) = default;
};

// Fits each block's kernels anew to the other rows of their laws; all other constants are the
// shipped ones. A block without rows inside or outside of it on a machine has no entry. `cluster`:
// only this machine; empty: all measured ones.
std::vector<BlockLeftOut> leave_out_blocks(const std::vector<std::string>& tables,
                                           const std::string& cluster, const Progress& progress);

// Leaves out each tenth of the shapes in turn, chosen by the same hash as the tenth that fits hold
// out, for all kinds of rows of single kernels and of one node. Reports the errors of all ten
// together, since one tenth alone has only six rows of some kinds.
std::vector<BlockLeftOut> leave_out_tenths(const std::vector<std::string>& tables,
                                           const std::string& cluster, const Progress& progress);

}  // namespace stepcast
