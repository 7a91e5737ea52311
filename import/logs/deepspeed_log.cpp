#include "import/logs/deepspeed_log.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "import/logs/dialects.h"
#include "model/base/characters.h"
#include "model/base/lines.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"

namespace stepcast {
namespace {

// DeepSpeed's names and ours. `backward` is the backward pass alone. DeepSpeed's "backward"
// includes the all-reduce, which it also states apart; it is used only where "backward_inner" is
// not stated.
struct Timer {
    std::string_view theirs, ours;
};
constexpr std::array step_timers{Timer{"forward", "forward"},
                                 Timer{"fwd", "forward"},
                                 Timer{"backward_inner", "backward"},
                                 Timer{"bwd_inner", "backward"},
                                 Timer{"backward_allreduce", "gradient_sync"},
                                 Timer{"bwd_allreduce", "gradient_sync"},
                                 Timer{"backward", "backward_and_sync"},
                                 Timer{"bwd", "backward_and_sync"},
                                 Timer{"step", "optimizer"}};

// The time stamp of "[2024-02-20 09:55:01,105] ..": milliseconds since the day's midnight.
// Differences allow for one midnight between.
std::optional<double> clock_of(std::string_view line) {
    int hour = 0, minute = 0, second = 0, millisecond = 0;
    const std::string stamp(line.substr(0, 24));
    const int found = std::sscanf(stamp.c_str(), "[%*4d-%*2d-%*2d %2d:%2d:%2d,%3d", &hour, &minute,
                                  &second, &millisecond);
    const double clock = ((hour * 60.0 + minute) * 60 + second) * 1000 + millisecond;
    return found == 4 && stamp.size() == 24 ? std::optional(clock) : std::nullopt;
}
constexpr double day = 24 * 3600 * 1000.0;

int rank_of(std::string_view line) {
    for (const char* before : {"[Rank ", "rank="}) {
        LineCursor cursor(line);
        const auto rank = cursor.find(before) ? cursor.integer() : std::nullopt;
        if (rank && *rank >= 0) return *rank;
    }
    return 0;
}

class DeepSpeedLog {
public:
    DeepSpeedLog(const std::string& path, const TakeRun& take) : log_{path, take} {}

    LineUse take(const LogLine& line) {
        if (const std::size_t at = position_of("time (ms)", line.text);
            at != std::string_view::npos)
            return read_timers(line, line.text.substr(at + 9));
        // of dumps
        if (!line.text.empty() && (line.text[0] == ' ' || line.text[0] == '('))
            return LineUse::unknown;
        return read_other(line);
    }
    void finish(long lines) {
        close();
        log_.require_one(lines,
                         "\"time (ms) | forward: .. | backward: .. | step: ..\" "
                         "(wall_clock_breakdown in DeepSpeed's "
                         "configuration)");
    }

private:
    // For one rank: the current step and when the last one ended.
    struct Clock {
        int step = 1;
        std::optional<double> ended;
    };

    LineUse read_timers(const LogLine& line, std::string_view text) {
        if (!read_values(text)) {
            ++cut_;
            if (log_.run.notes.size() < 3)
                add_line(log_.run.notes, "{}:{}: {} is cut or not understood; left out", log_.path,
                         line.number, quoted_piece(text));
            return LineUse::unknown;
        }
        const auto has = [&](std::string_view name) {
            return std::ranges::any_of(values_, [&](const auto& v) { return v.first == name; });
        };
        const int rank = rank_of(line.text);
        if (rank > most_ranks)
            log_.refuse(line.number,
                        fmt::format("rank {} is absurd; expected at most {}", rank, most_ranks));
        if (as_index(rank) >= clocks_.size()) clocks_.resize(as_index(rank) + 1);
        log_.run.last_line = line.number;
        if (log_.run.first_line == 0) log_.run.first_line = line.number;
        if (has("forward") || has("fwd")) {
            add_step(line, rank);
            return LineUse::used;
        }
        if (values_.front().first.ends_with("_microstep")) return LineUse::skipped;
        // "optimizer_step" and the like, printed before the step's own line
        for (const auto& [name, value] : values_)
            log_.add(name, rank == 0 ? -1 : rank, clocks_[as_index(rank)].step,
                     seconds_of_milliseconds(value));
        return LineUse::used;
    }

    // "| NAME: VALUE | NAME: VALUE"; false when the line breaks off.
    bool read_values(std::string_view text) {
        values_.clear();
        LineCursor cursor(text);
        while (cursor.word("|")) {
            cursor.word("");
            std::string_view name = cursor.rest();
            name = name.substr(
                0, as_index(std::find_if_not(name.begin(), name.end(), is_name_character) -
                            name.begin()));
            if (name.empty() || !cursor.word(name) || !cursor.word(":")) return false;
            const auto value = cursor.number();
            if (!value || *value < 0) return false;
            values_.emplace_back(name, *value);
        }
        return !values_.empty() && cursor.at_end();
    }

    void add_step(const LogLine& line, int rank) {
        Clock& clock = clocks_[as_index(rank)];
        const int as = rank == 0 ? -1 : rank;
        const bool apart = std::ranges::any_of(values_, [](const auto& v) {
            return v.first == "backward_inner" || v.first == "bwd_inner";
        });
        for (const Timer& timer : step_timers)
            for (const auto& [name, value] : values_)
                if (name == timer.theirs && !(apart && timer.ours == "backward_and_sync"))
                    log_.add(timer.ours, as, clock.step, seconds_of_milliseconds(value));
        const auto now = clock_of(line.text);
        if (now && clock.ended) {
            const double passed = *now - *clock.ended + (*now < *clock.ended ? day : 0.0);
            log_.add("step", as, clock.step, seconds_of_milliseconds(passed));
        } else if (!now) {
            ++untimed_;
        }
        clock.ended = now;
        if (rank == 0) ++log_.run.steps;
        ++clock.step;
    }

    LineUse read_other(const LogLine& line) {
        static constexpr std::pair<std::string_view, LineUse (DeepSpeedLog::*)(LineCursor&)>
            lines[] = {{"OVERFLOW!", &DeepSpeedLog::read_overflow},
                       {"CurrSamplesPerSec=", &DeepSpeedLog::read_rate},
                       {"Batch (t):", &DeepSpeedLog::read_mean},
                       {"DeepSpeed info: version=", &DeepSpeedLog::read_start},
                       {"see_memory_usage] ", &DeepSpeedLog::read_memory},
                       {"Loaded ", &DeepSpeedLog::read_model},
                       {"world_size ..", &DeepSpeedLog::read_ranks},
                       {"number of total params: ", &DeepSpeedLog::read_parameters}};
        LineCursor cursor(line.text);
        for (const auto& [sign, read] : lines)
            if (cursor.find(sign)) return (this->*read)(cursor);
        return LineUse::unknown;
    }

    LineUse keep(const char* name, const char* unit, int step, std::optional<double> value) {
        if (value) log_.record.add(log_.record.phase(name, unit), -1, step, *value);
        return value ? LineUse::used : LineUse::unknown;
    }
    [[nodiscard]] int step() const { return clocks_.empty() ? 1 : clocks_.front().step; }
    [[nodiscard]] int last_step() const { return std::max(1, step() - 1); }

    LineUse read_overflow(LineCursor&) { return keep("overflow", "1", step(), 1); }

    LineUse read_rate(LineCursor& cursor) {
        const LineUse use = keep("samples_per_s", "1", last_step(), cursor.number());
        // behind it since version 0.7 (utils/timer.py), in binary gigabytes
        if (cursor.find("MaxMemAllocated="))
            if (const auto most = cursor.number()) keep_memory("memory", *most);
        return use;
    }

    // The values are means since the line before, except the rate behind them: it is the last
    // step's.
    LineUse read_mean(LineCursor& cursor) {
        const LineUse use = keep("mean_since_last.batch", "s", last_step(), cursor.number());
        keep("samples_per_s", "1", last_step(),
             cursor.word(",") ? cursor.grouped_number() : std::nullopt);
        return use;
    }

    LineUse read_start(LineCursor&) {
        if (log_.run.steps > 0) close();
        return LineUse::used;
    }

    LineUse read_model(LineCursor& cursor) {
        const std::string_view name = cursor.rest().substr(0, cursor.rest().find(" model config"));
        if (name.size() == cursor.rest().size()) return LineUse::unknown;
        if (log_.run.steps > 0) close();
        log_.run.model = lower_case(std::string(name));
        return LineUse::used;
    }

    LineUse read_ranks(LineCursor& cursor) {
        LineCursor after(cursor.rest().substr(
            std::min(cursor.rest().find_first_not_of('.'), cursor.rest().size())));
        const auto ranks = after.integer();
        if (ranks && *ranks > 0) log_.run.ranks = *ranks;
        return ranks ? LineUse::used : LineUse::unknown;
    }

    LineUse read_parameters(LineCursor& cursor) {
        const auto count = cursor.number();
        if (count && !counted_)
            log_.record.add(log_.record.phase("parameters", "1"), -1, -1, *count);
        counted_ = counted_ || count;  // every rank prints it
        return count ? LineUse::used : LineUse::unknown;
    }

    // "Before initializing optimizer states", then on the next line "MA 0.72 GB  Max_MA 0.95 GB
    // ..": binary gigabytes.
    LineUse read_memory(LineCursor& cursor) {
        if (cursor.word("MA ")) {
            const auto gigabytes = cursor.number();
            if (gigabytes && !memory_of_.empty()) keep_memory("memory." + memory_of_, *gigabytes);
            // "Max_MA": most that tensors took, "Max_CA": most that the allocator held, since the
            // line before (runtime/utils.py: see_memory_usage resets them). Before the first step
            // that is the model's making.
            if (log_.run.steps == 0) return gigabytes ? LineUse::used : LineUse::unknown;
            for (const auto& [word, phase] :
                 {std::pair("Max_MA ", "memory"), std::pair("Max_CA ", "memory_reserved")}) {
                LineCursor later = cursor;
                if (!later.find(word)) continue;
                if (const auto most = later.number()) keep_memory(phase, *most);
            }
            return gigabytes ? LineUse::used : LineUse::unknown;
        }
        if (cursor.word("CPU Virtual Memory")) return LineUse::skipped;
        memory_of_.assign(cursor.rest().substr(0, 80));
        for (char& c : memory_of_) c = is_name_character(c) ? lower_case(c) : '_';
        return LineUse::skipped;
    }

    void keep_memory(const std::string& phase, double gigabytes) {
        log_.record.add(log_.record.phase(phase, "B"), -1, -1, gigabytes * 1073741824.0);
    }

    void close() {
        log_.run.system = "deepspeed";
        if (untimed_ > 0)
            add_line(log_.run.notes,
                     "{} of its {} steps have no time stamp, so no row of phase step: it is "
                     "not forward + backward + step, "
                     "which leaves out the loss and the input",
                     untimed_, log_.run.steps);
        if (cut_ > 3)
            add_line(log_.run.notes, "{} timer lines in all are cut or not understood", cut_);
        log_.close(log_.run.steps > 0);
        clocks_.clear();
        memory_of_.clear();
        cut_ = untimed_ = 0;
        counted_ = false;
    }

    OpenRun log_;
    std::vector<Clock> clocks_;
    // of the line: the log's names, milliseconds
    std::vector<std::pair<std::string_view, double>> values_;
    std::string memory_of_;
    long cut_ = 0, untimed_ = 0;
    bool counted_ = false;
};

}  // namespace

LineCounts import_deepspeed(const std::string& path, const TakeRun& take) {
    return read_whole(path, DeepSpeedLog(path, take));
}

}  // namespace stepcast
