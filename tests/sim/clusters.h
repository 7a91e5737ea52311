// Small machines with round datasheet numbers for tests of topology and traffic.
#pragma once

#include "model/cluster.h"

namespace stepcast {

// Eight ranks on an NVSwitch at 300 GB/s, a NIC of 25 GB/s each, rails.
inline Cluster switched_nodes(int nodes) {
    Cluster c;
    c.nodes = nodes;
    c.gpus_per_node = 8;
    c.intra.bandwidth = BytesPerSecond(300e9);
    c.inter.bandwidth = BytesPerSecond(25e9);
    return c;
}

// One node, PCIe links of 24 GB/s.
inline Cluster pcie_node(int ranks) {
    Cluster c;
    c.gpus_per_node = ranks;
    c.fabric = Fabric::pcie;
    c.intra.bandwidth = BytesPerSecond(24e9);
    return c;
}

}  // namespace stepcast
