// Medians of one run over its steady steps, built value by value in bounded memory, so that imports
// can have any size.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "import/logs/import.h"
#include "import/logs/sample_record.h"
#include "measured/medians.h"
#include "model/base/numbers.h"
#include "model/records/measurements.h"

namespace stepcast {

// A series for quantiles and a mean. Beyond a limit it drops every second value and then takes
// every second one: a systematic sample.
class SeriesValues {
public:
    void add(double value);
    [[nodiscard]] long count() const { return static_cast<long>(count_); }
    [[nodiscard]] double median() const { return stepcast::median(values_); }
    [[nodiscard]] double mean() const { return sum_ / real(count_); }

private:
    std::vector<double> values_;
    std::size_t stride_ = 1, count_ = 0;
    double sum_ = 0;
};

// Takes the values of each (phase, rank) in the order of their steps; several of one step come from
// ranks that are not told apart.
class RunSummary {
public:
    // `from`: the first steady step. `means`: adds a row NAME.mean for the phase step.
    RunSummary(int from, bool means) : from_(from), means_(means) {}
    void take(std::size_t phase, int rank, int step, double value);
    // fixes its place in the order of rows
    void expect(std::size_t phase, int rank) { series_of(phase, rank); }

    // Rows in order of first appearance; `like` and `phases` fill in the rest. Omits phases with
    // values in fewer than `least_steps` steps.
    std::vector<Sample> rows(const Sample& like, const std::vector<SampleRecord::Phase>& phases,
                             long least_steps = 1);

private:
    struct Series {
        std::size_t phase = 0;
        int rank = -1, step = -1;
        std::vector<double> of_step;
        SeriesValues least, middle, greatest;
        bool several = false;
        void end_step();
    };
    Series& series_of(std::size_t phase, int rank);

    int from_;
    bool means_;
    // by phase and rank + 1: place in series_ + 1, 0 = none
    std::vector<std::vector<std::size_t>> index_;
    std::vector<Series> series_;
};

Summaries summaries(const std::vector<Sample>& samples);

// The rows of each run; runs in the order of their first rows.
std::vector<std::vector<Sample>> runs_of(const std::vector<Sample>& samples);

// why a run gets no medians; "" if it gets them
std::string too_few_steps(const std::string& run_id, int last_step);

// Recorded block totals as rows of a measurements file (phases "blocks" and "remote_blocks" per
// rank, unit 1), so that a file of medians states the routing under which they hold; and the
// routing from such rows.
std::vector<Sample> routing_rows(const ImportedRun& run);
std::optional<Routing> recorded_routing(const std::vector<Sample>& rows_of_one_run);

}  // namespace stepcast
