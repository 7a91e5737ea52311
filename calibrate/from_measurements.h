// `calibrate --measurements`: reads files of one kind, hands them to the fit that knows them, writes the cluster file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/progress.h"

namespace stepcast {

struct CalibrationRequest {
    std::vector<std::string> measurements;
    std::string cluster;  // preset or file to start from
    std::string out;      // cluster file to write
    std::string date;     // of today, for the provenance
    std::string framework = {};  // of tables of traces: to start from; its costs go to OUT's name with .framework.toml
    std::function<bool()> enough = {};   // of measured steps: after a pass, whether the caller wants no more
};

// Whether all are tables of kernels, collectives and launches (those of steps that a profile's import writes next to them may be
// among them), so that a framework to start from asks for no fit of steps.
bool are_tables(const std::vector<std::string>& paths);

// Imported measurements (fit_moe.h; of whole models fit_noise.h) or building-block tables (fit_tables.h), told by their headers. Writes `out` and
// returns what to show. Throws ConfigError when the kinds are mixed or the file to start from would be overwritten.
std::string calibrate_from_measurements(const CalibrationRequest& request, const Progress& progress = {});

// What steers the forecasts of a fitted cluster on top of the parameters of the fit, counted.

// Tables (measured GEMMs and curves) with the number of their entries: `from` these files
// where the fit changed them, else what `start` says of them. Then every other cost constant that the fit did not state,
// by table ("host"): priors, or copied from the clusters that this one inherits.
std::vector<FittedConstants> other_constants(const Cluster& cluster, const Cluster& start, const std::string& files);

}  // namespace stepcast
