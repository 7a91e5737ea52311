#include "import/logs/moe_log.h"

#include <filesystem>

#include <fmt/format.h>

#include "import/tables/recorded.h"
#include "model/base/lines.h"
#include "model/base/plain_text.h"

namespace stepcast {
namespace {

std::optional<int> count_after(std::string_view line, std::string_view key) {
    LineCursor cursor(line);
    return cursor.find(key) ? cursor.integer() : std::nullopt;
}

// Our name for the log's `dtype = float16` and the like.
std::string dtype_of(std::string_view line) {
    LineCursor cursor(line);
    if (!cursor.find("dtype = ")) return "";
    if (cursor.word("float16")) return "fp16";
    if (cursor.word("bfloat16")) return "bf16";
    if (cursor.word("float32")) return "fp32";
    return "";
}

// The words before "[Summary]" in lines such as "mix_moe 4 [Summary] .." or "naive gpt2 16
// [Summary] ..".
std::vector<std::string> words_before_summary(std::string_view line) {
    return words_of(std::string(line.substr(0, line.find("[Summary]"))), " \t");
}

constexpr const char* headless =
    "a STEP line outside a run; expected a \"[Benchmark] ..\" line before it (is the head of the "
    "log missing?)";

// An integer at the end of the line.
std::optional<int> last_number(LineCursor& cursor) {
    const auto number = cursor.integer();
    return cursor.at_end() ? number : std::nullopt;
}

// Dialect moe-steps: one rank prints; between a run's start and [Summary] only STEP lines. Whole
// models print launch and modules before.
LineUse judge(const LogLine& line, MoeLog& log) {
    LineCursor cursor(line.text);
    if (cursor.at_end()) return LineUse::skipped;
    if (cursor.word("cuda:") && last_number(cursor)) return LineUse::skipped;
    if (cursor.word("world_size")) {
        const std::optional<int> ranks = last_number(cursor);
        if (!ranks || *ranks < 1) return LineUse::unknown;
        log.ranks = *ranks;
        return LineUse::used;
    }
    if (cursor.word("local_rank") || cursor.word("world_rank"))
        return last_number(cursor) ? LineUse::skipped : LineUse::unknown;
    if (line.text == "ddp" || line.text.ends_with(" init success")) return LineUse::skipped;
    const bool module =
        cursor.word("(") || cursor.word(")") || cursor.word("DistributedDataParallel(");
    return module && !log.open ? LineUse::skipped : LineUse::unknown;
}

struct StepsLog {
    MoeLog log;
    LineUse take(const LogLine& line) {
        const std::optional<LineUse> use = log.take(line, "");
        return use ? *use : judge(line, log);
    }
    void finish(long lines) { log.finish(lines); }
};

}  // namespace

std::optional<LineUse> MoeLog::take(const LogLine& line, const std::string& system) {
    if (line.text.starts_with("STEP-")) {
        read_step(line);
        return LineUse::used;
    }
    if (line.text.starts_with("[Benchmark]")) {
        open_run(line);
        return LineUse::used;
    }
    if (position_of("[Summary]", line.text) != std::string_view::npos) {
        close_run(line, system);
        return LineUse::used;
    }
    return std::nullopt;
}

void MoeLog::open_run(const LogLine& line) {
    if (open) {
        log.refuse(
            line.number,
            fmt::format(
                "a new run begins, but the run begun at line {} has no [Summary] line after its "
                "{} steps; it is truncated: remove it from the log or import a whole log",
                log.run.first_line, log.run.steps));
    }
    const auto need = [&](std::string_view key) {
        const std::optional<int> value = count_after(line.text, fmt::format("{} = ", key));
        if (!value || *value < 1)
            log.refuse(line.number,
                       fmt::format("[Benchmark] line has no \"{} = N\" with N of at least 1", key));
        return *value;
    };
    log.run = {};
    log.run.first_line = line.number;
    log.run.ranks = need("world_size");
    log.run.shape = {need("model_dim"), need("hidden_size"), need("samples"), need("topK"),
                     dtype_of(line.text)};
    if (log.run.shape.dtype.empty())
        log.refuse(line.number, "[Benchmark] line has no dtype among float16, bfloat16, float32");
    const int per_rank = need("num_local_experts");
    if (per_rank > 1'000'000 || log.run.ranks > 1'000'000 / per_rank) {
        log.refuse(line.number,
                   fmt::format("{} ranks x {} experts is absurd; expected at most 1000000",
                               log.run.ranks, per_rank));
    }
    log.run.experts = log.run.ranks * per_rank;
    open = true;
    whole_model = false;
}

void MoeLog::read_step(const LogLine& line) {
    LineCursor cursor(line.text);
    cursor.word("STEP-");
    const std::optional<int> step = cursor.integer();
    if (!open && step != 0) log.refuse(line.number, headless);
    if (!open) {  // runs of whole models have no line before their first step
        log.run = {};
        log.run.first_line = line.number;
        log.run.ranks = ranks;
        open = whole_model = true;
    }
    const auto milliseconds = [&](std::string_view key) {
        std::optional<double> value;
        if (cursor.find(key) && cursor.word("=")) value = cursor.number();
        if (!value || *value <= 0) {
            log.refuse(line.number,
                       fmt::format("{} has no \"{} = X\" with X above 0; is the line cut?",
                                   quoted_piece(line.text), key));
        }
        return *value * 1e-3;
    };
    const double whole = milliseconds("step_time"), forward = milliseconds("foward_time"),
                 backward = milliseconds("backward_time");
    if (!step || *step != log.run.steps) {
        log.refuse(
            line.number,
            fmt::format(
                "{}: expected STEP-{}; a step is missing or doubled in the run begun at line {}",
                quoted_piece(line.text.substr(0, line.text.find(':'))), log.run.steps,
                log.run.first_line));
    }
    add("step", -1, whole);
    add("forward", -1, forward);
    add("backward", -1, backward);
    ++log.run.steps;
}

void MoeLog::close_run(const LogLine& line, const std::string& known_system) {
    if (!open)
        log.refuse(line.number,
                   "a [Summary] line outside a run; expected a \"[Benchmark] ..\" line before it");
    LineCursor cursor(line.text);
    for (const char* key : {"step_time =", "forward =", "backward ="}) {
        if (!cursor.find(key) || !cursor.number()) {
            log.refuse(
                line.number,
                fmt::format("[Summary] line has no \"{} X\"; the run begun at line {} is cut off",
                            key, log.run.first_line));
        }
        if (whole_model) break;  // their summary states nothing else
    }
    if (log.run.steps == 0)
        log.refuse(line.number,
                   fmt::format("the run begun at line {} has no STEP line", log.run.first_line));
    const std::vector<std::string> words = words_before_summary(line.text);
    if (whole_model)
        name_model_run(line, words);
    else
        name_layer_run(line, words.empty() ? "" : words.front(), known_system);
    log.run.last_line = line.number;
    log.close(true);
    open = false;
}

void MoeLog::name_layer_run(const LogLine& line, const std::string& stated,
                            const std::string& known_system) {
    log.run.system = stated.empty() ? known_system : stated;
    if (log.run.system.empty()) {
        log.refuse(
            line.number,
            fmt::format(
                "nothing says which system the run begun at line {} is; expected its name before "
                "[Summary], as in \"mix_moe 4 [Summary] ..\" (format moe-steps), or a "
                "MixMOETransformerMLP in the module dump (format moe-phases)",
                log.run.first_line));
    }
    log.run.model = model_name(log.run.shape);
    log.run.run_id = fmt::format("{}-{}-{}-{}", std::filesystem::path(log.path).stem().string(),
                                 log.closed + 1, log.run.system, log.run.experts / log.run.ranks);
}

// The words are "SYSTEM MODEL N". N is not used: it is an option of the program that is printed
// even if the model has no experts.
void MoeLog::name_model_run(const LogLine& line, const std::vector<std::string>& words) {
    if (words.size() != 3) log.refuse(log.run.first_line, headless);
    log.run.system = words[0];
    log.run.model = words[1];
    add_line(log.run.notes,
             "{}: the {} before [Summary] is not taken as experts: the program prints it "
             "for dense models too; "
             "experts are the "
             "experiment's",
             line.number, words[2]);
}

void MoeLog::finish(long lines) {
    if (open)
        log.refuse(
            log.run.first_line,
            fmt::format(
                "the run that begins here has no [Summary] line (the log ends after {} of its "
                "steps); it is truncated: remove it from the log or import a whole log",
                log.run.steps));
    if (log.closed == 0)
        log.refuse(lines, "the log ends without a run; expected a \"[Benchmark] ..\" line");
}

LineCounts import_moe_steps(const std::string& path, const TakeRun& take) {
    return read_whole(path, StepsLog{{{path, take}}});
}

}  // namespace stepcast
