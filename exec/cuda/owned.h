// Handles of CUDA's libraries, each freed by its library's function.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <memory>

namespace stepcast {

struct Destroy {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
    void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
    void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
    void operator()(cublasHandle_t handle) const { cublasDestroy(handle); }
    void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
    void operator()(cublasLtMatmulDesc_t description) const {
        cublasLtMatmulDescDestroy(description);
    }
    void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
    void operator()(cublasLtMatmulPreference_t preference) const {
        cublasLtMatmulPreferenceDestroy(preference);
    }
    void operator()(char* memory) const { cudaFree(memory); }
};
template <typename Pointer>
using Owned = std::unique_ptr<std::remove_pointer_t<Pointer>, Destroy>;

// Out(owner) passes a handle to a call that makes one through a pointer, as std::out_ptr of C++23:
// check(cudaStreamCreate(Out(stream))).
template <typename Handle>
class Out {
public:
    explicit Out(std::unique_ptr<Handle, Destroy>& owner) : owner_(owner) {}
    Out(const Out&) = delete;
    Out& operator=(const Out&) = delete;
    ~Out() { owner_.reset(made_); }
    operator Handle**() { return &made_; }

private:
    std::unique_ptr<Handle, Destroy>& owner_;
    Handle* made_ = nullptr;
};

}  // namespace stepcast
