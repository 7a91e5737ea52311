// Whether a fit of a framework's costs is worth leaving its base for: cross-validation (Stone 1974; ten folds, Hastie et al., The Elements of
// Statistical Learning, 7.10) of the mean error,
//
//     mean |forecast / measured - 1| of rows left out, by fits to the others  <  0.8 x the same by the base
//
// Costs of a host, or of passes over memory, also soak up what another effect does to the rows fitted, and then move others the wrong way:
// such a fit comes nearer to its own rows and hardly to those left out. The fifth was chosen on 60 draws of rows of nanotron and MosaicML:
// of 18 fits worse than their base 2 remain, and fits as a whole lose nothing (scripts/few-shot-draws.py).
#include <algorithm>

#include "calibrate/few_shot_internal.h"
#include "calibrate/kernel_comparisons.h"

namespace stepcast {
namespace {

constexpr std::size_t most_folds = 10;
constexpr double worth_it = 0.8;

}  // namespace

RowsUnseen rows_unseen(const StepFit& fit, const std::vector<Case>& as_stated) {
    const std::size_t rows = as_stated.size(), folds = std::min(rows, most_folds);
    const Vector by_base = step_rows_model(as_stated, {})({}, std::vector<bool>(rows, true)).errors;
    Vector by_others(rows);
    for (std::size_t fold = 0; fold < folds; ++fold) {
        std::vector<bool> left_out(rows, false);
        for (std::size_t i = fold; i < rows; i += folds) left_out[i] = true;
        const RowErrors there = foretold_by_the_rest(fit, left_out).second;
        for (std::size_t i = fold; i < rows; i += folds) by_others[i] = there.errors[i];
    }
    return {summary_of(by_base, "").mape, summary_of(by_others, "").mape};
}

bool brings_nearer(const RowsUnseen& unseen) { return unseen.by_others < worth_it * unseen.by_base; }

}  // namespace stepcast
