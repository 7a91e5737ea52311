// What the dialects behind stream_log() share. All throw ConfigError with path:line. Internal to calibrate/.
#pragma once

#include "calibrate/logs/import.h"
#include "calibrate/logs/line_pattern.h"
#include "calibrate/logs/log_lines.h"

namespace stepcast {

inline constexpr int most_ranks = 30000, most_steps = 1'000'000'000;  // of a log that is believed

enum class LineUse { used, skipped, unknown };

// The runs of a log, one after another: what the one that is being read has told so far.
struct OpenRun {
    std::string path;
    const TakeRun& take;
    ImportedRun run = {};
    SampleRecord record = {};
    std::size_t closed = 0;  // runs before it

    void add(std::string_view phase, int rank, int step, double value) { record.add(phase, rank, step, value); }
    // Hands the run on, where there is one, under FILE-NUMBER-SYSTEM-MODEL, the parts that are known, unless it has a
    // name; the next is empty.
    void close(bool any);
    [[noreturn]] void refuse(long line, const std::string& what) const;
    void require_one(long lines, std::string_view expected) const;  // at the end of the log
};

// All lines of a file through a dialect: log.take(line) says what each was, log.finish(number of lines) what is missing.
template <class Log>
LineCounts read_whole(const std::string& path, Log log) {
    LineCounts lines;
    long last = 0;
    read_lines(path, [&](const LogLine& line) {
        const LineUse use = log.take(line);
        ++(use == LineUse::used ? lines.used : use == LineUse::skipped ? lines.skipped : lines.unknown);
        last = line.number;
        return true;
    });
    log.finish(last);
    return lines;
}

LineCounts import_moe_steps(const std::string& path, const TakeRun& take);
LineCounts import_moe_phases(const std::string& path, const TakeRun& take);
LineCounts import_opt_prime(const std::string& path, const TakeRun& take);
LineCounts import_deepspeed(const std::string& path, const TakeRun& take);
LineCounts import_custom(const std::string& path, const LogPattern& pattern, const TakeRun& take);

}  // namespace stepcast
