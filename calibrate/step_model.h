// Measured steps as rows of a fit: their errors and slopes from simulation.
#pragma once

#include <string>
#include <vector>

#include "calibrate/posterior.h"
#include "calibrate/step_constants.h"
#include "import/tables/cases.h"
#include "model/base/progress.h"

namespace stepcast {

// Log ratios and slopes of all cases at x = log(value / start) of the constants, computed on all
// cores. Long steps are extrapolated from steps of few micro-batches, except rows with their flag
// in `whole`, which are simulated completely.
RowModel step_rows_model(const std::vector<Case>& cases, const std::vector<StepConstant>& constants,
                         const Progress& progress = {}, const std::vector<bool>& whole = {});
// The rows' errors at the posterior with every step simulated completely. Those of `whole` rows
// already are and are copied.
Vector whole_errors(const std::vector<Case>& cases, const std::vector<StepConstant>& constants,
                    const Posterior& at, const std::vector<bool>& whole);

struct StepSlopes {
    Seconds step;
    std::vector<double> slopes;  // d log step / d log value for each key
};

// The case with each key's value multiplied by its factor: one simulation gives the step, its
// critical path the derivatives (sim/explain). A step with many micro-batches is extrapolated
// linearly from two shorter ones, since each micro-batch after the filling of the pipeline adds the
// same time. This fails where a host falls behind only later; so with `whole` the step is simulated
// completely.
StepSlopes step_with_slopes(const Case& what, const std::vector<std::string>& keys,
                            const std::vector<double>& factors, bool whole = false);

}  // namespace stepcast
