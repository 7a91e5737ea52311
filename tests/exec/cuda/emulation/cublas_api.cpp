// A stand-in of what is used of cuBLAS: grouped products.
#include <cublas_v2.h>

#include <cstdint>
#include <cstring>

#include "tests/exec/cuda/emulation/machine.h"
#include "tests/exec/cuda/emulation/products.h"

using namespace emulation;

struct cublasContext {
    int device = 0;
    cudaStream_t stream = nullptr;
    void* workspace = nullptr;
    std::size_t workspace_size = 0;
};

namespace {

bool takes(cudaDataType_t type, cublasComputeType_t compute) {
    if (compute == CUBLAS_COMPUTE_32F_FAST_TF32) return type == CUDA_R_32F;
    return compute == CUBLAS_COMPUTE_32F &&
           (type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF);
}

struct Group {
    Matrix a, b, c;
    float alpha, beta;
    int size;
};

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
    *handle = new cublasContext{current_device()};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}
// "Unconditionally resets the cuBLAS library workspace back to the default workspace pool".
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    handle->workspace = nullptr;
    handle->workspace_size = 0;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, std::size_t size) {
    if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
    handle->workspace = workspace;
    handle->workspace_size = size;
    return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusName(cublasStatus_t status) {
    switch (status) {
        case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
        case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
        case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
        case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
        default: return "a status of the emulated cuBLAS";
    }
}

// The arrays of pointers lie on the GPU and are read when it comes to them; everything else is read
// now.
cublasStatus_t cublasGemmGroupedBatchedEx(
    cublasHandle_t handle, const cublasOperation_t a_operations[],
    const cublasOperation_t b_operations[], const int m[], const int n[], const int k[],
    const void* alphas, const void* const a[], cudaDataType_t a_type, const int a_lead[],
    const void* const b[], cudaDataType_t b_type, const int b_lead[], const void* betas,
    void* const c[], cudaDataType_t c_type, const int c_lead[], int groups, const int sizes[],
    cublasComputeType_t compute) {
    if (handle->device != current_device()) return CUBLAS_STATUS_INVALID_VALUE;
    if (a_type != b_type || a_type != c_type || !takes(a_type, compute))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    std::vector<Group> all;
    std::size_t count = 0;
    for (int i = 0; i < groups; ++i) {
        const bool turned_a = a_operations[i] == CUBLAS_OP_T,
                   turned_b = b_operations[i] == CUBLAS_OP_T;
        Group group{
            {nullptr, a_type, turned_a ? k[i] : m[i], turned_a ? m[i] : k[i], a_lead[i], turned_a},
            {nullptr, b_type, turned_b ? n[i] : k[i], turned_b ? k[i] : n[i], b_lead[i], turned_b},
            {nullptr, c_type, m[i], n[i], c_lead[i], false},
            static_cast<const float*>(alphas)[i],
            static_cast<const float*>(betas)[i],
            sizes[i]};
        if (m[i] < 0 || n[i] < 0 || k[i] < 0 || sizes[i] < 0) return CUBLAS_STATUS_INVALID_VALUE;
        for (const Matrix* one : {&group.a, &group.b, &group.c})
            if (one->lead < std::max(1L, one->rows)) return CUBLAS_STATUS_INVALID_VALUE;
        count += static_cast<std::size_t>(sizes[i]);
        all.push_back(group);
    }
    const int device = handle->device;
    for (const void* pointers :
         {static_cast<const void*>(a), static_cast<const void*>(b), static_cast<const void*>(c)})
        if (owner(pointers, count * sizeof(void*)) != device) return CUBLAS_STATUS_INVALID_VALUE;
    constexpr std::size_t most = std::size_t{4} << 20;
    const std::size_t used = std::min(handle->workspace_size, most);
    void* workspace = handle->workspace;
    const cudaError_t code = enqueue(handle->stream, [=] {
        const Hold hold(workspace, used);
        if (used > 0) std::memset(workspace, 0xff, 256);
        std::size_t next = 0;
        for (Group group : all)
            for (int member = 0; member < group.size; ++member, ++next) {
                group.a.data = a[next];
                group.b.data = b[next];
                group.c.data = c[next];
                for (const Matrix* one : {&group.a, &group.b, &group.c})
                    require_memory(device, one->data, one->bytes(),
                                   "an operand of a grouped product");
                multiply(group.alpha, group.a, group.b, group.beta, group.c, c[next],
                         compute == CUBLAS_COMPUTE_32F_FAST_TF32);
            }
    });
    return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
}
