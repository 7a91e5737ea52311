// The memory in a GPU's name: "A100-SXM4-40GB" is another part than "A100-SXM4-80GB".
#pragma once

#include <optional>
#include <string_view>

#include "model/base/units.h"

namespace stepcast {

// "A100-40GB", "A100 40 GiB" and "a100_40g" give 40; empty if the name states none. "400 Gb/s" and
// "A10G" are no memory.
std::optional<double> gigabytes_in(std::string_view gpu);

// Whether a device with this memory is called one of so many GB: names round, and mean 10^9 or 2^30
// bytes.
bool is_called(Bytes memory, double gigabytes);

}  // namespace stepcast
