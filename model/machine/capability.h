// CUDA's compute capability of a device, as libraries ask for it.
#pragma once

#include "model/cluster.h"

namespace stepcast {

// The least one of the device's generation; 0 for other makers, of which nothing is known.
int capability(const Gpu& gpu);

}  // namespace stepcast
