// Turns status codes of the CUDA runtime, cuBLAS and NCCL into exceptions with the place and the
// error.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <source_location>
#include <string>

namespace stepcast {

// Throws DeviceError "FILE:LINE: CUDA error CODE, NAME: text", or the like, unless the call
// succeeded.
void check(cudaError_t code, std::source_location where = std::source_location::current());
void check(cublasStatus_t code, std::source_location where = std::source_location::current());
void check(ncclResult_t code, std::source_location where = std::source_location::current());

// The result of cudaGetDeviceCount() and cudaDriverGetVersion() as text: "" if there is a GPU, else
// what follows "no CUDA device: ". `driver` and `toolkit` are in CUDA's numbers of versions: 13000
// is 13.0.
std::string missing_device(cudaError_t code, int driver, int toolkit, int count);

std::string cuda_version(int number);  // "13.0"

}  // namespace stepcast
