#include "calibrate/sisters.h"

#include <cmath>

#include "measured/nearest.h"
#include "measured/read.h"
#include "model/experiment.h"

namespace stepcast {

std::vector<Sister> read_sisters(const std::vector<std::string>& tables, const Cluster& cluster) {
    std::vector<Sister> sisters;
    for (const std::string& name : sisters_of(cluster.name)) {
        const Cluster shipped = read_cluster(name);
        Sister sister{{shipped.gpu, shipped.power}, {}};
        for (const std::string& path : tables)
            read_building_blocks(path, sister.chip.gpu, sister.blocks);
        const BuildingBlocks& rows = sister.blocks;
        if (!rows.gemms.empty() || !rows.casts.empty() || !rows.moe_layers.empty())
            sisters.push_back(std::move(sister));
    }
    return sisters;
}

bool alike_in(Dtype dtype, const Gpu& a, const Gpu& b) {
    constexpr double rounding = 0.1;
    const FlopsPerSecond none(0), plain_a = a.peaks[Dtype::bf16], plain_b = b.peaks[Dtype::bf16];
    if (!(plain_a > none) || !(plain_b > none) || !(a.peaks[dtype] > none) ||
        !(b.peaks[dtype] > none))
        return false;
    return std::abs(std::log(a.peaks[dtype] / plain_a / (b.peaks[dtype] / plain_b))) < rounding;
}

}  // namespace stepcast
