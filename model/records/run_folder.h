// A run on disk: what was executed, how, and every sample, so that `compare` can predict it again later, also elsewhere
// and after presets have changed. Format: docs/formats.md.
#pragma once

#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/records/measurement.h"

namespace stepcast {

// The folder while it is written. It belongs to one run: a second one is refused while the first goes on, and after it. What
// is written is whole after each sample, so a run that is killed leaves the finished ones readable. All calls throw
// ConfigError when the folder cannot be written.
class RunFolder {
public:
    // Writes the experiment with all its keys, its cluster and the routing that it names.
    RunFolder(const std::string& folder, const Experiment& experiment, const std::vector<Override>& overrides,
              const TaskGraph& graph);
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;
    ~RunFolder();

    void add(const Measurement& sofar);       // its samples from the first that is not written yet
    void finish(const Measurement& measured);  // the doubts about all of them

private:
    void write_head(const Measurement& measurement);
    [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }

    std::string folder_, head_, graph_stamp_;
    Experiment experiment_;
    int lock_ = -1, rows_ = -1;  // descriptors of the folder and of run.csv
    std::size_t written_ = 0;
};

struct RunRecord {
    Experiment experiment;            // on the run's cluster
    std::vector<Override> overrides;  // of the command line that made it; the experiment holds them already
    std::string graph_stamp;          // of the step that was executed; "" in folders of format 1
    Measurement measurement;
};

// Throws ConfigError with file and line, and where a file was changed after the run or belongs to another.
RunRecord read_run(const std::string& folder);

// Throws ConfigError where a trace does not show this graph, task by task and place by place.
void require_traces_of(const TaskGraph& graph, const RunRecord& record, const std::string& folder);

// First line `# stepcast trace 1, executed`, after a run with a third field `graph STAMP`; then
// task,rank,lane,start_s,finish_s.
std::string write_trace(const Trace& trace, const std::string& graph_stamp = "");
struct TraceFile {
    Trace trace;
    std::string graph_stamp;
};
TraceFile read_trace(const std::string& path);

}  // namespace stepcast
