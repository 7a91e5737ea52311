#include "sim/memory/sum_up.h"

namespace stepcast {

MemoryUse summed_up(MemoryUse use, const Experiment& e) {
    const Bytes tensors = use.weights + use.gradients + use.optimizer + use.activations + use.buffers;
    use.buffers += (e.framework.reserved - 1) * tensors;
    use.peak = e.framework.reserved * tensors;
    use.overheads = e.cluster.overheads.context + e.cluster.overheads.fragmentation * use.peak;
    use.capacity = e.cluster.gpu.memory;
    use.fits = use.capacity == Bytes(0) || use.peak + use.overheads <= use.capacity;
    return use;
}

}  // namespace stepcast
