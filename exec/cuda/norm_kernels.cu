// LayerNorm and RMSNorm: a row is read once and kept in the registers of a warp, or of several.
// Blocks stay for many rows; while they work on some, the next are on their way.
#include <atomic>

#include "exec/cuda/library_kernels.h"
#include "exec/cuda/rows.h"

namespace stepcast {

namespace {

// A thread keeps 64 bytes of a row, or 16 single elements. A block has teams of threads, a row
// each, and 512 threads together; where a row needs more, that row's.
constexpr int warp = 32, usual_threads = 512, most_threads = 1024, rows_of_warps = 32;
__host__ __device__ constexpr int own_packs(int size) { return size == 1 ? 16 : 4; }
__host__ __device__ constexpr int own_elements(int size) { return own_packs(size) * size; }
static_assert(widest_norm == own_elements(1) * most_threads &&
              widest_norm == own_elements(4) * most_threads &&
              widest_norm == own_elements(8) * usual_threads);
template <int most>
using Threads = std::integral_constant<int, most>;
// Rows on their way need room in shared memory, and copies there have at least four bytes.
__host__ __device__ constexpr bool fetches_ahead(int most, int size) {
    return most == usual_threads && size > 1;
}

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
    for (int p = 0; p < own_packs(size); ++p)
        if (const int i = static_cast<int>(threadIdx.x + p * blockDim.x) * size; i < width)
            use(p, i);
}

// Of a block, which has a row for each team; every team goes round as often as the others, because
// they wait for each other.
__device__ std::int64_t first_row() { return blockIdx.x * static_cast<std::int64_t>(blockDim.y); }
__device__ std::int64_t next_rows() { return gridDim.x * static_cast<std::int64_t>(blockDim.y); }

// Where the p-th pack of a thread waits; no other thread reads it, so none has to wait for others.
template <typename T, int size>
__device__ T* waiting(int tensor, int p) {
    return reinterpret_cast<T*>(dynamic_shared()) +
           ((tensor * own_packs(size) + p) * usual_threads + threadIdx.y * blockDim.x +
            threadIdx.x) *
               size;
}
template <bool ahead, typename T, int size>
__device__ void order(Size<size>, int tensor, const T* values, std::int64_t row,
                      const NormShape& shape) {
    if constexpr (ahead) {
        if (row >= shape.rows) return;
        const T* const from = values + row * shape.width;
        over_own<size>(shape.width,
                       [&](int p, int i) { fetch_ahead(waiting<T, size>(tensor, p), from + i); });
    }
}
// What was ordered and has arrived, or what is read now.
template <bool ahead, typename T, int size>
__device__ void take(Pack<T, size> (&packs)[own_packs(size)], int tensor, const T* values,
                     std::int64_t row, const NormShape& shape) {
    if (row >= shape.rows) return;
    const T* const from = values + row * shape.width;
    over_own<size>(shape.width, [&](int p, int i) {
        packs[p] = pack_at(ahead ? waiting<T, size>(tensor, p) : from + i, Size<size>{});
    });
}

// Every thread of a team gets the sums over its threads. Parts of two turns lie apart, so that one
// barrier a turn is enough; all threads of a block take as many turns.
template <int count>
__device__ void over_team(float (&sums)[count], int turn) {
    __shared__ float parts[2][count][most_threads / warp];
    const auto within_warp = [&] {
#pragma unroll
        for (int distance = warp / 2; distance > 0; distance /= 2)
            for (float& sum : sums) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    };
    within_warp();
    const unsigned warps = blockDim.x / warp, lane = threadIdx.x % warp,
                   first = threadIdx.y * warps;
    if (warps == 1) return;
    for (int k = 0; k < count; ++k)
        if (lane == 0) parts[turn][k][first + threadIdx.x / warp] = sums[k];
    __syncthreads();
    for (int k = 0; k < count; ++k) sums[k] = lane < warps ? parts[turn][k][first + lane] : 0.0f;
    within_warp();
}

template <int most, typename T, int size, bool biased>
__global__ void __launch_bounds__(most, most_threads / most)
    norm_kernel(Threads<most>, Size<size> pack, Biased<biased>, NormShape shape, Norm<T> at) {
    constexpr bool ahead = fetches_ahead(most, size);
    const auto width = static_cast<float>(shape.width);
    Pack<T, size> x[own_packs(size)];
    int turn = 0;
    order<ahead>(pack, 0, at.x, first_row() + threadIdx.y, shape);
    for (std::int64_t row = first_row() + threadIdx.y; row - threadIdx.y < shape.rows;
         row += next_rows()) {
        if (ahead) wait_for_fetches();
        take<ahead>(x, 0, at.x, row, shape);
        order<ahead>(pack, 0, at.x, row + next_rows(), shape);
        float sum[1] = {}, squares[1] = {};
        if (biased) {
            over_own<size>(shape.width, [&](int p, int) {
                const auto all = to_floats(x[p]);
                for (int j = 0; j < size; ++j) sum[0] += all.values[j];
            });
            over_team(sum, turn ^= 1);
        }
        const float mean = biased ? sum[0] / width : 0.0f;
        over_own<size>(shape.width, [&](int p, int) {
            const auto all = to_floats(x[p]);
            for (int j = 0; j < size; ++j)
                squares[0] += (all.values[j] - mean) * (all.values[j] - mean);
        });
        over_team(squares, turn ^= 1);
        if (row >= shape.rows) continue;
        const float scale = 1.0f / sqrtf(squares[0] / width + shape.epsilon);
        T* const y = at.y + row * shape.width;
        over_own<size>(shape.width, [&](int p, int i) {
            auto all = to_floats(x[p]);
            const auto weight = to_floats(pack_at(at.weight + i, pack));
            Pack<float, size> bias{};
            if (biased && at.bias != nullptr) bias = to_floats(pack_at(at.bias + i, pack));
            for (int j = 0; j < size; ++j)
                all.values[j] = (all.values[j] - mean) * scale * weight.values[j] + bias.values[j];
            put(y + i, from_floats<T>(all));
        });
        if (threadIdx.x != 0) continue;
        at.scales[row] = scale;
        if (biased) at.means[row] = mean;
    }
}

// Sums over the teams of a block, of every thread's own elements: the upper half of the teams
// leaves theirs to the lower half, until one is left.
template <int packs, int size>
__device__ void over_teams(float (&own)[packs][size]) {
    auto* const left = reinterpret_cast<float*>(dynamic_shared());
    const auto place = [&](unsigned team, int p, int j) -> float& {
        return left[((team * packs + p) * size + j) * blockDim.x + threadIdx.x];
    };
    for (unsigned teams = blockDim.y, half; teams > 1; teams = half) {
        half = (teams + 1) / 2;
        __syncthreads();
        if (threadIdx.y >= half && threadIdx.y < teams)
            for (int p = 0; p < packs; ++p)
                for (int j = 0; j < size; ++j) place(threadIdx.y - half, p, j) = own[p][j];
        __syncthreads();
        if (threadIdx.y < teams - half)
            for (int p = 0; p < packs; ++p)
                for (int j = 0; j < size; ++j) own[p][j] += place(threadIdx.y, p, j);
    }
}
template <int packs, int size>
__device__ void keep_own(const float (&own)[packs][size], float* sums, int width) {
    constexpr int part = size < 4 ? size : 4;
    over_own<size>(width, [&](int p, int i) {
        for (int begin = 0; begin < size; begin += part) {
            Pack<float, part> four;
            for (int j = 0; j < part; ++j) four.values[j] = own[p][begin + j];
            put(sums + i + begin, four);
        }
    });
}

// With n = (x - mean) * scale and g = d_y * weight: d_x = scale * (g - mean of g - n * mean of g
// n), without the mean of g for RMSNorm; d_weight sums d_y n over the rows, d_bias d_y. A thread
// sums these for its columns over all rows that it gets.
template <int most, typename T, int size, bool biased>
__global__ void __launch_bounds__(most, most / most_threads)
    norm_backward_kernel(Threads<most>, Size<size> pack, Biased<biased>, NormShape shape,
                         Norm<T> at) {
    constexpr bool ahead = fetches_ahead(most, size);
    constexpr int mine = own_packs(size), dot = 0, sum = biased ? 1 : 0;
    const auto width = static_cast<float>(shape.width);
    Pack<T, size> x[mine], d_y[mine];
    float d_weight[mine][size] = {}, d_bias[mine][size] = {}, next_mean = 0, next_scale = 0;
    int turn = 0;
    const auto fetch = [&](std::int64_t row) {
        order<ahead>(pack, 0, at.x, row, shape);
        order<ahead>(pack, 1, at.d_y, row, shape);
        if (row >= shape.rows) return;
        next_scale = at.scales[row];
        if (biased) next_mean = at.means[row];
    };
    fetch(first_row() + threadIdx.y);
    for (std::int64_t row = first_row() + threadIdx.y; row - threadIdx.y < shape.rows;
         row += next_rows()) {
        const float mean = biased ? next_mean : 0.0f, scale = next_scale;
        if (ahead) wait_for_fetches();
        take<ahead>(x, 0, at.x, row, shape);
        take<ahead>(d_y, 1, at.d_y, row, shape);
        fetch(row + next_rows());
        float sums[biased ? 2 : 1] = {};
        const auto add = [&](int p, int i) {
            make_again(x[p]), make_again(d_y[p]);
            const auto weight = to_floats(pack_at(at.weight + i, pack)), own = to_floats(x[p]),
                       gradient = to_floats(d_y[p]);
            for (int j = 0; j < size; ++j) {
                const float normal = (own.values[j] - mean) * scale,
                            weighed = gradient.values[j] * weight.values[j];
                sums[dot] += weighed * normal;
                d_weight[p][j] += gradient.values[j] * normal;
                if (!biased) continue;
                sums[sum] += weighed;
                d_bias[p][j] += gradient.values[j];
            }
        };
        if (row < shape.rows) over_own<size>(shape.width, add);
        over_team(sums, turn ^= 1);
        if (row >= shape.rows) continue;
        const float by = scale * scale * sums[dot] / width,
                    less = biased ? scale * sums[sum] / width : 0.0f;
        T* const d_x = at.d_x + row * shape.width;
        over_own<size>(shape.width, [&](int p, int i) {
            make_again(x[p]), make_again(d_y[p]);
            const auto weight = to_floats(pack_at(at.weight + i, pack)),
                       gradient = to_floats(d_y[p]);
            auto own = to_floats(x[p]);
            for (int j = 0; j < size; ++j)
                own.values[j] = scale * (gradient.values[j] * weight.values[j]) -
                                (less + (own.values[j] - mean) * by);
            put(d_x + i, from_floats<T>(own));
        });
    }
    if (at.d_weight == nullptr) return;
    float* const left = at.partial + blockIdx.x * std::int64_t{biased ? 2 : 1} * shape.width;
    over_teams(d_weight);
    if (biased) over_teams(d_bias);
    if (threadIdx.y != 0) return;
    keep_own(d_weight, left, shape.width);
    if (biased) keep_own(d_bias, left + shape.width, shape.width);
}

// Adds what the blocks left; a block has 32 columns, its warps take the blocks in turn.
template <typename T>
__global__ void norm_weights_kernel(int blocks, NormShape shape, Norm<T> at) {
    __shared__ float parts[2][rows_of_warps][warp];
    const int column = static_cast<int>(blockIdx.x * warp + threadIdx.x);
    float weight = 0, bias = 0;
    const std::int64_t of_block = std::int64_t{shape.rms ? 1 : 2} * shape.width;
    constexpr int at_once = 8;  // as many are on their way
    for (int first = static_cast<int>(threadIdx.y); first < blocks && column < shape.width;
         first += at_once * rows_of_warps) {
        float weights[at_once] = {}, biases[at_once] = {};
#pragma unroll
        for (int k = 0; k < at_once; ++k)
            if (const int block = first + k * rows_of_warps; block < blocks) {
                weights[k] = at.partial[block * of_block + column];
                if (!shape.rms) biases[k] = at.partial[block * of_block + shape.width + column];
            }
        for (int k = 0; k < at_once; ++k) weight += weights[k], bias += biases[k];
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

unsigned int multiprocessors() {
    static const unsigned int of_first = [] {
        int device = 0, count = 0;
        const bool known =
            cudaGetDevice(&device) == cudaSuccess &&
            cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) == cudaSuccess;
        if (known) return static_cast<unsigned int>(count);
        cudaGetLastError();  // nobody else's
        return 132U;
    }();
    return of_first;
}

// More shared memory than 48 KiB is asked for once on each device, because a launch waits
// meanwhile.
template <int most, typename T, int size, bool biased>
void allow_shared(int bytes) {
    static std::atomic<std::uint64_t> allowed{0};
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return;
    const std::uint64_t own = device < 64 ? std::uint64_t{1} << device : 0;
    if ((allowed & own) != 0) return;
    void (*const kernel)(Threads<most>, Size<size>, Biased<biased>, NormShape, Norm<T>) =
        &norm_backward_kernel<most, T, size, biased>;
    if (cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess)
        allowed |= own;
}

// As many blocks as run at once.
struct Launch {
    dim3 threads;
    unsigned int blocks;
};
Launch launch_of(const NormShape& shape, unsigned int threads_at_once) {
    const int whole = 16 / static_cast<int>(bytes_of(shape.element)),
              own = own_elements(shape.width % whole == 0 ? whole : 1);
    const auto threads =
        static_cast<unsigned int>((shape.width + own * warp - 1) / (own * warp)) * warp;
    const std::int64_t teams = std::max(usual_threads / threads, 1U);
    const unsigned int most =
        std::max(1U, threads_at_once / std::max(threads, unsigned{usual_threads}));
    return {{threads, static_cast<unsigned int>(teams)},
            static_cast<unsigned int>(std::min<std::int64_t>((shape.rows + teams - 1) / teams,
                                                             multiprocessors() * most))};
}
Launch forward_launch(const NormShape& shape) { return launch_of(shape, most_threads); }
// A block leaves sums as wide as a row, so there is one for each multiprocessor.
Launch backward_launch(const NormShape& shape) { return launch_of(shape, usual_threads); }

// Calls `launch` with the tensors in their type and what a kernel is compiled for.
template <typename T, typename Run>
void with_variant(const NormShape& shape, const Launch& launch, Run run) {
    with_packs<T>(shape.width, [&](auto pack) {
        const auto with_most = [&](auto biased) {
            constexpr bool few = own_elements(decltype(pack)::value) * usual_threads >= widest_norm;
            if constexpr (few)
                run(Threads<usual_threads>{}, pack, biased);
            else if (launch.threads.x <= usual_threads)
                run(Threads<usual_threads>{}, pack, biased);
            else
                run(Threads<most_threads>{}, pack, biased);
        };
        if (shape.rms)
            with_most(Biased<false>{});
        else
            with_most(Biased<true>{});
    });
}

}  // namespace

std::size_t norm_partials(const NormShape& shape) {
    return std::size_t{shape.rms ? 1u : 2u} * static_cast<std::size_t>(shape.width) *
           backward_launch(shape).blocks;
}

cudaError_t norm(const NormShape& shape, const NormTensors& at, cudaStream_t stream) {
    if (!fits(shape)) return cudaErrorInvalidValue;
    if (shape.rows == 0) return cudaSuccess;
    return with_type(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const Norm<T> tensors = typed<T>(at);
        const Launch launch = forward_launch(shape);
        with_variant<T>(shape, launch, [&](auto most, auto pack, auto biased) {
            const std::size_t room = fetches_ahead(most, pack) ? usual_threads * 64 : 0;
            norm_kernel<<<launch.blocks, launch.threads, room, stream>>>(most, pack, biased, shape,
                                                                         tensors);
        });
    });
}

cudaError_t norm_backward(const NormShape& shape, const NormTensors& at, cudaStream_t stream) {
    if (!fits(shape)) return cudaErrorInvalidValue;
    if (shape.rows == 0) return cudaSuccess;
    return with_type(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const Norm<T> tensors = typed<T>(at);
        const Launch launch = backward_launch(shape);
        with_variant<T>(shape, launch, [&](auto most, auto pack, auto biased) {
            // for x and d_y on their way, and then for what teams leave to each other
            const int room = most.value == usual_threads ? usual_threads * 128 : 0;
            allow_shared<decltype(most)::value, T, decltype(pack)::value, decltype(biased)::value>(
                room);
            norm_backward_kernel<<<launch.blocks, launch.threads, room, stream>>>(
                most, pack, biased, shape, tensors);
        });
        if (at.d_weight == nullptr) return;
        const auto columns = static_cast<unsigned int>((shape.width + warp - 1) / warp);
        const int blocks = static_cast<int>(launch.blocks);
        norm_weights_kernel<<<columns, dim3(warp, rows_of_warps), 0, stream>>>(blocks, shape,
                                                                               tensors);
    });
}

}  // namespace stepcast
