#include "calibrate/measured_links.h"

#include <cmath>

#include "calibrate/table_cases.h"
#include "import/profiles/nccl_tests.h"
#include "measured/medians.h"
#include "model/base/errors.h"

namespace stepcast {
namespace {

int nodes_of(const Cluster& c) { return (rank_count(c) + c.gpus_per_node - 1) / c.gpus_per_node; }

// Of those that the cluster can forecast.
std::vector<MeasuredLink> over_forecast(const std::vector<CollectiveRow>& rows,
                                        const Cluster& cluster) {
    std::vector<double> ratios;
    for (const CollectiveRow& row : rows) try {
            if (const auto machine = machine_of(row, cluster))
                ratios.push_back(
                    std::log(row.time / collective_case(row, *machine).predict(*machine)));
        } catch (const ConfigError&) {
            continue;  // no rates for it
        }
    if (ratios.empty()) return {};
    return {{rank_count(cluster) > cluster.gpus_per_node, std::exp(median(ratios))}};
}

}  // namespace

std::vector<MeasuredLink> measured_links(const std::string& path, const Cluster& cluster) {
    constexpr Bytes large(64e6);
    std::vector<CollectiveRow> rows;
    for (const NcclTestsRow& row :
         read_nccl_tests(path, {"all_reduce", rank_count(cluster), nodes_of(cluster)}).rows)
        if (row.out_of_place.bytes > large) rows.push_back(row.out_of_place);
    std::vector<MeasuredLink> links = over_forecast(rows, cluster);
    if (links.empty())
        throw ConfigError(path + ": has no message of 64 MB or more; expected nccl-tests -e 1G");
    return links;
}

std::vector<MeasuredLink> measured_links(BytesPerSecond bus, const Cluster& cluster) {
    constexpr Bytes whole(1 << 30);
    const int ranks = rank_count(cluster);
    if (ranks < 2) throw ConfigError("expected a run of more than one GPU");
    const double factor = 2.0 * (ranks - 1) / ranks;  // bus over algorithm bandwidth
    return over_forecast({{"all_reduce", ranks, nodes_of(cluster), whole, whole / (bus / factor)}},
                         cluster);
}

}  // namespace stepcast
