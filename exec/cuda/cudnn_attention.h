// Fused attention by cuDNN, where its frontend's headers were here at the build
// (cmake/find_cuda.cmake) and its library is on the machine; it is opened when it is first asked
// for.
#pragma once

#include <memory>
#include <string>

#include "exec/cuda/cuda_memory.h"
#include "model/graph/op.h"

namespace stepcast {

class CudnnAttention {  // on the GPU that was current when it was made
public:
    CudnnAttention();
    CudnnAttention(const CudnnAttention&) = delete;
    CudnnAttention& operator=(const CudnnAttention&) = delete;
    ~CudnnAttention();

    // Asks the library for a plan, with its workspace on `stream`. Empty where it has one, else why
    // not.
    std::string prepare(const Attention& op, cudaStream_t stream);
    // Operands as of attend_fused() (exec/cuda/attention.h), of an op for which there is a plan.
    void run(const Attention& op, const CudaOperands& at, cudaStream_t stream);
    [[nodiscard]] std::string version() const;  // "cuDNN 9.19.0"

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace stepcast
