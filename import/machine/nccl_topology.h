// Reads NCCL's topology XML, and devices from nvidia-smi -q -x. Rates: NCCL's src/graph/topo.h and
// xml.cc at 5067397c.
#pragma once

#include <string>

#include "import/machine/machine.h"

namespace stepcast {

void read_nccl_topology(const std::string& text, const std::string& path, Machine& machine);

// nvidia-smi -q -x, or as text
void read_nvidia_smi(const std::string& text, const std::string& path, Machine& machine);

}  // namespace stepcast
