// What the two MoE log dialects share: the [Benchmark] line that opens a run, STEP lines, the [Summary] that closes it.
#pragma once

#include <string>
#include <vector>

#include "calibrate/import.h"
#include "calibrate/log_lines.h"

namespace stepcast {

enum class LineUse { used, skipped, unknown };
void count(LineCounts& lines, LineUse use);

// Collects the runs of one log. A run is open from [Benchmark] to [Summary]; anything else is refused with its line.
class MoeLog {
public:
    explicit MoeLog(std::string path);

    // The lines both dialects share; nullopt for any other. `system` is what the dialect knows apart from the
    // [Summary] line ("" = nothing).
    std::optional<LineUse> take(const LogLine& line, const std::string& system);
    void finish(long lines);  // end of file after so many lines: refuses an open run and a log without one

    [[nodiscard]] bool run_open() const { return open_; }
    [[nodiscard]] int current_step() const { return run_.steps; }  // whose lines are being read
    ImportedRun& run() { return run_; }
    std::vector<ImportedRun>& runs() { return runs_; }
    void add(const char* phase, int rank, double seconds);  // of the current step
    void add(const char* phase, int rank, int step, double seconds);
    [[noreturn]] void refuse(long line, const std::string& what) const;

private:
    void open_run(const LogLine& line);
    void read_step(const LogLine& line);
    void close_run(const LogLine& line, const std::string& system);

    std::string path_, stem_;
    std::vector<ImportedRun> runs_;
    ImportedRun run_;
    bool open_ = false;
};

// One dialect each; both throw ConfigError with path:line.
ImportResult import_moe_steps(const std::string& path);
ImportResult import_moe_phases(const std::string& path);

}  // namespace stepcast
