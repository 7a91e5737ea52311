#include "import/logs/stream_log.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include <fmt/format.h>

#include "import/logs/custom_log.h"
#include "import/logs/deepspeed_log.h"
#include "import/logs/dialects.h"
#include "import/logs/moe_log.h"
#include "import/logs/moe_phases.h"
#include "import/logs/opt_prime_log.h"
#include "model/base/csv.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/experiment.h"

namespace stepcast {

void OpenRun::close(bool any) {
    if (any) {
        ++closed;
        if (run.run_id.empty()) {
            run.run_id = fmt::format("{}-{}", std::filesystem::path(path).stem().string(), closed);
            for (const std::string& part : {run.system, run.model})
                if (!part.empty() && !has(part, '/')) run.run_id += "-" + part;
        }
        take(std::move(run), record);
    }
    run = {};
    record.clear();
}

void OpenRun::refuse(long line, const std::string& what) const {
    throw ConfigError(fmt::format("{}:{}: {}", path, line, what));
}

void OpenRun::require_one(long lines, std::string_view expected) const {
    if (closed == 0)
        refuse(lines, fmt::format("the log ends without a step; expected {}", expected));
}

namespace {

// What the lines read so far tell about the dialect.
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
        if (text.starts_with("[rank:") && holds("forward time") && holds("- step"))
            return LogFormat::opt_prime;
        static constexpr std::array timers{
            "forward: ", "fwd: ", "forward_microstep: ", "fwd_microstep: "};
        if (holds("time (ms) |") && std::ranges::any_of(timers, holds)) return LogFormat::deepspeed;
        return std::nullopt;
    }
};

// Of the pattern's texts that stand in the line; 0 = none. The longest of all patterns' says whose
// line it is: a tool that writes more behind another's words.
std::size_t longest_text(const LogPattern& pattern, std::string_view line) {
    std::size_t longest = 0;
    for (const std::string& text : pattern.recognise)
        if (text.size() > longest && position_of(text, line) != std::string_view::npos)
            longest = text.size();
    return longest;
}

// Whether one of the pattern's lines matches; a number that it would cut is of its tool, too, and
// is refused when the log is read.
bool is_line_of(const LogPattern& pattern, std::string_view line) {
    std::vector<double> values;
    return std::ranges::any_of(pattern.lines, [&](const LinePattern& one) {
        try {
            return one.match(line, values);
        } catch (const ConfigError&) {
            return true;
        }
    });
}

// Files that people have beside logs and traces, by their first bytes or their name, and what to do
// with them; "" = none of these.
std::string what_else(const std::string& path) {
    struct Kind {
        std::string_view begins, ends, says;
    };
    static constexpr Kind kinds[] = {
        {"PK\x03\x04", "", "a zip archive; expected the files in it: unzip it"},
        {"\x28\xb5\x2f\xfd", "", "packed by zstd; expected plain text or gzip: unzstd it"},
        {"\xfd"
         "7zXZ",
         "", "packed by xz; expected plain text or gzip: unxz it"},
        {"BZh", "", "packed by bzip2; expected plain text or gzip: bunzip2 it"},
        {"\xff\xfe", "", "UTF-16; expected UTF-8: iconv -f UTF-16 -t UTF-8"},
        {"\xfe\xff", "", "UTF-16; expected UTF-8: iconv -f UTF-16 -t UTF-8"},
        {"\x80", ".pickle",
         "a pickle, as PyTorch's memory snapshots: scripts/memory-snapshot.py reads it"},
        {"\x80", ".pkl",
         "a pickle, as PyTorch's memory snapshots: scripts/memory-snapshot.py reads it"},
        {"", ".nsys-rep",
         "a report of Nsight Systems; expected its export: nsys export --type sqlite"},
        {"", ".qdrep",
         "a report of Nsight Systems; expected its export: nsys export --type sqlite"},
        {"", ".ncu-rep", "a report of Nsight Compute, which has single kernels: not read"},
        {"", ".pftrace", "Perfetto's binary trace; expected PyTorch's own JSON"},
        {"", ".tar", "an archive; expected the files in it"},
        {"", ".tgz", "an archive; expected the files in it"}};
    std::ifstream file(path, std::ios::binary);
    std::string head(8, '\0');
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    for (const Kind& kind : kinds)
        if (head.starts_with(kind.begins) && path.ends_with(kind.ends))
            return std::string(kind.says);
    return "";
}

// A log that shows no dialect.
struct Unrecognised {
    Signs signs;
    long lines = 0;
    std::string near;  // a line that has a word of a shipped pattern
};

[[noreturn]] void refuse_log(const std::string& path, const Unrecognised& log,
                             const std::vector<LogPattern>& patterns) {
    std::string names;
    for (const LogPattern& one : patterns) names += ", " + one.name;
    refuse(
        "{}: not a log that stepcast recognises: looked through {} lines for "
        "\"[Benchmark] ..\" or \"STEP-0: step_time "
        "= "
        "..\" (moe-steps, moe-phases), \"[rank:0 stage:0] .. forward time\" "
        "(opt-prime), \"time (ms) | forward: ..\" "
        "(deepspeed) and the lines of shipped patterns ({}), and found {}{}; another "
        "log is read with --format custom "
        "--pattern FILE, a file that describes its lines (docs/bring-your-files.md)",
        path, log.lines, names.empty() ? "none" : names.substr(2),
        log.signs.step     ? "STEP lines without the start of a run"
        : log.signs.phases ? "phase lines without a [Benchmark] line"
                           : "none of them",
        log.near);
}

// Recognises the dialect by lines that only it has; for a shipped pattern, sets `pattern` to its
// file.
LogFormat recognise(const std::string& path, std::string& pattern) {
    std::vector<LogPattern> patterns;
    for (const std::string& file : shipped_patterns()) patterns.push_back(read_log_pattern(file));
    Unrecognised seen;
    std::optional<LogFormat> found;
    read_lines(path, [&](const LogLine& line) {
        seen.lines = line.number;
        found = seen.signs.take(line.text);
        std::size_t known = 0;
        for (const LogPattern& one : patterns) {
            const std::size_t by = found && known == 0 ? 0 : longest_text(one, line.text);
            if (by <= known) continue;
            if (!is_line_of(one, line.text)) {
                if (seen.near.empty())
                    seen.near =
                        fmt::format("; line {} has a word of {}'s, and is none of its lines",
                                    line.number, one.name);
                continue;
            }
            known = by;
            found = LogFormat::custom;
            pattern = one.path;
        }
        return !found;
    });
    if (found) return *found;
    if (seen.lines == 0) throw ConfigError(path + ": is empty; expected a training log");
    if (const std::string other = what_else(path); !other.empty())
        throw ConfigError(path + ": " + other);
    if (seen.signs.benchmark)
        return seen.signs.phases ? LogFormat::moe_phases : LogFormat::moe_steps;
    refuse_log(path, seen, patterns);
}

// An input of the steps that the log does not print ("workload.seq=88,109,..").
struct StepInput {
    std::string key;
    std::vector<double> values;
};

// "KEY=VALUE" holds for the whole run, "KEY=A,B,.." gives one value for each step from the first
// step on.
std::vector<StepInput> read_inputs(const std::vector<std::string>& texts) {
    std::vector<std::string> keys;
    if (!texts.empty())
        for (const KeyDoc& doc : key_docs()) keys.push_back(doc.key);
    std::vector<StepInput> inputs;
    for (const std::string& text : texts) {
        const auto equals = text.find('=');
        StepInput& input = inputs.emplace_back(text.substr(0, equals));
        if (equals == std::string::npos || !contains(keys, input.key))
            throw ConfigError("--input " + text +
                              ": expected KEY=VALUE or KEY=A,B,.. with a key of the experiment" +
                              did_you_mean(input.key, keys));
        at_place("--input " + text, [&] {
            for (const std::string& word : words_of(text.substr(equals + 1)))
                input.values.push_back(csv_number(word));
        });
        if (input.values.empty())
            throw ConfigError("--input " + text + ": expected at least one value");
    }
    return inputs;
}

// Adds the inputs as rows next to the measured ones.
void add_inputs(const std::vector<StepInput>& inputs, SampleRecord& samples) {
    const int first = samples.first_step();
    for (const StepInput& input : inputs) {
        const std::uint16_t key = samples.phase(input.key, "1");
        for (const std::size_t i : indices_of(input.values))
            samples.add(key, -1, input.values.size() == 1 ? -1 : first + as_int(i),
                        input.values[i]);
    }
}

}  // namespace

ImportResult stream_log(const std::string& path, const ImportRequest& how, const TakeRun& take) {
    ImportResult result{path, how.format, {}};
    std::string pattern = how.pattern;
    if (result.format == LogFormat::automatic)
        result.format = pattern.empty() ? recognise(path, pattern) : LogFormat::custom;
    if ((result.format == LogFormat::custom) == pattern.empty())
        throw ConfigError(
            pattern.empty()
                ? "import: format custom needs --pattern FILE, which describes the lines"
                : fmt::format("import: --pattern belongs to format custom, not {}",
                              to_string(result.format)));
    const std::vector<StepInput> inputs = read_inputs(how.inputs);
    const TakeRun complete = [&](ImportedRun&& run, SampleRecord& samples) {
        if (!how.system.empty()) run.system = how.system;
        if (!how.model.empty()) run.model = how.model;
        if (run.ranks == 0) run.ranks = how.ranks;
        add_inputs(inputs, samples);
        take(std::move(run), samples);
    };
    switch (result.format) {
        case LogFormat::moe_steps: result.lines = import_moe_steps(path, complete); break;
        case LogFormat::moe_phases: result.lines = import_moe_phases(path, complete); break;
        case LogFormat::opt_prime: result.lines = import_opt_prime(path, complete); break;
        case LogFormat::deepspeed: result.lines = import_deepspeed(path, complete); break;
        case LogFormat::custom:
            result.lines = import_custom(path, read_log_pattern(pattern), complete);
            break;
        case LogFormat::automatic: throw std::logic_error("import: the format was not settled");
    }
    return result;
}

}  // namespace stepcast
