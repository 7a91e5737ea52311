// Stands in for cudnn_attention.cpp where cuDNN's frontend was not found at the build.
#include <stdexcept>

#include "exec/cuda/cudnn_attention.h"

namespace stepcast {

struct CudnnAttention::State {};

CudnnAttention::CudnnAttention() = default;
CudnnAttention::~CudnnAttention() = default;
std::string CudnnAttention::prepare(const Attention&, cudaStream_t) {
    return "this program was built without cuDNN's frontend";
}
void CudnnAttention::run(const Attention&, const CudaOperands&, cudaStream_t) {
    throw std::logic_error("CudnnAttention: there is no plan");
}
std::string CudnnAttention::version() const { return "no cuDNN"; }

}  // namespace stepcast
