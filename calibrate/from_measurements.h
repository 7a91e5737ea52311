// `calibrate --measurements`: reads files, calls the fits for their kinds, writes the cluster file.
#pragma once

#include "calibrate/few_shot.h"

namespace stepcast {

// Whether all files are tables of kernels, collectives and launches; a profile's tables of steps,
// which import writes next to them, may be among them. For such files --framework does not ask for
// a fit of steps.
bool are_tables(const std::vector<std::string>& paths);

// The files are imported measurements (fit_moe.h, fit_noise.h for whole models), building-block
// tables (fit_tables.h) or measured steps (few_shot.h), told by their headers. Writes `out`,
// returns the text to show. Of several kinds tables are fitted first, then each further kind, from
// the result of the one before. Throws ConfigError for an output that is an input.
std::string calibrate_from_measurements(const CalibrationRequest& request,
                                        const Progress& progress = {});

}  // namespace stepcast
