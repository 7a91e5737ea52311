#include "import/logs/custom_log.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "import/logs/dialects.h"
#include "import/logs/step_clock.h"
#include "import/logs/training_bar.h"
#include "model/base/errors.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {
namespace {

class CustomLog {
public:
    CustomLog(const std::string& path, const LogPattern& pattern, const TakeRun& take)
        : log_{path, take}, pattern_(pattern) {}

    LineUse take(const LogLine& line) {
        for (const std::string& text : pattern_.ignore)
            if (position_of(text, line.text) != std::string_view::npos) {
                bar_.deny();
                return LineUse::skipped;
            }
        for (const LinePattern& one : pattern_.lines)
            if (matches(one, line)) {
                if (const auto end = value_of(one, "bar")) return read_bar(one, line, *end);
                read_held(bar_.settle());
                return read(one, line.number);
            }
        return LineUse::unknown;
    }

    void finish(long lines) {
        read_held(bar_.rest());
        close();
        log_.require_one(lines, fmt::format("lines as {} describes them", pattern_.path));
    }

    [[nodiscard]] long dropped() const { return bar_.dropped(); }

private:
    LineUse read_bar(const LinePattern& one, const LogLine& line, double end) {
        const TrainingBar::Line seen{end, count_of(one, "#", line.number).value_or(step_),
                                     line.number, &one, values_};
        const bool other = line.below || TrainingBar::has_title(line.text);
        auto use = bar_.take(seen, other);
        if (use == TrainingBar::Use::restart) {
            read_held(bar_.settle());
            use = bar_.take(seen, other);
        }
        if (use == TrainingBar::Use::step) return read(one, line.number);
        return use == TrainingBar::Use::held ? LineUse::used : LineUse::skipped;
    }

    // Between a line's match and its reading, which go by the same values.
    void read_held(const std::vector<TrainingBar::Line>& lines) {
        if (lines.empty()) return;
        const std::vector<double> kept = values_;
        for (const TrainingBar::Line& line : lines) {
            values_ = line.values;
            read(*line.pattern, line.number);
        }
        values_ = kept;
    }

    bool matches(const LinePattern& one, const LogLine& line) {
        try {
            return one.match(line.text, values_);
        } catch (const ConfigError& error) {
            log_.refuse(line.number, error.what());
        }
    }

    std::optional<double> value_of(const LinePattern& one, std::string_view name) const {
        const auto field = std::ranges::find(one.fields(), name, &LinePattern::Field::name);
        if (field == one.fields().end()) return std::nullopt;
        return values_[as_index(field - one.fields().begin())];
    }

    std::optional<int> count_of(const LinePattern& one, std::string_view name, long line) {
        const auto stated = value_of(one, name);
        if (!stated) return std::nullopt;
        const double value = *stated;
        if (value < 0 || value > 1e9 || value != std::floor(value))
            log_.refuse(line, fmt::format("{} {} is no count; is the pattern the right one?",
                                          name == "#" ? "step" : name, value));
        return static_cast<int>(value);
    }

    // A value of rank 0, or without a rank, is the run's (rank -1); other ranks keep their number.
    LineUse read(const LinePattern& one, long number) {
        const auto stated_rank = count_of(one, "rank", number),
                   stated_step = count_of(one, "#", number);
        const int rank = stated_rank.value_or(0) > 0 ? *stated_rank : -1,
                  step = stated_step.value_or(step_);
        const auto clock = value_of(one, "clock");
        if (clock && clock_.goes_back(*clock)) close();
        if (one.counts_steps()) begin_step(step, rank, number);
        if (is_of_run(one)) return read_of_run(one, number);
        if (step < 0) return LineUse::skipped;  // before the first step
        const auto iterations =
            std::ranges::find(one.fields(), "iterations", &LinePattern::Field::name);
        const bool micro_batch = iterations != one.fields().end() &&
                                 values_[as_index(iterations - one.fields().begin())] != step;
        micro_batches_ += micro_batch ? 1 : 0;
        for (const std::size_t i : indices_of(values_))
            if (const auto& field = one.fields()[i];
                !is_number_of(field.name) && std::isfinite(values_[i])) {
                if (values_[i] < 0 && field.unit != "1")
                    log_.refuse(
                        number,
                        fmt::format("{} is {}; expected 0 or more; is the pattern the right one?",
                                    field.name, values_[i]));
                add(field, rank, step, values_[i], micro_batch);
            }
        if (clock && rank == -1) take_clock(step, *clock, value_of(one, "mean"));
        log_.run.last_line = number;
        return LineUse::used;
    }

    void take_clock(int step, double clock, std::optional<double> mean) {
        if (const auto value = clock_.take(step, clock, mean)) log_.add("step", -1, step, *value);
    }

    // "{run.step:steps/s}" and the like are of the whole run, as a log's last line states them.
    static bool is_of_run(const LinePattern& one) {
        return std::ranges::all_of(
            one.fields(), [](const auto& field) { return field.name.starts_with("run."); });
    }
    LineUse read_of_run(const LinePattern& one, long line) {
        if (log_.run.first_line == 0) log_.run.first_line = line;
        log_.run.last_line = line;
        for (const std::size_t i : indices_of(values_)) {
            const auto& field = one.fields()[i];
            if (!std::isfinite(values_[i])) continue;
            if (field.name == "run.step")
                mean_step_ = values_[i];
            else
                log_.record.add(log_.record.phase(field.name.substr(4), field.unit), -1, -1,
                                values_[i]);
        }
        if (mean_step_) {  // this line ends a run
            close();
            bar_.end_run();
        }
        return LineUse::used;
    }

    // A step number below the last one begins a new run.
    void begin_step(int step, int rank, long line) {
        if (rank != -1) return;
        if (step < step_) close();
        if (log_.run.steps == 0) log_.run.first_line = line;
        if (step != step_) ++log_.run.steps;
        if (step_ >= 0 && step > step_ + 1 && pattern_.mean_since_last) ++means_;
        step_ = step;
    }

    // What a line says of its place, not of its time.
    static bool is_number_of(std::string_view field) {
        return field == "#" || field == "rank" || field == "bar" || field == "iterations" ||
               field == "clock" || field == "mean";
    }

    // Where more iterations than steps were counted, a line's time is that of a micro-batch.
    void add(const LinePattern::Field& field, int rank, int step, double value, bool micro_batch) {
        const bool rate = field.unit == "tokens/s";
        log_.record.add(
            log_.record.phase(micro_batch && field.name == "step" ? "micro_batch" : field.name,
                              rate ? "1" : field.unit),
            rank, step, value);
        if (rate && pattern_.tokens > 0 && value > 0)
            log_.add("step", rank, step, pattern_.tokens / value);
    }

    void close() {
        ImportedRun& run = log_.run;
        run.system = pattern_.system;
        run.model = pattern_.model;
        run.ranks = pattern_.ranks;
        if (means_ > 0)
            add_line(run.notes,
                     "{} of its {} lines are means over the steps since the line before, "
                     "not samples: their spread is too "
                     "small for noise",
                     means_, run.steps);
        if (!pattern_.note.empty()) run.notes.push_back(pattern_.note);
        if (const auto mean = clock_.rest()) {
            log_.add("step", -1, step_, *mean);
            run.notes.emplace_back(
                "its clock counts whole seconds and moved by less than 20: the step is the mean "
                "between its first and its last line");
        }
        if (micro_batches_ > 0)
            add_line(
                run.notes,
                "{} of its lines time one micro-batch of several, not a step: phase micro_batch",
                micro_batches_);
        if (mean_step_ && (run.steps == 0 || micro_batches_ > 0)) {
            log_.record.add(log_.record.phase("step"), -1, -1, *mean_step_);
            run.notes.emplace_back(
                "no line times a step: the step is the mean over the whole run, its first steps "
                "and its validation included");
        }
        const bool any = run.steps > 0 || mean_step_;
        log_.close(any);
        step_ = -1;
        means_ = micro_batches_ = 0;
        mean_step_.reset();
        clock_ = {};
    }

    OpenRun log_;
    const LogPattern& pattern_;
    std::vector<double> values_;
    int step_ = -1;  // of the reporting rank
    long means_ = 0, micro_batches_ = 0;
    StepClock clock_;  // of logs without a step's time
    TrainingBar bar_;
    std::optional<double> mean_step_;  // over the run, as its last line states it
};

}  // namespace

LineCounts import_custom(const std::string& path, const LogPattern& pattern, const TakeRun& take) {
    CustomLog log(path, pattern, take);
    LineCounts lines = read_whole(path, log);
    lines.used -= log.dropped();
    lines.skipped += log.dropped();
    return lines;
}

}  // namespace stepcast
