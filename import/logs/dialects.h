// What the dialects behind stream_log() share. All throw ConfigError with path:line. Internal to
// calibrate/.
#pragma once

#include "import/logs/import.h"
#include "import/logs/line_pattern.h"
#include "import/logs/log_lines.h"

namespace stepcast {

// larger numbers are refused as misread
inline constexpr int most_ranks = 30000, most_steps = 1'000'000'000;

enum class LineUse { used, skipped, unknown };

// Reads the runs of a log one after another: what the current run has told so far.
struct OpenRun {
    std::string path;
    const TakeRun& take;
    ImportedRun run = {};
    SampleRecord record = {};
    std::size_t closed = 0;  // number of runs before it

    void add(std::string_view phase, int rank, int step, double value) {
        record.add(phase, rank, step, value);
    }
    // Passes the run on if there is one (`any`). A run without a name gets
    // FILE-NUMBER-SYSTEM-MODEL, with the known parts. The next is empty.
    void close(bool any);
    [[noreturn]] void refuse(long line, const std::string& what) const;
    void require_one(long lines, std::string_view expected) const;  // at the end of the log
};

// Passes all lines of a file to a dialect: log.take(line) returns the use of each line,
// log.finish(number of lines) checks the end.
template <class Log>
LineCounts read_whole(const std::string& path, Log&& log) {
    LineCounts lines;
    long last = 0;
    read_lines(path, [&](const LogLine& line) {
        const LineUse use = log.take(line);
        ++(use == LineUse::used      ? lines.used
           : use == LineUse::skipped ? lines.skipped
                                     : lines.unknown);
        last = line.number;
        return true;
    });
    log.finish(last);
    return lines;
}

}  // namespace stepcast
