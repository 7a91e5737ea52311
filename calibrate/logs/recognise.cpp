#include <fmt/format.h>

#include <optional>

#include "calibrate/logs/dialects.h"
#include "model/errors.h"

namespace stepcast {
namespace {

// What the lines of a log so far say about its dialect.
struct Signs {
    bool benchmark = false, step = false, phases = false;

    std::optional<LogFormat> take(std::string_view text) {
        const auto holds = [&](std::string_view literal) {
            return position_of(literal, text) != std::string_view::npos;
        };
        benchmark = benchmark || (text.starts_with("[Benchmark]") && holds("num_local_experts = "));
        step = step || text.starts_with("STEP-");
        phases = phases || text.starts_with("block_info ") || text.starts_with("AG, ");
        if (benchmark && step) return phases ? LogFormat::moe_phases : LogFormat::moe_steps;
        if (text.starts_with("STEP-0: step_time")) return LogFormat::moe_steps;
        if (text.starts_with("[rank:") && holds("forward time") && holds("- step")) return LogFormat::opt_prime;
        if (holds("time (ms) |") &&
            (holds("forward: ") || holds("fwd: ") || holds("forward_microstep: ") || holds("fwd_microstep: ")))
            return LogFormat::deepspeed;
        return std::nullopt;
    }
};

}  // namespace

LogFormat recognise(const std::string& path, std::string& pattern) {
    std::vector<LogPattern> patterns;
    for (const std::string& file : shipped_patterns()) patterns.push_back(read_log_pattern(file));
    Signs signs;
    std::optional<LogFormat> found;
    long lines = 0;
    read_lines(path, [&](const LogLine& line) {
        lines = line.number;
        found = signs.take(line.text);
        for (const LogPattern& one : patterns)
            if (!found && !one.recognise.empty() && position_of(one.recognise, line.text) != std::string_view::npos) {
                found = LogFormat::custom;
                pattern = one.path;
            }
        return !found;
    });
    if (found) return *found;
    if (lines == 0) throw ConfigError(path + ": is empty; expected a training log");
    if (signs.benchmark) return signs.phases ? LogFormat::moe_phases : LogFormat::moe_steps;
    std::string names;
    for (const LogPattern& one : patterns) names += ", " + one.name;
    throw ConfigError(fmt::format(
        "{}: not a log that stepcast recognises: looked through {} lines for \"[Benchmark] ..\" or \"STEP-0: step_time "
        "= "
        "..\" (moe-steps, moe-phases), \"[rank:0 stage:0] .. forward time\" (opt-prime), \"time (ms) | forward: ..\" "
        "(deepspeed) and the lines of shipped patterns ({}), and found {}; another log is read with --format custom "
        "--pattern FILE",
        path, lines, names.empty() ? "none" : names.substr(2),
        signs.step     ? "STEP lines without the start of a run"
        : signs.phases ? "phase lines without a [Benchmark] line"
                       : "none of them"));
}

}  // namespace stepcast
