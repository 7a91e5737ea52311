// Status codes of the CUDA runtime, cuBLAS and NCCL as exceptions that say where and what.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <source_location>
#include <string>

namespace stepcast {

// DeviceError "CALLER: code name: text" unless the call succeeded.
void check(cudaError_t code, std::source_location where = std::source_location::current());
void check(cublasStatus_t code, std::source_location where = std::source_location::current());
void check(ncclResult_t code, std::source_location where = std::source_location::current());

// What cudaGetDeviceCount() and cudaDriverGetVersion() together say: "" when there is a GPU, else the rest of the sentence
// "no CUDA device: ". `driver` and `toolkit` as CUDA counts versions: 13000 is 13.0.
std::string missing_device(cudaError_t code, int driver, int toolkit, int count);

std::string cuda_version(int number);  // "13.0"

}  // namespace stepcast
