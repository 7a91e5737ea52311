#include "sim/memory/coca_memory.h"

#include <algorithm>

#include "model/base/numbers.h"
#include "model/rank_groups.h"
#include "model/recorded/coca/block_passes.h"
#include "model/recorded/coca/blocks.h"
#include "model/recorded/coca/parts.h"
#include "model/recorded/coca/tensors.h"
#include "model/transformer/layer_memory.h"
#include "sim/memory/memory_use.h"
#include "sim/memory/process_memory.h"

namespace stepcast {
namespace {

// A norm inside a block keeps only its result, because the operator that made its input keeps that.
Bytes kept_of(const TowerBlock& b, const TowerContext& c) {
    const BlockSizes s = sizes_of(b, c);
    Bytes kept;
    for (const Operator& op : operators_of(b, c.batch(), c.workload().dtype)) {
        if (const auto* norm = std::get_if<Normalize>(&op))
            kept += (norm->inner ? 1.0 : 2.0) * real(norm->rows * norm->width) * c.element();
        if (std::holds_alternative<Attend>(op))
            kept +=
                (c.casts() ? 3.0 : 1.0) * s.scores + 2 * s.rows + 2 * (b.cross ? s.keys : s.rows);
        if (std::holds_alternative<Activate>(op) || std::holds_alternative<Elementwise>(op))
            kept += 2 * s.inner;
    }
    return kept;
}

Bytes work_of(const TowerBlock& b, const TowerContext& c) {
    const BlockSizes s = sizes_of(b, c);
    return 2 * std::max({s.rows, s.keys, s.inner, (c.casts() ? 2.0 : 1.0) * s.scores});
}

// `work`: in the backward that needs most.
Activations activations_of(const TowerContext& c) {
    const Workload& w = c.workload();
    Activations all;
    for (const TowerBlock& b : tower_blocks(w)) {
        const bool computed_again = runs_again(c.experiment.parallelism, b);
        const Bytes kept = kept_of(b, c);
        all.kept += b.layers * (computed_again ? sizes_of(b, c).rows : kept);
        all.work = std::max(all.work, work_of(b, c) + (computed_again ? kept : Bytes(0)));
    }
    const double logits = real(c.batch() * w.decoder.seq) * w.vocab;
    const Bytes loss_element = c.casts() ? Bytes(4) : c.element();
    all.kept += logits * (c.element() + loss_element);
    all.work = std::max(all.work, logits * 2 * loss_element);
    return all;
}

}  // namespace

MemoryUse coca_memory(const Experiment& e) {
    const TowerContext c{e, rank_groups(e).data};
    const double parameters = elements_of(parameter_groups(e));
    const Activations activations = activations_of(c);
    double owned = 0;
    for (const ParameterGroup& group : parameter_groups(e))
        owned += piece_elements(group, c.data.size());
    MemoryUse use;
    use.weights = parameters * c.element();
    use.gradients = parameters * size_of(gradient_type(e));
    use.optimizer = owned * optimizer_bytes(e, c.element());
    use.activations = activations.kept;
    use.buffers =
        activations.work +
        (c.data.size() > 1 ? (overlaps_gradients(e) ? 2.0 : 1.0) * bucket_bytes(e) : Bytes(0));
    return complete(use, e, process_memory(e));
}

}  // namespace stepcast
