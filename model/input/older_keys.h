// Names that keys had before November 2026. Files and scripts still state and ask for them: each is
// the same field under its earlier name, with values in the words of that time.
#pragma once

#include <string_view>
#include <vector>

#include "model/input/keys.h"

namespace stepcast {

// Names that keys had before November 2026, in the words of that time; all_keys() lists none.
const std::vector<Key>& older_keys();

// The style of kernels that an older switch (parallelism.eager) turns on; "" of other keys.
std::string_view older_style(const Key& key);

// Whether it was the older workload.attention = mla, which says nothing of the kernel.
inline bool says_nothing(const Key& key, const Experiment& experiment) {
    return key.older_assign && experiment.overlay.asks_latent;
}

}  // namespace stepcast
