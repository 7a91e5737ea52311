#include "model/recorded/opt_prime/messages.h"

#include "model/base/numbers.h"

namespace stepcast {
namespace {

HopLoad both(const HopLoad& a, const HopLoad& b) {
    return {a.tensors + b.tensors, a.tuples + b.tuples, a.bytes + b.bytes};
}

HopLoad tensors_of_cut(const LayerContext& c, const Chunk& chunk) {
    if (chunk.ends_inside) return {3, 1, c.shape.outer() + 2.0 * c.shape.inner(c.shape.ffn)};
    return {1, 1, c.shape.outer()};
}

// Mask [seq, seq], cosine and sine [seq, head width]. The shape is the same for all sequences of a
// micro-batch.
HopLoad shared_tables(const LayerContext& c) {
    const double shared = real(c.shape.seq * c.shape.seq + 2 * c.shape.seq * c.shape.qk_dim);
    return {3, 0, shared * c.shape.element()};
}

}  // namespace

HopLoad hop_load(const LayerContext& c, const Path& path, int position, bool back) {
    const StageMessages& m = c.experiment.runtime.pipeline;
    HopLoad load = tensors_of_cut(c, path[as_index(position)]);
    if (back) return {m.gradient_tensors > 0 ? m.gradient_tensors : load.tensors, 0, load.bytes};
    if (position > 0 && m.resend_first_stage) load = both(load, tensors_of_cut(c, path.front()));
    if (c.experiment.parallelism.cut == StageCut::modules) load = both(load, shared_tables(c));
    return load;
}

int messages_of(const HopLoad& load, const StageMessages& m) {
    return load.tuples * m.messages_per_tuple + load.tensors * m.messages_per_tensor;
}

}  // namespace stepcast
