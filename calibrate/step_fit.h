// The fit of constants to measured steps: the most probable ones, which of them the rows determine,
// which rows it leaves out, and whether it is worth leaving the base.
#pragma once

#include <utility>
#include <vector>

#include "calibrate/calibration_request.h"
#include "calibrate/posterior.h"
#include "calibrate/step_constants.h"
#include "model/base/progress.h"

namespace stepcast {

struct StepFit {
    std::vector<StepConstant> constants;
    RowModel model;
    Posterior posterior;
    // the rows did not determine these: they keep the base's value and are no part of the fit
    std::vector<StepConstant> left = {};
    // fits did not improve the forecast of unseen rows: `left` has all constants
    bool base_kept = false;
    // two groups of rows contradict each other, and nothing tells which of them is right
    bool divided = false;
    // only where it was asked for
    std::vector<std::pair<LeftOut, std::vector<BlockErrors>>> blocks = {};
    // which of the rows are far from what most agree on; empty if none is
    std::vector<bool> far = {};
    std::vector<Case> apart = {};  // those rows, left out of the fit
};
// Fits to these rows; takes those out of `cases` that most others contradict. Sets the constants in
// `cases` to the values where the fit begins. Constants that began at a usual value and that the
// rows do not determine go back to 0, the base's value, one after the other, and the others are
// solved again.
StepFit fitted_to(std::vector<Case>& cases, const CalibrationRequest& request,
                  const Progress& progress);

bool determined(const StepFit& fit, std::size_t j);
bool any_determined(const StepFit& fit, bool of_framework);

// Fits to the rows without a flag in `rows`, linearised at the fit to all rows, and predicts the
// flagged ones.
std::pair<Posterior, RowErrors> predicted_without(const StepFit& fit,
                                                  const std::vector<bool>& rows);

// Mean absolute relative errors of the rows: as the base forecasts them, and as fits without them
// do.
struct RowsUnseen {
    double by_base, by_others;
};
RowsUnseen rows_unseen(const StepFit& fit, const std::vector<Case>& as_stated);
// Whether the fit's errors on unseen rows are clearly smaller, so that it is worth leaving the
// base.
bool brings_nearer(const RowsUnseen& unseen);

// Predicts each block's rows by fits to the others, linearised at the fit to all rows: no
// simulations for the others.
std::vector<BlockErrors> leave_out_blocks(const StepFit& fit, const std::vector<Case>& cases,
                                          LeftOut by, const std::function<bool()>& enough);
}  // namespace stepcast
