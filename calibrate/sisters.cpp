#include "calibrate/sisters.h"

#include <algorithm>
#include <cmath>

#include "model/experiment.h"
#include "model/machine/priors.h"

namespace stepcast {

std::vector<Sister> read_sisters(const std::vector<std::string>& tables, const Cluster& cluster) {
    std::vector<Sister> sisters;
    for (const std::string& name : sisters_of(cluster.name)) {
        const Cluster shipped = read_cluster(name);
        Sister sister{shipped.gpu, shipped.power, {}};
        for (const std::string& path : tables)
            read_building_blocks(path, sister.gpu, sister.blocks);
        const BuildingBlocks& rows = sister.blocks;
        if (!rows.gemms.empty() || !rows.casts.empty() || !rows.moe_layers.empty())
            sisters.push_back(std::move(sister));
    }
    return sisters;
}

Cluster seen_as(Cluster cluster, const Sister& sister) {
    cluster.gpu = sister.gpu;
    cluster.power.limit = sister.power.limit;
    cluster.power.idle = sister.power.idle;
    return cluster;
}

bool alike_in(Dtype dtype, const Gpu& a, const Gpu& b) {
    constexpr double rounding = 0.1;
    const FlopsPerSecond none(0), plain_a = a.peaks[Dtype::bf16], plain_b = b.peaks[Dtype::bf16];
    if (!(plain_a > none) || !(plain_b > none) || !(a.peaks[dtype] > none) ||
        !(b.peaks[dtype] > none))
        return false;
    return std::abs(std::log(a.peaks[dtype] / plain_a / (b.peaks[dtype] / plain_b))) < rounding;
}

std::vector<FitParameter> with_own(const std::vector<FitParameter>& parameters,
                                   const std::vector<std::string>& own, std::size_t sisters) {
    std::vector<FitParameter> all = parameters;
    if (sisters == 0) return all;
    for (FitParameter& parameter : all)
        if (std::ranges::find(own, parameter.key) != own.end()) parameter.machine = 0;
    for (std::size_t machine = 1; machine <= sisters; ++machine)
        for (FitParameter parameter : parameters) {
            if (std::ranges::find(own, parameter.key) == own.end()) continue;
            parameter.machine = static_cast<int>(machine);
            all.push_back(parameter);
        }
    return all;
}

}  // namespace stepcast
