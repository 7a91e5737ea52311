// The same for links, collectives and launches.
#pragma once

#include "measured/nearest.h"
#include "model/input/layers.h"

namespace stepcast {

// Adapts the medians of `from` for collectives inside a node, after the datasheet gave gpu, fabric
// and bandwidth:
//   sockets      a ring over both reaches the share of a rank's link that it reaches on machines
//                with similar links, or if none of those shows it, the share of recorded runs
//                (model/presets/priors.toml).
//   all-to-alls  reach the library's share of the narrowest links, which include the link between
//                sockets: their many flows fill it, while a ring has only one flow each way.
//   launches     take a number of cycles, like those of kernels (launch_ratio).
//   copies       of a rank's own piece are made by the SMs of channels, at a fixed rate each. With
//                NVSwitch all channels are used; over PCIe, NCCL uses as many as the link's rate
//                requires. The number in other libraries is unknown.
void lay_links(Layers& layers, const Sources& from);

}  // namespace stepcast
