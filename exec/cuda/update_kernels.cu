// What a step does with its weights: AdamW over flat buffers, and casts to fp8
// with their scales.
#include <cuda_fp8.h>

#include "exec/cuda/library_kernels.h"
#include "exec/cuda/rows.h"

namespace stepcast {

namespace {

template <typename Gradient, typename Copy>
struct Adamw {
    const float *weights, *m, *v;
    const Gradient* gradients;
    float *new_weights, *new_m, *new_v;
    Copy* copies;  // null: none
    const AdamwPiece* pieces;
};

// What is equal for all elements, made once on the host.
struct AdamwRule {
    std::size_t count;
    float rate, beta1, beta2, epsilon, decay, gradient_scale, m_correction, v_correction;
};

template <int size, typename Gradient, typename Copy>
__device__ void update(const AdamwRule& rule, const Adamw<Gradient, Copy>& at, std::size_t i,
                       float decay) {
    constexpr Size<size> pack{};
    auto weights = pack_at(at.weights + i, pack), m = pack_at(at.m + i, pack),
         v = pack_at(at.v + i, pack);
    const auto gradients = pack_at(at.gradients + i, pack);
    Pack<Copy, size> copies;
    for (int j = 0; j < size; ++j) {
        const float g = to_float(gradients.values[j]) * rule.gradient_scale;
        m.values[j] = rule.beta1 * m.values[j] + (1 - rule.beta1) * g;
        v.values[j] = rule.beta2 * v.values[j] + (1 - rule.beta2) * g * g;
        const float root = sqrtf(v.values[j] * rule.v_correction) + rule.epsilon;
        weights.values[j] -= rule.rate * (__fdividef(m.values[j] * rule.m_correction, root) +
                                          decay * weights.values[j]);
        copies.values[j] = from_float<Copy>(weights.values[j]);
    }
    put(at.new_weights + i, weights);
    put(at.new_m + i, m);
    put(at.new_v + i, v);
    if (at.copies != nullptr) put(at.copies + i, copies);
}

// A thread block has one piece.
template <typename Gradient, typename Copy>
__global__ void adamw_kernel(AdamwRule rule, Adamw<Gradient, Copy> at) {
    constexpr int size = 4;  // of fp32
    AdamwPiece piece;
    if (at.pieces != nullptr) {
        piece = at.pieces[blockIdx.x];
    } else {
        piece.begin = blockIdx.x * std::uint64_t{adamw_piece};
        piece.count = static_cast<std::uint32_t>(
            min(rule.count - static_cast<std::size_t>(piece.begin), std::size_t{adamw_piece}));
        piece.decay = rule.decay;
    }
    const std::size_t begin = piece.begin, end = begin + piece.count;
    std::size_t whole = end / size * size;  // up to here packs, from the first that is aligned
    std::size_t first = (begin + size - 1) / size * size;
    if (first > end) first = whole = end;
    if (whole < first) whole = first;
    if (begin + threadIdx.x < first) update<1>(rule, at, begin + threadIdx.x, piece.decay);
    for (std::size_t i = first + threadIdx.x * size; i < whole; i += blockDim.x * size)
        update<size>(rule, at, i, piece.decay);
    if (whole + threadIdx.x < end) update<1>(rule, at, whole + threadIdx.x, piece.decay);
}

constexpr float largest_fp8 = 448;  // of E4M3

template <int size>
using Packed8 = Pack<__nv_fp8_e4m3, size>;

__device__ __nv_fp8_e4m3 to_fp8(float x) { return __nv_fp8_e4m3(x); }  // saturates

// Two at once, as the instruction does.
template <int size>
__device__ Packed8<size> to_fp8(const Pack<float, size>& x, float by) {
    Packed8<size> result;
    if constexpr (size == 1) {
        result.values[0] = to_fp8(x.values[0] * by);
    } else {
        for (int j = 0; j < size; j += 2) {
            const __nv_fp8x2_storage_t two = __nv_cvt_float2_to_fp8x2(
                make_float2(x.values[j] * by, x.values[j + 1] * by), __NV_SATFINITE, __NV_E4M3);
            memcpy(result.values + j, &two, sizeof two);
        }
    }
    return result;
}

__device__ void keep_largest(float most, float* largest) {
    most = over_row(most, Largest{});
    // floats that are not negative are in the order of their bits
    if (threadIdx.x == 0) atomicMax(reinterpret_cast<int*>(largest), __float_as_int(most));
}

template <typename T>
__global__ void quantize_kernel(std::size_t count, const T* x, __nv_fp8_e4m3* y, const float* scale,
                                float* largest) {
    constexpr int size = Pack<T>::size;
    const float by = *scale;
    float most = 0;
    for (std::size_t i = first_item(); i < count / size; i += stride()) {
        const auto values = pack_at(x + i * size, Size<size>{});
        Packed8<size> result;
        for (int j = 0; j < size; ++j) {
            const float value = to_float(values.values[j]);
            most = fmaxf(most, fabsf(value));
            result.values[j] = to_fp8(value * by);
        }
        put(y + i * size, result);
    }
    if (const std::size_t last = count / size * size + first_item(); last < count) {
        most = fmaxf(most, fabsf(to_float(x[last])));
        y[last] = to_fp8(to_float(x[last]) * by);
    }
    keep_largest(most, largest);
}

// A block has a tile, which it writes by rows at once and by columns from
// shared memory, four rows a word. A warp takes size fours of rows by 32 / size
// packs, so that its words, a column apart by one bank, lie in all banks.
constexpr int tile = 128, fours = tile / 4, warps_of_tile = block_size / 32;

template <typename T, int size>
__global__ void quantize_both_kernel(Size<size> pack, QuantizeShape shape, const T* x,
                                     __nv_fp8_e4m3* y, std::uint32_t* transposed,
                                     const float* scale, float* largest) {
    __shared__ std::uint32_t words[tile][fours + 1];
    const std::int64_t across = (shape.columns + tile - 1) / tile,
                       first_row = blockIdx.x / across * tile,
                       first_column = blockIdx.x % across * tile;
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32,
              turns = fours / size, packs = 32 / size;
    const float by = *scale;
    float most = 0;
    for (int unit = warp; unit < turns * (tile / 32); unit += warps_of_tile) {
        const int four = unit % turns * size + lane / packs,
                  column = (unit / turns * packs + lane % packs) * size;
        std::uint32_t bytes[size] = {};
        Pack<T, size> values[4];
        const auto over = [&](auto use) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (const std::int64_t row = first_row + 4 * four + i, at = first_column + column;
                    row < shape.rows && at < shape.columns)
                    use(i, row * shape.columns + at);
        };
        over([&](int i, std::int64_t at) { values[i] = pack_at(x + at, pack); });
        over([&](int i, std::int64_t at) {
            const auto floats = to_floats(values[i]);
            Packed8<size> result;
            for (int j = 0; j < size; ++j) {
                most = fmaxf(most, fabsf(floats.values[j]));
                result.values[j] = to_fp8(floats.values[j] * by);
                bytes[j] |= static_cast<std::uint32_t>(result.values[j].__x) << 8 * i;
            }
            put(y + at, result);
        });
        for (int j = 0; j < size; ++j) words[column + j][four] = bytes[j];
    }
    __syncthreads();
#pragma unroll 4
    for (int column = warp; column < tile && first_column + column < shape.columns;
         column += warps_of_tile) {
        const std::int64_t row = first_row + 4 * lane,
                           at = (first_column + column) * shape.rows + row;
        const std::uint32_t word = words[column][lane];
        if (shape.rows % 4 == 0) {
            if (row < shape.rows) transposed[at / 4] = word;
            continue;
        }
        auto* const single = reinterpret_cast<std::uint8_t*>(transposed);
        for (int i = 0; i < 4 && row + i < shape.rows; ++i)
            single[at + i] = static_cast<std::uint8_t>(word >> 8 * i);
    }
    keep_largest(most, largest);
}

// As many lanes as a block of a row has packs: sixteen for 16-bit elements, a
// warp for fp32; rows that are no whole packs take a warp, element by element.
// Lanes have four such blocks, which are on their way together.
template <int size>
constexpr int lanes_of_block = size == 1 ? 32 : fp8_block / size;
template <int size>
constexpr int groups_of_lanes = block_size / lanes_of_block<size>;
template <int size>
constexpr int own_blocks = size == 1 ? 1 : 4;

template <typename T, int size>
__global__ void __launch_bounds__(block_size)
    quantize_blocks_kernel(Size<size> pack, QuantizeShape shape, const T* x, __nv_fp8_e4m3* y,
                           float* inverse_scales) {
    constexpr int lanes = lanes_of_block<size>, mine = own_blocks<size>,
                  own = fp8_block / (lanes * size);
    const auto of_row = static_cast<std::uint32_t>((shape.columns + fp8_block - 1) / fp8_block);
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    // a group has blocks that follow each other, in memory too
    const std::int64_t block =
        (blockIdx.x * std::int64_t{groups_of_lanes<size>} + threadIdx.x / lanes) * mine;
    std::uint32_t row = static_cast<std::uint32_t>(block) / of_row;
    std::int64_t begin = (block - std::int64_t{row} * of_row) * fp8_block;
    Pack<T, size> values[mine][own];
    std::int64_t first[mine] = {row * shape.columns + begin};
    int length[mine];
    float most[mine] = {};
    // every lane of a warp goes on to the end, because they talk to each other
    const auto over = [&](int b, auto use) {
#pragma unroll
        for (int k = 0; k < own; ++k)
            if (const int i = (k * lanes + lane) * size; i < length[b]) use(k, first[b] + i);
    };
#pragma unroll
    for (int b = 0; b < mine; ++b) {
        const std::int64_t left = row < shape.rows ? shape.columns - begin : 0;
        length[b] = left < fp8_block ? static_cast<int>(left) : fp8_block;
        over(b, [&](int k, std::int64_t at) { values[b][k] = pack_at(x + at, pack); });
        if (b + 1 < mine) first[b + 1] = first[b] + length[b];
        begin += fp8_block;
        if (begin >= shape.columns) begin = 0, ++row;
    }
#pragma unroll
    for (int b = 0; b < mine; ++b) {
        over(b, [&](int k, std::int64_t) {
            for (const float value : to_floats(values[b][k]).values)
                most[b] = fmaxf(most[b], fabsf(value));
        });
        for (int distance = lanes / 2; distance > 0; distance /= 2)
            most[b] = fmaxf(most[b], __shfl_xor_sync(0xffffffffu, most[b], distance));
    }
#pragma unroll
    for (int b = 0; b < mine; ++b) {
        const float scale = most[b] > 0 ? largest_fp8 / most[b] : 1.0f;
        over(b,
             [&](int k, std::int64_t at) { put(y + at, to_fp8(to_floats(values[b][k]), scale)); });
        if (lane == 0 && length[b] > 0) inverse_scales[block + b] = 1.0f / scale;
    }
}

template <typename Gradient, typename Copy>
void launch_adamw(const AdamwShape& shape, const AdamwTensors& at, cudaStream_t stream) {
    const auto corrected = [&](float beta) {
        return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), shape.step)));
    };
    const AdamwRule rule{
        shape.count,           shape.rate,  shape.beta1,          shape.beta2,
        shape.epsilon,         shape.decay, shape.gradient_scale, corrected(shape.beta1),
        corrected(shape.beta2)};
    const Adamw<Gradient, Copy> tensors{
        at.weights,     at.m,     at.v,     static_cast<const Gradient*>(at.gradients),
        at.new_weights, at.new_m, at.new_v, shape.copies ? static_cast<Copy*>(at.copies) : nullptr,
        at.pieces};
    const auto even = static_cast<unsigned int>((shape.count + adamw_piece - 1) / adamw_piece);
    const unsigned int blocks = at.pieces != nullptr ? at.piece_count : even;
    if (blocks > 0) adamw_kernel<<<blocks, block_size, 0, stream>>>(rule, tensors);
}

}  // namespace

cudaError_t adamw(const AdamwShape& shape, const AdamwTensors& at, cudaStream_t stream) {
    if (shape.gradient == Element::fp8 || shape.copy == Element::fp8) return cudaErrorInvalidValue;
    return with_type(shape.gradient, [&](auto* gradient) {
        using Gradient = std::remove_pointer_t<decltype(gradient)>;
        with_type(shape.copy, [&](auto* copy) {
            launch_adamw<Gradient, std::remove_pointer_t<decltype(copy)>>(shape, at, stream);
        });
    });
}

cudaError_t quantize(const QuantizeShape& shape, const QuantizeTensors& at, cudaStream_t stream) {
    const auto count = static_cast<std::size_t>(shape.rows * shape.columns);
    if (count == 0) return cudaSuccess;
    return with_type(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const auto* x = static_cast<const T*>(at.x);
        auto* y = static_cast<__nv_fp8_e4m3*>(at.y);
        const bool together = shape.scaling == QuantizeShape::Scaling::tensor;
        if (together && !shape.by_columns)
            return quantize_kernel<<<blocks_for(count / Pack<T>::size), block_size, 0, stream>>>(
                count, x, y, at.scale, at.largest);
        with_packs<T>(shape.columns, [&](auto pack) {
            const auto tiles = static_cast<unsigned int>((shape.rows + tile - 1) / tile *
                                                         ((shape.columns + tile - 1) / tile));
            if (together)
                return quantize_both_kernel<<<tiles, block_size, 0, stream>>>(
                    pack, shape, x, y, static_cast<std::uint32_t*>(at.transposed), at.scale,
                    at.largest);
            // blocks are counted in 32 bits, whose divisions are quicker: 512 GB
            constexpr int size = decltype(pack)::value,
                          at_once = own_blocks<size> * groups_of_lanes<size>;
            const std::int64_t all = shape.rows * blocks_of_row(shape);
            const auto blocks = static_cast<unsigned int>((all + at_once - 1) / at_once);
            quantize_blocks_kernel<<<blocks, block_size, 0, stream>>>(pack, shape, x, y,
                                                                      at.inverse_scales);
        });
    });
}

}  // namespace stepcast
