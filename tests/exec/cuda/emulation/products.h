// Matrix products of the stand-ins of cuBLAS and cuBLASLt: by their definition, in fp32, on
// operands of any type they take.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>

namespace emulation {

// A column-major matrix as it lies in memory.
struct Matrix {
    const void* data = nullptr;
    cudaDataType_t type = CUDA_R_32F;
    long rows = 0, columns = 0, lead = 0;
    bool transposed = false;
    [[nodiscard]] std::size_t bytes() const;
};
std::size_t size_of(cudaDataType_t type);  // 0: not emulated

// d = alpha op(a) op(b) + beta c; c and d have one layout. `tf32` rounds the operands to ten bits.
void multiply(float alpha, const Matrix& a, const Matrix& b, float beta, const Matrix& c, void* d,
              bool tf32);

// A workspace while it is in use: nobody else may use it then. Throws Failure.
class Hold {
public:
    Hold(const void* begin, std::size_t bytes);
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold();

private:
    const void* begin_;
};

}  // namespace emulation
