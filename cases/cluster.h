// The machine that a case row ran on, from its gpu, gpus and interconnect columns. Internal to cases/.
#pragma once

#include <string>
#include <vector>

#include "cases/cases.h"
#include "cases/shelf.h"

namespace stepcast {

// The preset cluster for a device text: a preset's or its device's own name in any case, or a text that begins with the
// family of a shipped cluster ("H100-80GB-SXM"). Throws ConfigError naming what there is.
std::string cluster_for(const std::string& gpu, Shelf& shelf);

// A cluster of `ranks` ranks after the row: the named one, or the one for its gpu column, with the device's memory and
// the network that the row states; whole nodes, or one node with fewer ranks. What is not stated is listed in
// `assumptions`. The device and network of a row on another device than `named` are left as they are.
Cluster cluster_of_row(const CaseRow& row, int ranks, const std::string& named, Shelf& shelf,
                       std::vector<std::string>& assumptions);

// The overrides that put a run on `cluster`, or on its experiment's own (""), with the ranks that it ran on (0 = not stated).
void add_machine(const std::string& cluster, const Cluster& own, int ranks, std::vector<Override>& overrides,
                 std::vector<std::string>& assumptions);

}  // namespace stepcast
