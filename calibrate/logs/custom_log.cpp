// Dialect custom: logs that a pattern file describes.
#include <fmt/format.h>

#include <cmath>

#include "calibrate/logs/dialects.h"
#include "model/errors.h"

namespace stepcast {
namespace {

class CustomLog {
public:
    CustomLog(const std::string& path, const LogPattern& pattern, const TakeRun& take)
        : log_{path, take}, pattern_(pattern) {}

    LineUse take(const LogLine& line) {
        for (const std::string& text : pattern_.ignore)
            if (position_of(text, line.text) != std::string_view::npos) return LineUse::skipped;
        for (const LinePattern& one : pattern_.lines)
            if (matches(one, line)) return read(one, line);
        return LineUse::unknown;
    }

    void finish(long lines) {
        close();
        log_.require_one(lines, fmt::format("lines as {} describes them", pattern_.path));
    }

private:
    bool matches(const LinePattern& one, const LogLine& line) {
        try {
            return one.match(line.text, values_);
        } catch (const ConfigError& error) {
            log_.refuse(line.number, error.what());
        }
    }

    // A value of rank 0, or without a rank, is the run's (rank -1); other ranks keep their number.
    LineUse read(const LinePattern& one, const LogLine& line) {
        int rank = -1, step = step_;
        for (std::size_t i = 0; i < values_.size(); ++i) {
            const std::string& name = one.fields()[i].name;
            if (name != "#" && name != "rank") continue;
            if (values_[i] < 0 || values_[i] > 1e9 || values_[i] != std::floor(values_[i]))
                log_.refuse(line.number, fmt::format("{} {} is no count; is the pattern the right one?",
                                                     name == "#" ? "step" : "rank", values_[i]));
            if (name == "rank")
                rank = values_[i] > 0 ? static_cast<int>(values_[i]) : -1;
            else
                step = static_cast<int>(values_[i]);
        }
        if (one.counts_steps()) begin_step(step, rank, line.number);
        if (step < 0) return LineUse::skipped;  // before the first step
        for (std::size_t i = 0; i < values_.size(); ++i)
            if (const auto& field = one.fields()[i]; field.name != "#" && field.name != "rank") {
                if (values_[i] < 0 && field.unit != "1")
                    log_.refuse(line.number, fmt::format("{} is {}; expected 0 or more; is the pattern the right one?",
                                                         field.name, values_[i]));
                add(field, rank, step, values_[i]);
            }
        log_.run.last_line = line.number;
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

    void add(const LinePattern::Field& field, int rank, int step, double value) {
        const bool rate = field.unit == "tokens/s";
        log_.record.add(log_.record.phase(field.name, rate ? "1" : field.unit), rank, step, value);
        if (rate && pattern_.tokens > 0 && value > 0) log_.add("step", rank, step, pattern_.tokens / value);
    }

    void close() {
        ImportedRun& run = log_.run;
        run.system = pattern_.system;
        run.model = pattern_.model;
        run.ranks = pattern_.ranks;
        if (means_ > 0)
            run.notes.push_back(fmt::format(
                "{} of its {} lines are means over the steps since the line before, not samples: their spread is too "
                "small for noise",
                means_, run.steps));
        log_.close(run.steps > 0);
        step_ = -1;
        means_ = 0;
    }

    OpenRun log_;
    const LogPattern& pattern_;
    std::vector<double> values_;
    int step_ = -1;  // of the reporting rank
    long means_ = 0;
};

}  // namespace

LineCounts import_custom(const std::string& path, const LogPattern& pattern, const TakeRun& take) {
    return read_whole(path, CustomLog(path, pattern, take));
}

}  // namespace stepcast
