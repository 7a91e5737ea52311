#include "calibrate/logs/run_summary.h"

#include <algorithm>

namespace stepcast {
namespace {

constexpr std::size_t most_values = std::size_t{1} << 18;

}  // namespace

void SeriesValues::add(double value) {
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
    const auto column = static_cast<std::size_t>(rank + 1);
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

std::vector<Sample> RunSummary::rows(const Sample& like, const std::vector<SampleRecord::Phase>& phases,
                                     long least_steps) {
    std::vector<Sample> rows;
    for (Series& series : series_) {
        series.end_step();
        if (series.middle.count() < std::max(1L, least_steps)) continue;
        const auto add = [&](const std::string& ending, double value) {
            Sample& row = rows.emplace_back(like);
            row.phase = phases[series.phase].name + ending;
            row.unit = phases[series.phase].unit;
            row.rank = series.rank;
            row.step = -1;
            row.value = value;
        };
        if (series.several) add(".least", series.least.median());
        add(series.several ? ".median" : "", series.middle.median());
        if (series.several) add(".greatest", series.greatest.median());
        if (means_ && series.rank == -1 && phases[series.phase].name == "step") add(".mean", series.middle.mean());
    }
    return rows;
}

}  // namespace stepcast
