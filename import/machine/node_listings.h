// Reads what programs print about a node: how its devices are connected (nvidia-smi topo -m), and
// which there are (lspci).
#pragma once

#include <string>

#include "import/machine/machine.h"

namespace stepcast {

// Each adds the content of one file. They throw ConfigError with the position of what they do not
// understand.

// nvidia-smi topo -m
void read_topology_matrix(const std::string& text, const std::string& path, Machine& machine);

// lspci, with or without -nn
void read_lspci(const std::string& text, const std::string& path, Machine& machine);

}  // namespace stepcast
