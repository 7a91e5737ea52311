// Element types in kernels that compute in fp32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "exec/cuda/kernels.h"

namespace stepcast {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T>
__device__ T from_float(float x) {
    return static_cast<T>(x);
}

// Calls `run` with a null pointer to the element's type. fp8 is refused.
template <typename Run>
cudaError_t with_type(Element element, Run run) {
    switch (element) {
        case Element::fp32: run(static_cast<float*>(nullptr)); break;
        case Element::fp16: run(static_cast<__half*>(nullptr)); break;
        case Element::bf16: run(static_cast<__nv_bfloat16*>(nullptr)); break;
        case Element::fp8: return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}

}  // namespace stepcast
