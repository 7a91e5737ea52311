// The machine that a row of a table names.
#pragma once

#include <string>
#include <vector>

#include "import/tables/cases.h"
#include "import/tables/shelf.h"

namespace stepcast {

// The preset cluster for a device text: the name of a preset or of its device in any case, or a
// text with the family of one of [[device]] ("H100-80GB-SXM"), or an alias of a GPU. Throws
// ConfigError with the known names.
std::string cluster_for(const std::string& gpu, Shelf& shelf);

// "A100-80GB-SXM (400 W)", "DGX A100" and "8xA100" give "a100", "RTX 6000 Ada" its three words: the
// family with the most words, of several the first. A text that names no known family gives its
// first word.
std::string device_family(const std::string& gpu, Shelf& shelf);

// A cluster of `ranks` ranks: the cluster `named`, or the one for the row's gpu column, with the
// device memory and network that the row states. It has whole nodes, or one node with fewer ranks.
// Defaults are listed in `assumptions`. If the row is of another device than `named`, the device
// and network of `named` stay as they are.
Cluster cluster_of_row(const CaseRow& row, int ranks, const std::string& named, Shelf& shelf,
                       std::vector<std::string>& assumptions);

// Overrides that put a run on `cluster` ("" = its experiment's own) with the ranks that it ran on
// (0 = not stated).
void add_machine(const std::string& cluster, const Cluster& own, int ranks,
                 std::vector<Override>& overrides, std::vector<std::string>& assumptions);

}  // namespace stepcast
