// The kernels of a block, forward and backward, in one of two styles.
//   fused    as training libraries do: bias, dropout and residual in one pass, norm in one, gated
//            activation in one, attention in one if the workload says so; with tensor, sequence and
//            context parallelism (fused*.h)
//   unfused  operation by operation, as a framework without such kernels runs them; without tensor
//            parallelism (unfused.h)
#pragma once

#include <span>

#include "model/block/block_pass.h"

namespace stepcast {

void plan_block(const PassWriter& out, const LayerContext& context,
                std::span<const Operator> operators, KernelStyle style);

}  // namespace stepcast
