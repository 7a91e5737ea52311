// Reads and writes routing.csv: how many tokens each rank sends to each expert.
#pragma once

#include <string>
#include <utility>

#include "model/routing.h"

namespace stepcast {

// Routing CSV. First line `# stepcast routing 1, counts|block_totals, ranks R, experts E`, then the
// header `source,expert,slots` or `rank,blocks,remote_blocks` and one row each. Or
// "FILE.csv#EXPERTS/GATE": the counts of one layer in a table experts,gate,expert,count. Throws
// ConfigError with file:line.
Routing read_routing(const std::string& path);

// Splits "FILE.csv#EXPERTS/GATE" into the file and the part that names the layer ("" if none).
std::pair<std::string, std::string> routing_parts(const std::string& file);
std::string write_routing(const Routing& routing);

}  // namespace stepcast
