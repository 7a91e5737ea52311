// The dialects behind stream_log(), one .cpp each. All throw ConfigError with path:line. Internal to calibrate/.
#pragma once

#include "calibrate/logs/import.h"
#include "calibrate/logs/line_pattern.h"
#include "calibrate/logs/log_lines.h"

namespace stepcast {

enum class LineUse { used, skipped, unknown };
void count(LineCounts& lines, LineUse use);

// All lines of a file through a dialect: log.take(line) says what each was, log.finish(number of lines) what is missing.
template <class Log>
LineCounts read_whole(const std::string& path, Log& log) {
    LineCounts lines;
    long last = 0;
    read_lines(path, [&](const LogLine& line) {
        count(lines, log.take(line));
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

// FILE-NUMBER-SYSTEM-MODEL, the parts that are known.
std::string run_name(const std::string& path, std::size_t number, const ImportedRun& run);

// Which dialect a log is, by the lines that only it has; where it is a shipped pattern's, its file is put in `pattern`.
LogFormat recognise(const std::string& path, std::string& pattern);

}  // namespace stepcast
