// A run on disk: what was executed, how, and every sample, so that `compare` can predict it again later. Format:
// docs/formats.md. Each file is replaced as a whole, so a run that is killed leaves the finished samples readable.
#pragma once

#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/measurement.h"

namespace stepcast {

struct RunRecord {
    std::string experiment;           // as given on the command line: a file or a preset's name
    std::vector<Override> overrides;  // as given
    Cluster cluster;                  // the one the run belongs to
    Measurement measurement;
};

// Writes the folder: run.toml, cluster.toml, experiment.toml (a copy, when the experiment was a file), run.csv with the
// samples, trace_N.csv with the spans of sample N, and estimates.csv where the communication library said what it expects. Call it again after each sample: only new traces are written.
// `experiment` is the one that was read. Throws ConfigError when the folder cannot be written.
void write_run(const std::string& folder, const RunRecord& record, const Experiment& experiment);

// Throws ConfigError with file and line.
RunRecord read_run(const std::string& folder);

// The experiment of a run, on the run's cluster.
Experiment experiment_of(const RunRecord& record);

// First line `# stepcast trace 1, executed`, then task,rank,lane,start_s,finish_s.
std::string write_trace(const Trace& trace);
Trace read_trace(const std::string& path);

}  // namespace stepcast
