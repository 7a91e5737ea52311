#include "import/logs/run_summary.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "import/logs/import.h"
#include "measured/medians.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/records/measurement_file.h"

namespace stepcast {

void SeriesValues::add(double value) {
    constexpr std::size_t most_values = std::size_t{1} << 18;
    sum_ += value;
    if (count_++ % stride_ != 0) return;
    values_.push_back(value);
    if (values_.size() < most_values) return;
    for (std::size_t i = 0; 2 * i < values_.size(); ++i) values_[i] = values_[2 * i];
    values_.resize(values_.size() / 2);
    stride_ *= 2;
}

void RunSummary::Series::end_step() {
    if (of_step.empty()) return;
    several = several || of_step.size() > 1;
    const auto [low, high] = std::minmax_element(of_step.begin(), of_step.end());
    least.add(*low);
    middle.add(of_step.size() == 1 ? of_step[0] : median(of_step));
    greatest.add(*high);
    of_step.clear();
}

RunSummary::Series& RunSummary::series_of(std::size_t phase, int rank) {
    const auto column = as_index(rank + 1);
    if (index_.size() <= phase) index_.resize(phase + 1);
    if (index_[phase].size() <= column) index_[phase].resize(column + 1);
    std::size_t& place = index_[phase][column];
    if (place == 0) {
        series_.emplace_back().phase = phase;
        series_.back().rank = rank;
        place = series_.size();
    }
    return series_[place - 1];
}

void RunSummary::take(std::size_t phase, int rank, int step, double value) {
    Series& series = series_of(phase, rank);
    if (step < from_) return;
    if (step != series.step) series.end_step();
    series.step = step;
    series.of_step.push_back(value);
}

std::vector<Sample> RunSummary::rows(const Sample& like,
                                     const std::vector<SampleRecord::Phase>& phases,
                                     long least_steps) {
    std::vector<Sample> rows;
    for (Series& series : series_) {
        series.end_step();
        if (series.middle.count() < std::max(1L, least_steps)) continue;
        const auto& [phase, unit] = phases[series.phase];
        const auto add = [&](const std::string& ending, double value) {
            rows.push_back(sample_of(like, {phase + ending, series.rank}, value, unit));
        };
        if (series.several) add(".least", series.least.median());
        add(series.several ? ".median" : "", series.middle.median());
        if (series.several) add(".greatest", series.greatest.median());
        if (means_ && series.rank == -1 && phase == "step") add(".mean", series.middle.mean());
    }
    return rows;
}

std::vector<Sample> routing_rows(const ImportedRun& run) {
    std::vector<Sample> rows;
    if (!run.routing) return rows;
    for (int rank = 0; rank < run.ranks; ++rank) {
        const BlockTotals& totals = run.routing->totals[as_index(rank)];
        rows.push_back(sample_of(sample_like(run), {"blocks", rank}, totals.blocks, "1"));
        rows.push_back(sample_of(sample_like(run), {"remote_blocks", rank}, totals.remote, "1"));
    }
    return rows;
}

std::optional<Routing> recorded_routing(const std::vector<Sample>& rows) {
    std::optional<Routing> routing;
    std::vector<bool> seen;
    for (const Sample& row : rows) {
        const bool blocks = row.phase == "blocks";
        if ((!blocks && row.phase != "remote_blocks") || row.rank < 0 || row.rank >= row.ranks)
            continue;
        if (!routing) {
            routing =
                Routing{row.ranks, row.experts, {}, std::vector<BlockTotals>(as_index(row.ranks))};
            seen.assign(2 * routing->totals.size(), false);
        }
        const auto rank = as_index(row.rank);
        (blocks ? routing->totals[rank].blocks : routing->totals[rank].remote) =
            as_int(std::lround(row.value));
        seen[2 * rank + (blocks ? 0 : 1)] = true;
    }
    return routing && !contains(seen, false) ? routing : std::nullopt;
}

std::string too_few_steps(const std::string& run, int last_step) {
    const int steps = last_step + 1, steady = steps - first_steady_step(steps);
    if (steady >= fewest_steady_steps) return "";
    return fmt::format("{}: no medians: {} of its {} steps are steady, expected at least {}", run,
                       steady, steps, fewest_steady_steps);
}

static std::vector<Sample> medians_of(std::vector<Sample> samples, int last_step) {
    SampleRecord names;
    RunSummary summary(first_steady_step(last_step + 1), false);
    for (const Sample& s : samples) summary.expect(names.phase(s.phase, s.unit), s.rank);
    std::ranges::stable_sort(samples, {}, &Sample::step);
    for (const Sample& s : samples) summary.take(names.phase(s.phase), s.rank, s.step, s.value);
    return summary.rows(samples.front(), names.phases());
}

std::vector<std::vector<Sample>> runs_of(const std::vector<Sample>& samples) {
    std::vector<std::vector<Sample>> runs;
    std::map<std::string, std::size_t> index;
    for (const Sample& sample : samples) {
        const auto [at, fresh] = index.emplace(sample.run_id, runs.size());
        if (fresh) runs.emplace_back();
        runs[at->second].push_back(sample);
    }
    return runs;
}

Summaries summaries(const std::vector<Sample>& samples) {
    Summaries result;
    for (std::vector<Sample>& run : runs_of(samples)) {
        std::erase_if(run, [](const Sample& sample) { return sample.step < 0; });
        if (run.empty()) continue;
        const int last = std::ranges::max_element(run, {}, &Sample::step)->step;
        if (std::string why = too_few_steps(run.front().run_id, last); !why.empty())
            result.refused.push_back(std::move(why));
        else
            append(result.rows, medians_of(std::move(run), last));
    }
    return result;
}

}  // namespace stepcast
