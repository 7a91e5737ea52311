// Pieces of the few-shot fit that its files share.
#pragma once

#include "calibrate/few_shot.h"
#include "calibrate/fit.h"

namespace stepcast {

struct StepFit {
    std::vector<StepConstant> constants;
    RowModel model;
    Posterior posterior;
};
std::vector<PriorBelief> priors_of(const std::vector<StepConstant>& constants);

// Each block's rows at the constants that the others have in straight lines from the whole fit: no pass over the others.
std::vector<BlockErrors> leave_out_blocks(const StepFit& fit, const std::vector<Case>& cases, LeftOut by,
                                          const std::function<bool()>& enough);
// Which shipped frameworks forecast the rows much better, with nothing fitted, than the fit that began at request.framework: a
// line that names the best, or nothing.
std::string nearer_frameworks(const FewShotRequest& request, const std::vector<Case>& cases, double fitted_median,
                              const std::function<bool()>& enough);
std::string block_table(const std::vector<BlockErrors>& blocks, LeftOut by);

}  // namespace stepcast
