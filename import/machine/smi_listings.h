// Reads what nvidia-smi, rocm-smi and amd-smi print as text, and names listings that tell no
// machine.
#pragma once

#include <string>

#include "import/machine/machine.h"

namespace stepcast {

// nvidia-smi, -L, -q
void read_smi_text(const std::string& text, const std::string& path, Machine& machine);

// rocm-smi --showtopo, amd-smi topology
void read_rocm_smi(const std::string& text, const std::string& path, Machine& machine);

// What a listing is that tells no machine: its program, what it tells, and what to give instead; ""
// if it is none that is known.
std::string other_listing(const std::string& text);

}  // namespace stepcast
