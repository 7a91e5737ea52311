#include "tests/exec/cuda/emulation/products.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/exec/cuda/emulation/machine.h"

namespace emulation {

namespace {

float decode(cudaDataType_t type, const char* at) {
    switch (type) {
        case CUDA_R_16F: return __half2float(*reinterpret_cast<const __half*>(at));
        case CUDA_R_16BF: return __bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(at));
        case CUDA_R_8F_E4M3: return static_cast<float>(*reinterpret_cast<const __nv_fp8_e4m3*>(at));
        default: {
            float value;
            std::memcpy(&value, at, sizeof value);
            return value;
        }
    }
}

void encode(cudaDataType_t type, float value, char* at) {
    switch (type) {
        case CUDA_R_16F: *reinterpret_cast<__half*>(at) = __float2half(value); return;
        case CUDA_R_16BF: *reinterpret_cast<__nv_bfloat16*>(at) = __float2bfloat16(value); return;
        default: std::memcpy(at, &value, sizeof value);
    }
}

float rounded_to_tf32(float x) {
    return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000U) & 0xffffe000U);
}

// op(matrix) as rows of `inner` values, or its transpose as such.
std::vector<float> packed(const Matrix& m, bool rows_outside, bool tf32) {
    std::vector<float> all(static_cast<std::size_t>(m.rows * m.columns));
    const std::size_t size = size_of(m.type);
    // of the stored matrix, which lies outside
    const long outer = m.transposed == rows_outside ? m.columns : m.rows;
    const bool by_columns = m.transposed == rows_outside;
    const long inner = by_columns ? m.rows : m.columns;
    for (long i = 0; i < outer; ++i)
        for (long j = 0; j < inner; ++j) {
            const long at = by_columns ? i * m.lead + j : j * m.lead + i;
            const float value = decode(
                m.type, static_cast<const char*>(m.data) + static_cast<std::size_t>(at) * size);
            all[static_cast<std::size_t>(i * inner + j)] = tf32 ? rounded_to_tf32(value) : value;
        }
    return all;
}

float dot(const float* x, const float* y, long count) {
    float sum = 0;
    for (long i = 0; i < count; ++i) sum += x[i] * y[i];
    return sum;
}

struct Held {
    std::mutex mutex;
    std::map<const char*, std::size_t> ranges;
};
Held& held() {
    static auto& one = *new Held;
    return one;
}

}  // namespace

std::size_t size_of(cudaDataType_t type) {
    switch (type) {
        case CUDA_R_32F: return 4;
        case CUDA_R_16F:
        case CUDA_R_16BF: return 2;
        case CUDA_R_8F_E4M3: return 1;
        default: return 0;
    }
}

std::size_t Matrix::bytes() const {
    if (rows == 0 || columns == 0) return 0;
    return static_cast<std::size_t>((columns - 1) * lead + rows) * size_of(type);
}

void multiply(float alpha, const Matrix& a, const Matrix& b, float beta, const Matrix& c, void* d,
              bool tf32) {
    const long inner = a.transposed ? a.rows : a.columns;
    const std::vector<float> left = packed(a, true, tf32), right = packed(b, false, tf32);
    const std::size_t size = size_of(c.type);
    for (long column = 0; column < c.columns; ++column)
        for (long row = 0; row < c.rows; ++row) {
            const std::size_t at = static_cast<std::size_t>(column * c.lead + row) * size;
            float value =
                alpha * dot(left.data() + row * inner, right.data() + column * inner, inner);
            if (beta != 0) value += beta * decode(c.type, static_cast<const char*>(c.data) + at);
            encode(c.type, value, static_cast<char*>(d) + at);
        }
}

Hold::Hold(const void* begin, std::size_t bytes) : begin_(begin) {
    if (bytes == 0) begin_ = nullptr;
    if (begin_ == nullptr) return;
    const std::lock_guard lock(held().mutex);
    const auto* first = static_cast<const char*>(begin);
    for (const auto& [other, size] : held().ranges)
        if (first < other + size && other < first + bytes)
            throw Failure{cudaErrorLaunchFailure,
                          "two products use one workspace at the same time"};
    held().ranges[first] = bytes;
}

Hold::~Hold() {
    if (begin_ == nullptr) return;
    const std::lock_guard lock(held().mutex);
    held().ranges.erase(static_cast<const char*>(begin_));
}

}  // namespace emulation
