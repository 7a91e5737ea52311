// Tables of kernels with a block of sizes left out, on every measured machine: hidden rows are other sizes, not every tenth.
#pragma once

#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/progress.h"

namespace stepcast {

struct BlockLeftOut {
    std::string cluster, block;
    int fitted_rows = 0;
    std::vector<HeldOutError> errors;  // by kind, on the block's rows
    friend bool operator==(const BlockLeftOut&, const BlockLeftOut&) = default;
};

// Each block's kernels are fitted anew on the other rows of their own laws; all other constants are the shipped ones. A machine
// without rows inside and outside of a block has no entry. `cluster`: only this machine; empty: all measured ones.
std::vector<BlockLeftOut> leave_out_blocks(const std::vector<std::string>& tables, const std::string& cluster,
                                           const Progress& progress);

// Every tenth of the shapes in its turn, chosen by a hash as the one that fits hold out, all kinds of rows that are of single kernels
// and of one node; errors of all ten together. One tenth alone holds six rows of some kinds.
std::vector<BlockLeftOut> leave_out_tenths(const std::vector<std::string>& tables, const std::string& cluster,
                                           const Progress& progress);

}  // namespace stepcast
