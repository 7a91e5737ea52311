#include "sim/campaign.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "sim/predict.h"

namespace stepcast {
namespace {

// Whether `name` is in the comma-separated `list`, regardless of case.
bool is_listed(const std::string& list, const std::string& name) {
    return std::ranges::count(words_of(lower_case(list)), lower_case(name)) > 0;
}

}  // namespace

// Let M be the mean time between failures of all ranks, d the time of a checkpoint, R that of a
// restart, and t the useful work between two checkpoints. Failures are exponential, and a restart
// may fail too. One interval between checkpoints then takes
//   M e^(R/M) (e^((t + d)/M) - 1),
// and the share of useful time is t over that. The best t is about sqrt(2 d M) (1 + sqrt(d / 2M) /
// 3 + d / 18M) - d for d < 2M, else M. Source: J. Daly, A higher order estimate of the optimum
// checkpoint interval for restart dumps, Future Generation Computer Systems 22 (2006), equations 20
// and 37; the first term is J. Young's, CACM 17 (1974). The model ignores the wait for spare nodes.
// If checkpoints are written during training, d is the time that training stands still.
Goodput goodput(const Failures& failures, int ranks) {
    if (failures.mtbf_per_gpu == Seconds(0)) return {};
    const double mean = failures.mtbf_per_gpu.si() / ranks, d = failures.checkpoint_time.si(),
                 r = failures.restart_time.si();
    Goodput found{.failure_every = Seconds(mean), .checkpoint_every = {}, .share = 1};
    if (d == 0) {  // checkpoints cost nothing, so they are continuous and only restarts lose time
        found.share = std::exp(-r / mean);
        return found;
    }
    const double x = d / (2 * mean);
    const double t = x < 1 ? std::sqrt(2 * d * mean) * (1 + std::sqrt(x) / 3 + x / 9) - d : mean;
    found.checkpoint_every = Seconds(t);
    found.share = t / (mean * std::exp(r / mean) * std::expm1((t + d) / mean));
    return found;
}

Joules step_energy(const Offer& offer, int ranks, const Forecast& f) {
    const Breakdown& b = f.breakdown;
    const Seconds working = b.compute + b.memory + b.exposed_communication,
                  waiting = f.step.p50 - working;
    const Watts idle = offer.idle > Watts(0) ? offer.idle : offer.board;
    return ranks * offer.building *
           (offer.board * working + idle * waiting + offer.rest * f.step.p50);
}

Offer offer_for(const Market& market, const Cluster& cluster) {
    Offer found;
    for (const Offer& offer : market.offers)
        if (is_listed(cluster.gpu.name, offer.gpu) || is_listed(cluster.gpu.aliases, offer.gpu)) {
            found = offer;
            break;
        }
    if (found.board == Watts(0) && cluster.power.limit > 0) {
        found.board = Watts(cluster.power.limit);
        found.idle = Watts(cluster.power.idle);
        found.power_source =
            fmt::format("{} {} W (cluster.power.limit_w)", cluster.gpu.name, cluster.power.limit);
    }
    if (cluster.price_per_gpu_hour > 0) {
        found.price_per_gpu_hour = cluster.price_per_gpu_hour;
        found.price_source = "cluster.price_per_gpu_hour";
    }
    return found;
}

Campaign campaign_of(const Training& training, const Experiment& e, const Forecast& f) {
    const double tokens = tokens_per_step(e);
    Campaign c;
    c.steps = training.steps > 0 ? training.steps : std::ceil(training.tokens / tokens);
    c.tokens = c.steps * tokens;
    c.ranks = rank_count(e.cluster);
    c.goodput = goodput(training.market.failures, c.ranks);
    c.currency = training.market.currency;
    c.offer = offer_for(training.market, e.cluster);
    const Joules energy = c.offer.board > Watts(0) ? step_energy(c.offer, c.ranks, f) : Joules(0);
    const std::array<Seconds, 3> steps{f.step.p10, f.step.p50, f.step.p90};
    constexpr double hour = 3600;
    for (const std::size_t i : indices_of(c.time)) {
        c.time[i] = c.steps * steps[i] / c.goodput.share;
        c.money[i] = c.offer.price_per_gpu_hour * c.ranks * c.time[i].si() / hour;
        c.energy[i] = (c.time[i] / f.step.p50) * energy;
    }
    return c;
}

}  // namespace stepcast
