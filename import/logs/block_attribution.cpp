#include "import/logs/block_attribution.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/records/measurements.h"

namespace stepcast {
namespace {

// sorted (blocks, remote) pairs: identifies what a step computed
using StepKey = std::vector<std::pair<int, int>>;

StepKey key_of(const std::vector<BlockTotals>& blocks) {
    StepKey key;
    for (const BlockTotals& b : blocks) key.emplace_back(b.blocks, b.remote);
    std::sort(key.begin(), key.end());
    return key;
}

// The totals by rank if they are complete and unambiguous, else empty: every rank has one sighting,
// and each block count seen belongs to one (blocks, remote) pair.
std::vector<BlockTotals> assign_step(const StepTrace& step, int ranks) {
    if (as_int(step.blocks.size()) != ranks || as_int(step.sightings.size()) != ranks) return {};
    std::vector<BlockTotals> totals(as_index(ranks), BlockTotals{-1, -1});
    for (const StepTrace::Sighting& seen : step.sightings) {
        BlockTotals& mine = totals[as_index(seen.rank)];
        for (const BlockTotals& candidate : step.blocks) {
            if (candidate.blocks != seen.blocks) continue;
            if (mine.blocks >= 0 && !(mine == candidate)) return {};
            mine = candidate;
        }
        if (mine.blocks < 0) return {};
    }
    return key_of(totals) == key_of(step.blocks) ? totals : std::vector<BlockTotals>{};
}

}  // namespace

std::vector<std::vector<BlockTotals>> assign_blocks(const std::vector<StepTrace>& steps,
                                                    int ranks) {
    std::vector<std::vector<BlockTotals>> by_step;
    // empty where two steps with the same blocks assign them differently
    std::map<StepKey, std::vector<BlockTotals>> known;
    for (const StepTrace& step : steps) {
        by_step.push_back(assign_step(step, ranks));
        if (by_step.back().empty()) continue;
        const auto [at, fresh] = known.emplace(key_of(step.blocks), by_step.back());
        if (!fresh && at->second != by_step.back()) at->second.clear();
    }
    for (const std::size_t i : indices_of(steps))
        if (const auto at = value_in(known, key_of(steps[i].blocks)); at && !at->empty())
            by_step[i] = *at;
    return by_step;
}

std::optional<SteadyBlocks> steady_blocks(const std::vector<std::vector<BlockTotals>>& by_step) {
    std::vector<SteadyBlocks> found;
    int steps = 0;
    for (std::size_t i = as_index(first_steady_step(as_int(by_step.size()))); i < by_step.size();
         ++i) {
        ++steps;
        if (by_step[i].empty()) continue;
        const auto at = first_with(found, by_step[i], &SteadyBlocks::totals);
        if (at)
            ++at->agreeing;
        else
            found.push_back({by_step[i], 1, 0});
    }
    if (found.empty()) return std::nullopt;
    SteadyBlocks best = *std::ranges::max_element(found, {}, &SteadyBlocks::agreeing);
    best.steps = steps;
    return best;
}

std::optional<int> rank_of_ratio(const std::vector<BlockTotals>& totals, double ratio) {
    std::optional<int> found;
    for (const std::size_t rank : indices_of(totals)) {
        const double share = real(totals[rank].remote) / totals[rank].blocks;
        if (std::abs(share - ratio) > 0.6e-6) continue;
        if (found) return std::nullopt;
        found = as_int(rank);
    }
    return found;
}

}  // namespace stepcast
