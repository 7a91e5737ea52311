// What the two MoE log dialects share: the line that opens a run ([Benchmark]; for whole models
// STEP-0), STEP lines, the closing [Summary].
#pragma once

#include <string>
#include <vector>

#include "import/logs/dialects.h"

namespace stepcast {

// Reads the runs of one log in turn. A run is open from its first line to [Summary]; a line that
// does not fit is refused with its number.
struct MoeLog {
    OpenRun log;
    int ranks = 0;  // of whole models, which print it before their steps
    bool open = false, whole_model = false;

    // Takes the lines that both dialects share; nullopt for others. `system`: what the dialect
    // knows besides [Summary] ("" = nothing).
    std::optional<LineUse> take(const LogLine& line, const std::string& system);
    void finish(long lines);  // at the end of the file: refuses an open run and a log without one

    // of the current step
    void add(std::string_view phase, int rank, double seconds) {
        log.add(phase, rank, log.run.steps, seconds);
    }

private:
    void open_run(const LogLine& line);
    void read_step(const LogLine& line);
    void close_run(const LogLine& line, const std::string& system);
    void name_layer_run(const LogLine& line, const std::string& stated, const std::string& system);
    void name_model_run(const LogLine& line, const std::vector<std::string>& words);
};

LineCounts import_moe_steps(const std::string& path, const TakeRun& take);

}  // namespace stepcast
