// With a capacity, every expert takes capacity_factor times the balanced number of slots from every
// rank, whatever the routing: slots are padded or dropped before they are sent. dispatch_once
// (DeepEP's kernels): a token that chose k of E experts is sent at most once to each of N places
// (nodes or ranks). With L experts in a place, the token needs at least one of them with P(L) = 1 -
// prod_{i<k} (1 - L / (E - i)). A place therefore receives P(E/N) N / k of the slots' bytes.

#include "model/block/expert_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/base/numbers.h"

namespace stepcast {
namespace {

double kept_share(const Moe& moe) { return moe.capacity_factor > 0 ? moe.capacity_factor : 1; }

std::vector<long> balanced_rows(const Moe& moe, long slots, long local_experts, double per_expert) {
    if (moe.capacity_factor == 0 && slots % local_experts == 0)
        return std::vector<long>(as_index(local_experts), slots / local_experts);
    return std::vector<long>(as_index(local_experts),
                             static_cast<long>(std::ceil(kept_share(moe) * per_expert)));
}

// Probability that a token needs a place with `local` experts. If routing is limited to some groups
// and the place's experts are in one group, the token must choose that group and then one of those
// experts among its groups' experts.
double chance_of(const Moe& moe, double local) {
    const bool limited = moe.top_groups < moe.groups && local <= real(moe.experts) / moe.groups;
    const double share = limited ? real(moe.top_groups) / moe.groups : 1;
    double none = 1;
    for (int i = 0; i < moe.top_k; ++i)
        none *= std::max(0.0, 1 - local / (share * moe.experts - i));
    return share * (1 - none);
}

}  // namespace

double once_over_slots(const Moe& moe, long places) {
    const auto n = real(places);
    return chance_of(moe, moe.experts / n) * n / moe.top_k;
}

long ExpertRows::most() const {
    long most = 0;
    for (const auto& of_rank : rows)
        most = std::max(most, std::accumulate(of_rank.begin(), of_rank.end(), 0L));
    return most;
}

ExpertRows expert_rows(const LayerContext& c) {
    const Parallelism& p = c.experiment.parallelism;
    const Moe& moe = c.experiment.workload.moe;
    const long local = moe.experts / p.ep;
    const long chosen = c.shape.routed_tokens * moe.top_k,
               gathered = p.sequence_parallel ? ranks_of_expert(c.experiment) : 1;
    ExpertRows x;
    x.slots = std::lround(std::ceil(kept_share(moe) * real(chosen)));
    x.tensor = gathered > 1 ? c.groups.tensor : Group{};
    x.balanced = c.routing.counts.empty() || moe.capacity_factor > 0;
    if (x.balanced) {
        x.rows = {balanced_rows(moe, chosen * gathered, local,
                                real(chosen * gathered * p.ep) / moe.experts)};
        return x;
    }
    for (int r = 0; r < p.ep; ++r) {
        auto& rows = x.rows.emplace_back();
        for (long l = 0; l < local; ++l) {
            long sum = 0;
            for (int source = 0; source < p.ep; ++source)
                sum += c.routing.count(source, as_int(r * local + l));
            rows.push_back(sum * gathered);
        }
    }
    return x;
}

}  // namespace stepcast
