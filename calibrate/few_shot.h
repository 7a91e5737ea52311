// Fits the constants of a framework or of a machine to a few measured training steps. The priors
// say how far the constants of shipped frameworks and clusters lie apart, so five rows move the
// constants that they determine and leave the others.
#pragma once

#include <string>

#include "calibrate/calibration_request.h"
#include "model/base/progress.h"

namespace stepcast {

// Writes `out` (for target both: the cluster; the framework goes to framework_file(OUT)) and
// returns the text to show. Writes nothing when `enough` stopped it before the first pass. Throws
// ConfigError, and writes nothing, when the rows determine nothing.
std::string calibrate_few_shot(const CalibrationRequest& request, const Progress& progress = {});

// Predicts the rows of each block by a fit to the other rows and returns a table of the errors;
// writes nothing.
std::string cross_validate(const CalibrationRequest& request, LeftOut by,
                           const Progress& progress = {});

}  // namespace stepcast
