#include "sim/memory/weight_tensors.h"

namespace stepcast {

bool keeps_narrow_alone(const LayerContext& c) {
    const Experiment& e = c.experiment;
    return is_narrow(c.shape.matrix) && e.runtime.narrow_weights && e.workload.adapter_rank == 0 &&
           !has_flat_gradients(e) && !keeps_weights_on_host(e);
}

// Norms count with the linear layers, which alone are packed. Adapters stay in 16 bits, so with
// adapters only frozen matrices have narrow copies.
RankWeights elements_of(const LayerContext& c, WeightTensors::Of of, const HeldWeights& held) {
    const auto linear = [&] {
        const bool packs = packed_bytes(c.experiment.workload) > 0;
        return RankWeights{packs ? held.frozen_layers.dense : 0, 0};
    };
    switch (of) {
        case WeightTensors::Of::trained:
        case WeightTensors::Of::reference: return held.all;
        case WeightTensors::Of::wide:
            return keeps_narrow_alone(c) ? held.all - held.layers : held.all;
        case WeightTensors::Of::frozen: return held.frozen - linear();
        case WeightTensors::Of::packed: return linear();
        case WeightTensors::Of::narrow:
            return c.experiment.workload.adapter_rank > 0 ? held.frozen_layers : held.layers;
    }
    return {};
}

UpdateCopies update_copies(const Experiment& e) {
    if (e.runtime.optimizer.copies.empty() || !e.runtime.optimizer.master_weights ||
        e.run.offload_optimizer)
        return {};
    const Bytes kept = size_of(gradient_type(e)), wide = size_of(Dtype::fp32);
    const Bytes cast = kept < wide ? wide : Bytes(0);
    return e.parallelism.zero == 0 ? UpdateCopies{wide, cast} : UpdateCopies{kept, cast};
}

Bytes update_roots(const Experiment& e) {
    const bool each = !e.runtime.optimizer.fused && e.workload.optimizer == Optimizer::adam;
    return each ? 0.5 * moment_bytes(e, size_of(trained_dtype(e))) : Bytes(0);
}

}  // namespace stepcast
