#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "calibrate/logs/import.h"
#include "calibrate/logs/run_summary.h"

namespace stepcast {

std::vector<Sample> routing_rows(const ImportedRun& run) {
    std::vector<Sample> rows;
    if (!run.routing) return rows;
    for (int rank = 0; rank < run.ranks; ++rank) {
        const BlockTotals& totals = run.routing->totals[static_cast<std::size_t>(rank)];
        for (const auto& [phase, value] :
             {std::pair("blocks", totals.blocks), std::pair("remote_blocks", totals.remote)}) {
            Sample& row = rows.emplace_back(sample_like(run));
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

std::string too_few_steps(const std::string& run, int last_step) {
    const int steps = last_step + 1, steady = steps - first_steady_step(steps);
    if (steady >= fewest_steady_steps) return "";
    return fmt::format("{}: no medians: {} of its {} steps are steady, expected at least {}", run, steady, steps,
                       fewest_steady_steps);
}

namespace {

std::vector<Sample> rows_of(std::vector<const Sample*>& samples, int last_step) {
    SampleRecord names;
    RunSummary summary(first_steady_step(last_step + 1), false);
    for (const Sample* s : samples) summary.expect(names.phase(s->phase, s->unit), s->rank);
    std::ranges::stable_sort(samples, {}, [](const Sample* s) { return s->step; });
    for (const Sample* s : samples) summary.take(names.phase(s->phase), s->rank, s->step, s->value);
    return summary.rows(*samples.front(), names.phases());
}

}  // namespace

Summaries summaries(const std::vector<Sample>& samples) {
    std::vector<std::vector<const Sample*>> runs;
    std::map<std::string, std::size_t> index;
    for (const Sample& sample : samples) {
        if (sample.step < 0) continue;
        const auto [at, fresh] = index.emplace(sample.run_id, runs.size());
        if (fresh) runs.emplace_back();
        runs[at->second].push_back(&sample);
    }
    Summaries result;
    for (auto& run : runs) {
        int last = 0;
        for (const Sample* s : run) last = std::max(last, s->step);
        if (const std::string why = too_few_steps(run.front()->run_id, last); !why.empty()) {
            result.refused.push_back(why);
            continue;
        }
        const std::vector<Sample> rows = rows_of(run, last);
        result.rows.insert(result.rows.end(), rows.begin(), rows.end());
    }
    return result;
}

}  // namespace stepcast
