// A run on disk: what was executed, how, and every sample, so that `compare` can predict it later,
// on other machines, and after presets changed. Format: docs/files.md.
#pragma once

#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/records/measurement.h"

namespace stepcast {

// The folder while it is written. It belongs to one run: a second run is refused, during the first
// and after it. The files are complete after each sample, so a killed run leaves its finished
// samples readable. All calls throw ConfigError if the folder cannot be written.
class RunFolder {
public:
    // Writes the experiment with all its keys, its cluster, and the routing that it names.
    RunFolder(const std::string& folder, const Experiment& experiment,
              const std::vector<Override>& overrides, const TaskGraph& graph);
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;
    ~RunFolder();

    void add(const Measurement& sofar);        // writes the samples that were not written yet
    void finish(const Measurement& measured);  // adds the reservations about all samples

private:
    void write_head(const Measurement& measurement);
    [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }

    std::string folder_, head_, graph_stamp_;
    Experiment experiment_;
    int lock_ = -1, rows_ = -1;  // descriptors of the folder and of run.csv
    std::size_t written_ = 0;
};

struct RunRecord {
    Experiment experiment;  // with the run's cluster
    // of the command line that made it; the experiment already includes them
    std::vector<Override> overrides;
    std::string graph_stamp;  // stamp of the executed step; "" in folders of format 1
    Measurement measurement;
};

// Throws ConfigError with file and line, also if a file was changed after the run or belongs to
// another run.
RunRecord read_run(const std::string& folder);

// Throws ConfigError unless every trace matches this graph, task by task and place by place.
void require_traces_of(const TaskGraph& graph, const RunRecord& record, const std::string& folder);

struct TraceFile {
    Trace trace;
    std::string graph_stamp;
};

}  // namespace stepcast
