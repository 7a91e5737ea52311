// What a hop between stages carries, and in how many messages: one message of the hidden state, but
// for the recorded Llama pipeline (runtime.pipeline; notes/recorded-runs.md). There a forward hop
// carries the tensors of the cut: between layers the hidden state, inside a layer gate, up and
// residual. The first stage also makes mask and rotary tables (cosine, sine) and sends them along.
// With resend_first_stage every later hop carries the first stage's tensors again, as a separate
// tuple. A backward hop carries the gradients of the cut. A hop has
//   tuples x messages_per_tuple + tensors x messages_per_tensor
// messages.
#pragma once

#include "model/transformer/chunks.h"
#include "model/transformer/layer.h"

namespace stepcast {

struct HopLoad {
    int tensors = 0, tuples = 0;
    Bytes bytes;
    friend bool operator==(const HopLoad&, const HopLoad&) = default;
};

// The load from chunk `position` of the path to the next, or with `back` from the next to this one.
HopLoad hop_load(const LayerContext& context, const Path& path, int position, bool back);

int messages_of(const HopLoad& load, const StageMessages& messages);

}  // namespace stepcast
