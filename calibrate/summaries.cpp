#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "calibrate/import.h"

namespace stepcast {
namespace {

// All values of one (run, phase, rank), by step.
struct Series {
    const Sample* first = nullptr;
    std::map<int, std::vector<double>> by_step;
};

Sample summary_row(const Sample& like, const std::string& phase, std::vector<double> values) {
    Sample row = like;
    row.phase = phase;
    row.step = -1;
    row.value = median(std::move(values));
    return row;
}

void summarise(const Series& series, int from, std::vector<Sample>& rows) {
    std::vector<double> least, middle, greatest;
    bool several = false;
    for (const auto& [step, values] : series.by_step) {
        if (step < from) continue;
        several = several || values.size() > 1;
        least.push_back(*std::min_element(values.begin(), values.end()));
        middle.push_back(median(values));
        greatest.push_back(*std::max_element(values.begin(), values.end()));
    }
    if (middle.empty()) return;
    const Sample& like = *series.first;
    if (!several) {
        rows.push_back(summary_row(like, like.phase, middle));
        return;
    }
    rows.push_back(summary_row(like, like.phase + ".least", least));
    rows.push_back(summary_row(like, like.phase + ".median", middle));
    rows.push_back(summary_row(like, like.phase + ".greatest", greatest));
}

}  // namespace

std::vector<Sample> routing_rows(const ImportedRun& run) {
    std::vector<Sample> rows;
    if (!run.routing || run.samples.empty()) return rows;
    for (int rank = 0; rank < run.ranks; ++rank) {
        const BlockTotals& totals = run.routing->totals[static_cast<std::size_t>(rank)];
        for (const auto& [phase, value] :
             {std::pair("blocks", totals.blocks), std::pair("remote_blocks", totals.remote)}) {
            Sample& row = rows.emplace_back(run.samples.front());
            row.phase = phase;
            row.rank = rank;
            row.step = -1;
            row.value = value;
            row.unit = "1";
        }
    }
    return rows;
}

std::optional<Routing> recorded_routing(const std::vector<Sample>& rows) {
    std::optional<Routing> routing;
    std::vector<bool> seen;
    for (const Sample& row : rows) {
        const bool blocks = row.phase == "blocks";
        if ((!blocks && row.phase != "remote_blocks") || row.rank < 0 || row.rank >= row.ranks) continue;
        if (!routing) {
            routing =
                Routing{row.ranks, row.experts, {}, std::vector<BlockTotals>(static_cast<std::size_t>(row.ranks))};
            seen.assign(2 * routing->totals.size(), false);
        }
        const auto rank = static_cast<std::size_t>(row.rank);
        (blocks ? routing->totals[rank].blocks : routing->totals[rank].remote) =
            static_cast<int>(std::lround(row.value));
        seen[2 * rank + (blocks ? 0 : 1)] = true;
    }
    return routing && std::find(seen.begin(), seen.end(), false) == seen.end() ? routing : std::nullopt;
}

Summaries summaries(const std::vector<Sample>& samples) {
    std::vector<std::tuple<std::string, std::string, int>> order;
    std::map<std::tuple<std::string, std::string, int>, Series> all;
    std::map<std::string, int> steps_of;
    std::vector<std::string> runs;
    for (const Sample& sample : samples) {
        if (sample.step < 0) continue;
        const auto key = std::tuple(sample.run_id, sample.phase, sample.rank);
        const auto [at, fresh] = all.try_emplace(key);
        if (fresh) {
            order.push_back(key);
            at->second.first = &sample;
        }
        at->second.by_step[sample.step].push_back(sample.value);
        const auto [count, new_run] = steps_of.emplace(sample.run_id, 0);
        if (new_run) runs.push_back(sample.run_id);
        count->second = std::max(count->second, sample.step + 1);
    }
    Summaries result;
    for (const std::string& run : runs) {
        const int steps = steps_of[run], steady = steps - first_steady_step(steps);
        if (steady >= fewest_steady_steps) continue;
        result.refused.push_back(fmt::format("{}: no medians: {} of its {} steps are steady, expected at least {}", run,
                                             steady, steps, fewest_steady_steps));
    }
    for (const auto& key : order) {
        const int steps = steps_of[std::get<0>(key)], from = first_steady_step(steps);
        if (steps - from >= fewest_steady_steps) summarise(all[key], from, result.rows);
    }
    return result;
}

}  // namespace stepcast
