// Files of a fit of steps: the framework's and the cluster's with the record of the fit, the table
// of constants, contradicting rows.
#pragma once

#include <string>
#include <vector>

#include "calibrate/outliers.h"
#include "calibrate/step_fit.h"

namespace stepcast {

// OUT.framework.toml, for a framework that is fitted beside the cluster
std::string framework_file(const std::string& out);

// Return the path written.
std::string write_framework_file(const StepFit& fit, const CalibrationRequest& request,
                                 const std::vector<Case>& cases);
std::string write_cluster_file(const StepFit& fit, const CalibrationRequest& request,
                               const std::vector<Case>& cases);

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
