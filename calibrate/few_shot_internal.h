// What the files of the few-shot fit share.
#pragma once

#include <utility>

#include "calibrate/few_shot.h"
#include "calibrate/fit.h"

namespace stepcast {

struct StepFit {
    std::vector<StepConstant> constants;
    RowModel model;
    Posterior posterior;
    // the rows did not determine these: they keep the base's value and are no part of the fit
    std::vector<StepConstant> left = {};
    // fits did not improve the forecast of unseen rows: `left` has all constants
    bool base_stays = false;
    // only where it was asked for
    std::vector<std::pair<LeftOut, std::vector<BlockErrors>>> blocks = {};
    // which of the rows are far from what most agree on; empty if none is
    std::vector<bool> far = {};
    std::vector<Case> apart = {};  // those rows, left out of the fit
};
std::vector<PriorBelief> priors_of(const std::vector<StepConstant>& constants);

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
std::pair<Posterior, RowErrors> foretold_by_the_rest(const StepFit& fit,
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
std::string block_table(const std::vector<BlockErrors>& blocks, LeftOut by);

// Return the path written.
std::string write_framework_file(const StepFit& fit, const CalibrationRequest& request,
                                 const std::vector<Case>& cases);
std::string write_cluster_file(const StepFit& fit, const CalibrationRequest& request,
                               const std::vector<Case>& cases);

std::string text_of(const StepConstant& c, double x);  // with unit, at x = log(value / start)
std::string constants_table(const StepFit& fit);
// Names rows of one configuration whose steps differ by more than the scatter, and rows far from
// all others.
std::string contradictions(const std::vector<Case>& cases, const Posterior& p);
// Only the former: rows of one configuration whose log errors differ by more than `limit`. An error
// that all rows share is no scatter.
inline constexpr double least_contradiction = least_far;
std::string rows_apart(const std::vector<Case>& cases, const std::vector<double>& errors,
                       double limit);

}  // namespace stepcast
