// Pieces of the few-shot fit that its files share.
#pragma once

#include <utility>

#include "calibrate/few_shot.h"
#include "calibrate/fit.h"

namespace stepcast {

struct StepFit {
    std::vector<StepConstant> constants;
    RowModel model;
    Posterior posterior;
    std::vector<StepConstant> left = {};  // rows did not determine them: they stay what the base has, and no part of the fit
    bool base_stays = false;              // the fit brought rows that it had not seen no nearer: all constants are left
    std::vector<std::pair<LeftOut, std::vector<BlockErrors>>> blocks = {};  // left out in turn, where that was asked for
};
std::vector<PriorBelief> priors_of(const std::vector<StepConstant>& constants);

// Of these constants in these rows; `cases` get the values where the fit begins. Constants that began at their usual value and
// that the rows do not determine go back to the base's nothing, one after the other, and the others are solved again.
StepFit fitted_to(std::vector<Case>& cases, const FewShotRequest& request, const Progress& progress);

bool determined(const StepFit& fit, std::size_t j);
bool any_determined(const StepFit& fit, bool of_framework);

// The rows whose flag is set by a fit to those without, in straight lines from the whole fit.
std::pair<Posterior, RowErrors> foretold_by_the_rest(const StepFit& fit, const std::vector<bool>& rows);

// Mean errors of the rows as the base forecasts them and as fits without them do.
struct RowsUnseen {
    double by_base, by_others;
};
RowsUnseen rows_unseen(const StepFit& fit, const std::vector<Case>& as_stated);
// Whether that is worth leaving the base for.
bool brings_nearer(const RowsUnseen& unseen);

// Each block's rows at the constants that the others have in straight lines from the whole fit: no pass over the others.
std::vector<BlockErrors> leave_out_blocks(const StepFit& fit, const std::vector<Case>& cases, LeftOut by,
                                          const std::function<bool()>& enough);
std::string block_table(const std::vector<BlockErrors>& blocks, LeftOut by);

// Return the path written.
std::string write_framework_file(const StepFit& fit, const FewShotRequest& request, const std::vector<Case>& cases);
std::string write_cluster_file(const StepFit& fit, const FewShotRequest& request, const std::vector<Case>& cases);

std::string text_of(const StepConstant& c, double x);  // its value at x = log(value / start), with unit
std::string constants_table(const StepFit& fit);
// Rows of one configuration whose steps differ by more than they scatter, and rows far from all others.
std::string contradictions(const std::vector<Case>& cases, const Posterior& p);
// The first of them: those whose logarithms differ by more than `limit`. An error that all share, as where nothing is determined, is no scatter.
inline constexpr double least_contradiction = 0.25;
std::string rows_apart(const std::vector<Case>& cases, const std::vector<double>& errors, double limit);

}  // namespace stepcast
