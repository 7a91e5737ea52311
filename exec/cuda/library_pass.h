// Which kernel of training libraries (library_kernels.h) a memory pass of a graph means. An op
// states bytes alone, so what a pass is follows from its task's name; how long rows are, from the
// product that it feeds; and a kernel is only taken where it reads and writes as many bytes as the
// pass. What the graph does not say is chosen, and moves the same bytes: norms have a mean, gated
// activations are silu, others gelu; rotary positions turn all that the pass moves.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "exec/cuda/cuda_memory.h"
#include "exec/cuda/library_kernels.h"

namespace stepcast {

// No kernel: the pass runs as one that moves as many bytes. `why` one that there is cannot run it;
// empty where there is none.
struct StandIn {
    std::string why;
};
struct NormPass {
    NormShape shape;
    bool backward = false;
    bool weights = true;  // their gradients too, unless the graph has a pass of its own for them
};
struct ActivationPass {
    ActivationShape shape;
    bool backward = false;
};
struct RotaryPass {
    RotaryShape shape;
};
struct DropoutPass {
    DropoutShape shape;
    bool residual = false, mask = false, backward = false;
};
struct LossPass {
    LossShape shape;
    bool backward = false;
};
struct AdamwPass {
    AdamwShape shape;
};
struct CastPass {
    CastShape shape;
};
struct QuantizePass {
    QuantizeShape shape;
};
using LibraryPass = std::variant<StandIn, NormPass, ActivationPass, RotaryPass, DropoutPass,
                                 LossPass, AdamwPass, CastPass, QuantizePass>;

// Of one rank.
class LibraryPasses {
public:
    // `common`: the element of passes over activations, as of the products around them.
    LibraryPasses(const TaskGraph& graph, int rank, Element common);
    // a StandIn for all that are no memory passes
    [[nodiscard]] const LibraryPass& of(TaskId task) const { return passes_[task]; }
    // Bytes beside the operands: sums and statistics by row, tables; behind the targets of losses,
    // which must be set to zero.
    [[nodiscard]] std::size_t scratch() const { return targets_ + scratch_; }
    [[nodiscard]] std::size_t targets() const { return targets_; }

private:
    std::vector<LibraryPass> passes_;  // by task
    std::size_t targets_ = 0, scratch_ = 0;
};

std::string ran_by(const LibraryPass& pass);
// Of the op's operands; `scratch` as LibraryPasses says, with `targets` bytes of them in front. Not
// for a StandIn.
void run_pass(const LibraryPass& pass, const CudaOperands& at, char* scratch, std::size_t targets,
              cudaStream_t stream);

}  // namespace stepcast
