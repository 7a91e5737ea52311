#include "measured/transfer_links.h"

#include "measured/nearest.h"
#include "measured/transfer.h"
#include "model/machine/generation.h"

namespace stepcast {
namespace {

constexpr BytesPerSecond no_limit(0);

void lay_sockets(Layers& layers, const Machines& linked) {
    Link& intra = layers.experiment.cluster.intra;
    const auto share = median_over(linked, [](const Cluster& c) {
        return when(c.intra.socket_bandwidth > no_limit,
                    c.intra.socket_bandwidth / c.intra.bandwidth);
    });
    if (!share && layers.experiment.cluster.fabric != Fabric::pcie) return;
    intra.socket_bandwidth =
        intra.bandwidth * (share ? *share : rings_between_sockets() / intra.ring_efficiency);
    layers.said["cluster.link.intra.socket_bandwidth"] = {
        Origin::prior,
        share ? "median share of " + names_of(linked) : "share of recorded runs over PCIe"};
}

// The narrowest link determines an efficiency: the link between the sockets, if the cluster states
// that it is slower than the others.
double narrowest(const Link& link) {
    return link.socket_bandwidth > no_limit ? link.socket_bandwidth / link.bandwidth : 1;
}

void lay_all_to_alls(Link& intra, const Machines& library) {
    if (intra.socket_bandwidth == no_limit) return;
    const auto share = median_over(library, [](const Cluster& c) {
        return c.intra.all_to_all_efficiency * narrowest(c.intra);
    });
    intra.all_to_all_efficiency = share.value() / narrowest(intra);
}

void lay_launches(Link& intra, const Machines& library, const Gpu& gpu) {
    const double ratio = launch_ratio(library, gpu);
    for (Seconds* launch : {&intra.launch, &intra.low_latency.launch, &intra.low_latency_128.launch,
                            &intra.nvls_launch, &intra.exchange.launch, &intra.exchange_launch})
        *launch = ratio * *launch;
}

// Recalled from NCCL 2.20 to 2.29, src/graph/search.cc (ncclTopoDupChannels) and connect.cc
// (ncclTopoPostset): a ring over PCIe is doubled from 25 GB/s on, where links count as 24 (PCIe 4
// x16) and 48 GB/s (PCIe 5 x16), and then all rings are doubled again. A ring of two RTX PRO 6000
// is as fast as four channels of its all-to-alls (54 and 13.4 GB/s).
double channels(const Cluster& c) {
    constexpr double counted = 0.75;
    constexpr BytesPerSecond doubled(25e9);
    if (joins_gpus(c.fabric)) return 1;  // stands for all channels
    return counted * c.intra.bandwidth >= doubled ? 4 : 2;
}

void lay_copies(Cluster& cluster, const Machines& library) {
    const bool nccl = has_generations(cluster.gpu);
    const auto slower = median_over(library, [&](const Cluster& c) {
        return when(
            c.fabric == cluster.fabric || (joins_gpus(c.fabric) && joins_gpus(cluster.fabric)),
            cluster.intra.bandwidth / c.intra.bandwidth *
                (nccl ? channels(c) / channels(cluster) : 1));
    });
    Link& intra = cluster.intra;
    for (double* copy : {&intra.reduce_copy, &intra.gather_copy, &intra.exchange_copy})
        *copy *= slower.value_or(1);
}

}  // namespace

void lay_links(Layers& layers, const Sources& from) {
    Cluster& cluster = layers.experiment.cluster;
    lay_sockets(layers, from.linked);
    lay_all_to_alls(cluster.intra, from.library);
    lay_launches(cluster.intra, from.library, cluster.gpu);
    lay_copies(cluster, from.library);
}

}  // namespace stepcast
