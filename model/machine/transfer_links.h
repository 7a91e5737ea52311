// Constants of one machine's collectives inside a node on another. Internal to model/machine.
#pragma once

#include "model/keys/layers.h"
#include "model/machine/nearest.h"

namespace stepcast {

// What the medians of `from` leave to be said, where gpu, fabric and bandwidth are the datasheet's:
//   sockets      a ring over both reaches the share of a rank's link that it reaches on machines whose links are alike;
//                where none of those shows its share, that of recorded runs (model/presets/priors.toml).
//   all-to-alls  reach the library's share of the narrowest links, of which what joins the sockets is one: their many
//                flows fill it, a ring's one flow each way does not.
//   launches     take cycles, as those of kernels (launch_ratio).
//   copies       of a rank's own piece are made by the SMs of channels, so many bytes a second each. Machines with
//                NVSwitch have all of them, over PCIe NCCL has as many as the link's rate asks for. How many other
//                libraries have is not known.
void lay_links(Layers& layers, const Sources& from);

}  // namespace stepcast
