#include "sim/results/forecast.h"

#include <fmt/format.h>

#include <algorithm>

namespace stepcast {

Seconds total(const Breakdown& breakdown) {
    return breakdown.compute + breakdown.memory + breakdown.exposed_communication +
           breakdown.bubble + breakdown.imbalance + breakdown.host;
}

double prior_share(const Forecast& forecast) {
    double share = 0;
    for (const CostBasis& b : forecast.basis)
        if (!b.measured) share += b.share;
    return share;
}

std::string uncalibrated_text(const std::string& maker) {
    if (maker.empty()) return "UNCALIBRATED: datasheet values and assumed costs";
    return fmt::format(
        "UNCALIBRATED: datasheet values, kernels and links as NVIDIA's: no machine of {} is "
        "measured",
        maker);
}

std::string calibrated_text(const Forecast& forecast) {
    if (!forecast.calibrated) return uncalibrated_text(forecast.maker) + ", error not known";
    constexpr double worth_saying = 0.05;
    const double priors = prior_share(forecast);
    std::string on = forecast.cluster_steps > 0
                         ? fmt::format("calibrated on {} steps as a whole", forecast.cluster_steps)
                         : "calibrated";
    if (priors < worth_saying) return on;
    std::vector<std::pair<std::string, double>> kinds;  // largest share first
    for (const CostBasis& b : forecast.basis) {
        if (b.measured) continue;
        const auto at = std::find_if(kinds.begin(), kinds.end(),
                                     [&](const auto& k) { return k.first == b.kind; });
        at == kinds.end() ? void(kinds.emplace_back(b.kind, b.share)) : void(at->second += b.share);
    }
    std::ranges::stable_sort(kinds, std::ranges::greater{},
                             &std::pair<std::string, double>::second);
    std::string which;
    for (const auto& [kind, share] : kinds)
        if (share >= 0.01)
            which += fmt::format("{}{} {:.0f} %", which.empty() ? "" : ", ", kind, 100 * share);
    if (forecast.cluster_steps > 0)
        return fmt::format("{}; not measured separately: {}", on, which);
    return fmt::format("calibrated for {:.0f} % of the step, the rest rests on priors: {}",
                       100 * (1 - priors), which);
}

}  // namespace stepcast
