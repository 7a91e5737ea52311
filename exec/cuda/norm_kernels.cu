// LayerNorm and RMSNorm: a row is read once and kept in the registers of a warp, or of a block.
#include "exec/cuda/library_kernels.h"
#include "exec/cuda/rows.h"

namespace stepcast {

namespace {

// A thread keeps 16 elements of a row. A block has at most 1024 threads for one, and up to half of
// them twice the registers.
constexpr int own_elements = 16, warp = 32, most_threads = 1024, rows_of_warps = 8;
template <int size>
constexpr int own_packs = own_elements / size;
static_assert(widest_norm == own_elements * most_threads);
constexpr int widest_of_warp = own_elements * warp;
template <int most>
using Threads = std::integral_constant<int, most>;

// LayerNorm, which has a mean and a bias, or RMSNorm.
template <bool biased>
using Biased = std::bool_constant<biased>;

template <typename T>
struct Norm {
    const T *x, *weight, *bias, *d_y;
    T *y, *d_x, *d_weight, *d_bias;
    float *means, *scales, *partial;
};

// Calls use(p, i) for the packs of a row that this thread keeps; i is the place of the p-th.
template <int size, typename Use>
__device__ void over_own(int width, Use use) {
#pragma unroll
    for (int p = 0; p < own_packs<size>; ++p)
        if (const int i = static_cast<int>(threadIdx.x + p * blockDim.x) * size; i < width)
            use(p, i);
}

__device__ std::int64_t first_row() {
    return blockIdx.x * static_cast<std::int64_t>(blockDim.y) + threadIdx.y;
}

template <typename T, int size>
__global__ void __launch_bounds__(most_threads)
    norm_kernel(Size<size> pack, NormShape shape, Norm<T> at) {
    const std::int64_t row = first_row();
    if (row >= shape.rows) return;  // a whole warp
    Pack<T, size> x[own_packs<size>];
    const auto width = static_cast<float>(shape.width);
    float sum = 0, squares = 0;
    over_own<size>(shape.width, [&](int p, int i) {
        x[p] = pack_at(at.x + row * shape.width + i, pack);
        for (int j = 0; j < size; ++j) sum += to_float(x[p].values[j]);
    });
    const float mean = shape.rms ? 0.0f : over_row(sum, Sum{}) / width;
    over_own<size>(shape.width, [&](int p, int) {
        for (int j = 0; j < size; ++j) {
            const float off = to_float(x[p].values[j]) - mean;
            squares += off * off;
        }
    });
    const float scale = 1.0f / sqrtf(over_row(squares, Sum{}) / width + shape.epsilon);
    over_own<size>(shape.width, [&](int p, int i) {
        const Pack<T, size> weight = pack_at(at.weight + i, pack),
                            bias = at.bias == nullptr ? weight : pack_at(at.bias + i, pack);
        for (int j = 0; j < size; ++j)
            x[p].values[j] = from_float<T>((to_float(x[p].values[j]) - mean) * scale *
                                               to_float(weight.values[j]) +
                                           (at.bias == nullptr ? 0.0f : to_float(bias.values[j])));
        put(at.y + row * shape.width + i, x[p]);
    });
    if (threadIdx.x != 0) return;
    at.scales[row] = scale;
    if (!shape.rms) at.means[row] = mean;
}

// With n = (x - mean) * scale and g = d_y * weight: d_x = scale * (g - mean of g - n * mean of g
// n), without the mean of g for RMSNorm; d_weight sums d_y n over the rows, d_bias d_y. A thread
// sums these for its columns over all rows that it gets; where registers are plenty, the next row
// is on its way meanwhile.
template <int most, typename T, int size, bool biased>
__global__ void __launch_bounds__(most)
    norm_backward_kernel(Threads<most>, Size<size> pack, Biased<biased>, NormShape shape,
                         Norm<T> at) {
    constexpr int mine = own_packs<size>;
    const auto width = static_cast<float>(shape.width);
    Pack<T, size> x[mine], d_y[mine], next_x[mine], next_d_y[mine];
    float d_weight[mine][size] = {}, d_bias[mine][size] = {};
    const std::int64_t step = gridDim.x * static_cast<std::int64_t>(blockDim.y);
    constexpr bool ahead = most < most_threads;
    // ahead: before the first row a turn that only fetches it
    for (std::int64_t row = first_row() - (ahead ? step : 0); row < shape.rows; row += step) {
        const std::int64_t fetched = ahead ? row + step : row;
        over_own<size>(shape.width, [&](int p, int i) {
            if (ahead) x[p] = next_x[p], d_y[p] = next_d_y[p];
            if (fetched >= shape.rows) return;
            next_x[p] = pack_at(at.x + fetched * shape.width + i, pack);
            next_d_y[p] = pack_at(at.d_y + fetched * shape.width + i, pack);
            if (!ahead) x[p] = next_x[p], d_y[p] = next_d_y[p];
        });
        if (row < 0) continue;
        const float mean = biased ? at.means[row] : 0.0f, scale = at.scales[row];
        float sum = 0, dot = 0;
        over_own<size>(shape.width, [&](int p, int i) {
            const Pack<T, size> weight = pack_at(at.weight + i, pack);
            for (int j = 0; j < size; ++j) {
                const float normal = (to_float(x[p].values[j]) - mean) * scale,
                            gradient = to_float(d_y[p].values[j]),
                            weighed = gradient * to_float(weight.values[j]);
                dot += weighed * normal;
                d_weight[p][j] += gradient * normal;
                if (!biased) continue;
                sum += weighed;
                d_bias[p][j] += gradient;
            }
        });
        if (biased) sum = over_row(sum, Sum{}) / width;
        dot = over_row(dot, Sum{}) / width;
        over_own<size>(shape.width, [&](int p, int i) {
            const Pack<T, size> weight = pack_at(at.weight + i, pack);
            for (int j = 0; j < size; ++j) {
                const float normal = (to_float(x[p].values[j]) - mean) * scale,
                            weighed = to_float(d_y[p].values[j]) * to_float(weight.values[j]);
                x[p].values[j] = from_float<T>(scale * (weighed - sum - normal * dot));
            }
            put(at.d_x + row * shape.width + i, x[p]);
        });
    }
    if (at.d_weight == nullptr) return;
    float* const sums = at.partial + blockIdx.x * std::int64_t{biased ? 2 : 1} * shape.width;
    __shared__ float of_warps[2][widest_of_warp];
    const bool shares = blockDim.y > 1;
    float *const weights = shares ? of_warps[0] : sums, *const biases = shares ? of_warps[1]
                                                                               : sums + shape.width;
    for (unsigned team = 0; team < blockDim.y; ++team) {
        if (threadIdx.y == team)
            over_own<size>(shape.width, [&](int p, int i) {
                for (int j = 0; j < size; ++j) {
                    weights[i + j] = (team == 0 ? 0.0f : weights[i + j]) + d_weight[p][j];
                    if (biased) biases[i + j] = (team == 0 ? 0.0f : biases[i + j]) + d_bias[p][j];
                }
            });
        __syncthreads();
    }
    if (!shares) return;
    for (int i = static_cast<int>(threadIdx.x + threadIdx.y * blockDim.x); i < shape.width;
         i += static_cast<int>(blockDim.x * blockDim.y)) {
        sums[i] = weights[i];
        if (biased) sums[shape.width + i] = biases[i];
    }
}

// Adds what the blocks left; a block has 32 columns, its warps take the blocks in turn.
template <typename T>
__global__ void norm_weights_kernel(int blocks, NormShape shape, Norm<T> at) {
    __shared__ float parts[2][rows_of_warps][warp];
    const int column = static_cast<int>(blockIdx.x * warp + threadIdx.x);
    float weight = 0, bias = 0;
    if (column < shape.width)
        for (int block = static_cast<int>(threadIdx.y); block < blocks; block += rows_of_warps) {
            const float* const sums =
                at.partial + std::int64_t{shape.rms ? 1 : 2} * block * shape.width + column;
            weight += sums[0];
            if (!shape.rms) bias += sums[shape.width];
        }
    parts[0][threadIdx.y][threadIdx.x] = weight;
    parts[1][threadIdx.y][threadIdx.x] = bias;
    __syncthreads();
    if (threadIdx.y != 0 || column >= shape.width) return;
    for (int other = 1; other < rows_of_warps; ++other) {
        weight += parts[0][other][threadIdx.x];
        bias += parts[1][other][threadIdx.x];
    }
    at.d_weight[column] = from_float<T>(weight);
    if (!shape.rms) at.d_bias[column] = from_float<T>(bias);
}

template <typename T>
Norm<T> typed(const NormTensors& at) {
    return {static_cast<const T*>(at.x),
            static_cast<const T*>(at.weight),
            static_cast<const T*>(at.bias),
            static_cast<const T*>(at.d_y),
            static_cast<T*>(at.y),
            static_cast<T*>(at.d_x),
            static_cast<T*>(at.d_weight),
            static_cast<T*>(at.d_bias),
            at.means,
            at.scales,
            at.partial};
}

// The fewest threads that keep a row.
dim3 threads_for(const NormShape& shape) {
    const int threads = (shape.width + widest_of_warp - 1) / widest_of_warp * warp;
    return threads == warp ? dim3(warp, rows_of_warps) : dim3(static_cast<unsigned>(threads));
}
unsigned int row_blocks(const NormShape& shape) {
    const std::int64_t rows = threads_for(shape).y;
    return static_cast<unsigned int>((shape.rows + rows - 1) / rows);
}
// A few for each multiprocessor: every one leaves sums as wide as a row.
unsigned int backward_blocks(const NormShape& shape) {
    return std::min(row_blocks(shape), 132u * 2);
}

}  // namespace

std::size_t norm_partials(const NormShape& shape) {
    return std::size_t{shape.rms ? 1u : 2u} * static_cast<std::size_t>(shape.width) *
           backward_blocks(shape);
}

cudaError_t norm(const NormShape& shape, const NormTensors& at, cudaStream_t stream) {
    if (!fits(shape)) return cudaErrorInvalidValue;
    if (shape.rows == 0) return cudaSuccess;
    return with_type(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const Norm<T> tensors = typed<T>(at);
        with_packs<T>(shape.width, [&](auto pack) {
            norm_kernel<<<row_blocks(shape), threads_for(shape), 0, stream>>>(pack, shape, tensors);
        });
    });
}

cudaError_t norm_backward(const NormShape& shape, const NormTensors& at, cudaStream_t stream) {
    if (!fits(shape)) return cudaErrorInvalidValue;
    if (shape.rows == 0) return cudaSuccess;
    return with_type(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const Norm<T> tensors = typed<T>(at);
        with_packs<T>(shape.width, [&](auto pack) {
            const auto launch = [&](auto most, auto biased) {
                norm_backward_kernel<<<backward_blocks(shape), threads_for(shape), 0, stream>>>(
                    most, pack, biased, shape, tensors);
            };
            const auto with_most = [&](auto biased) {
                if (threads_for(shape).x <= most_threads / 2)
                    launch(Threads<most_threads / 2>{}, biased);
                else
                    launch(Threads<most_threads>{}, biased);
            };
            if (shape.rms)
                with_most(Biased<false>{});
            else
                with_most(Biased<true>{});
        });
        if (at.d_weight == nullptr) return;
        const auto columns = static_cast<unsigned int>((shape.width + warp - 1) / warp);
        const int blocks = static_cast<int>(backward_blocks(shape));
        norm_weights_kernel<<<columns, dim3(warp, rows_of_warps), 0, stream>>>(blocks, shape,
                                                                               tensors);
    });
}

}  // namespace stepcast
