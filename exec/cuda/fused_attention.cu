// Attention whose scores stay on chip: an online softmax forward, and a backward that makes the
// scores again from the logarithms of the softmax's sums (Dao 2023, arXiv 2307.08691). All sums are
// in fp32, by multiply-add units: right for every shape, some thirty times slower than kernels that
// use tensor cores.
//
// A thread block takes `tile` queries against `tile` keys at a time. Its threads lie as `lanes` by
// `threads / lanes`: a thread has `own_rows` rows, which it shares with the other lanes of its half
// of a warp, and every sixteenth column.
#include <cmath>
#include <type_traits>

#include "exec/cuda/element_types.h"

namespace stepcast {

namespace {

constexpr int tile = 32, threads = 128, lanes = 16;
constexpr int own_rows = tile / (threads / lanes), own_columns = tile / lanes;
constexpr int pad = 2;  // of rows in shared memory, so that sixteen rows lie in different banks

// The width that a kernel is compiled for; narrower heads are filled up with zeros.
template <int width>
using Width = std::integral_constant<int, width>;

template <typename T>
struct Tensors {
    const T *q, *k, *v, *out, *d_out;
    T *result, *d_q, *d_k, *d_v;
    float *log_sums, *dots;
};

__device__ int row(int i) { return static_cast<int>(threadIdx.x) / lanes * own_rows + i; }
__device__ int column(int j) { return static_cast<int>(threadIdx.x) % lanes + lanes * j; }

struct Range {
    std::int64_t begin, end;
    __device__ bool has(std::int64_t x) const { return begin <= x && x < end; }
};

// The keys that a query sees. Without a causal mask, a window lies around the query's place.
__device__ Range seen(const FusedShape& shape, std::int64_t head, std::int64_t query) {
    const auto within = [&](std::int64_t x) {
        return x < 0 ? 0 : (x > shape.seq_k ? shape.seq_k : x);
    };
    const bool windowed = head < shape.windowed;
    if (shape.causal) {
        const std::int64_t end = query + shape.seq_k - shape.seq_q + 1;
        return {windowed ? within(end - shape.window) : 0, within(end)};
    }
    if (!windowed) return {0, shape.seq_k};
    const std::int64_t last = within(shape.seq_k - shape.window);
    std::int64_t begin = within(query * shape.seq_k / shape.seq_q - shape.window / 2);
    if (begin > last) begin = last;
    return {begin, within(begin + shape.window)};
}

// What any query of [first, first + tile) sees: both ends grow with the query.
__device__ Range seen_by_tile(const FusedShape& shape, std::int64_t head, std::int64_t first) {
    const std::int64_t end = first + tile < shape.seq_q ? first + tile : shape.seq_q;
    return {seen(shape, head, first).begin, seen(shape, head, end - 1).end};
}

__device__ std::int64_t key_head(const FusedShape& shape, std::int64_t head) {
    return head / (shape.heads / shape.kv_heads);  // heads of one sequence lie together
}

// Rows [first, first + tile) of a matrix, zeros beside it.
template <int width, typename T>
__device__ void load(T (&to)[tile][width + pad], const T* matrix, std::int64_t first,
                     std::int64_t rows, int columns) {
    for (int i = static_cast<int>(threadIdx.x); i < tile * width; i += threads) {
        const int r = i / width, c = i % width;
        to[r][c] = first + r < rows && c < columns ? matrix[(first + r) * columns + c]
                                                   : from_float<T>(0.0f);
    }
}

// result = a b^T
template <int width, typename T>
__device__ void multiply(const T (&a)[tile][width + pad], const T (&b)[tile][width + pad],
                         float (&result)[own_rows][own_columns]) {
    for (int i = 0; i < own_rows; ++i)
        for (int j = 0; j < own_columns; ++j) result[i][j] = 0;
    for (int x = 0; x < width; ++x) {
        float right[own_columns];
        for (int j = 0; j < own_columns; ++j) right[j] = to_float(b[column(j)][x]);
        for (int i = 0; i < own_rows; ++i) {
            const float left = to_float(a[row(i)][x]);
            for (int j = 0; j < own_columns; ++j) result[i][j] += left * right[j];
        }
    }
}

// sum += weights values, or weights^T values
template <bool transposed, int width, typename T>
__device__ void add_product(const float (&weights)[tile][tile + 1],
                            const T (&values)[tile][width + pad],
                            float (&sum)[own_rows][width / lanes]) {
    for (int x = 0; x < tile; ++x)
        for (int i = 0; i < own_rows; ++i) {
            const float weight = transposed ? weights[x][row(i)] : weights[row(i)][x];
#pragma unroll
            for (int j = 0; j < width / lanes; ++j)
                sum[i][j] += weight * to_float(values[x][column(j)]);
        }
}

__device__ void keep(float (&weights)[tile][tile + 1],
                     const float (&values)[own_rows][own_columns]) {
    for (int i = 0; i < own_rows; ++i)
        for (int j = 0; j < own_columns; ++j) weights[row(i)][column(j)] = values[i][j];
}

template <int width, typename T>
__device__ void store(T* matrix, std::int64_t first, std::int64_t rows, int columns,
                      const float (&values)[own_rows][width / lanes]) {
    for (int i = 0; i < own_rows; ++i)
        for (int j = 0; j < width / lanes; ++j)
            if (first + row(i) < rows && column(j) < columns)
                matrix[(first + row(i)) * columns + column(j)] = from_float<T>(values[i][j]);
}

// Over the lanes that share rows.
__device__ float largest_of_lanes(float value) {
    for (int distance = lanes / 2; distance > 0; distance /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
    return value;
}
__device__ float sum_of_lanes(float value) {
    for (int distance = lanes / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

// The softmax so far of one thread's rows.
struct OnlineSoftmax {
    float largest[own_rows], sum[own_rows];

    // Makes masked scores of a tile the weights of its values; `rescale` is what is left of the
    // weights before.
    __device__ void take(float (&scores)[own_rows][own_columns], float (&rescale)[own_rows]) {
        for (int i = 0; i < own_rows; ++i) {
            float most = largest[i];
            for (int j = 0; j < own_columns; ++j) most = fmaxf(most, scores[i][j]);
            most = largest_of_lanes(most);
            const bool any = most > -INFINITY;
            rescale[i] = any ? __expf(largest[i] - most) : 1.0f;
            float added = 0;
            for (int j = 0; j < own_columns; ++j)
                added += scores[i][j] = any ? __expf(scores[i][j] - most) : 0.0f;
            sum[i] = sum[i] * rescale[i] + sum_of_lanes(added);
            largest[i] = most;
        }
    }
};

template <typename T, int width>
__global__ void attention_forward_kernel(Width<width>, FusedShape shape, Tensors<T> at) {
    __shared__ T queries[tile][width + pad], keys[tile][width + pad];
    __shared__ float weights[tile][tile + 1];
    const std::int64_t tiles = (shape.seq_q + tile - 1) / tile, head = blockIdx.x / tiles,
                       first = blockIdx.x % tiles * tile;
    const T* k = at.k + key_head(shape, head) * shape.seq_k * shape.width;
    const T* v = at.v + key_head(shape, head) * shape.seq_k * shape.value_width;
    load<width>(queries, at.q + head * shape.seq_q * shape.width, first, shape.seq_q, shape.width);
    float out[own_rows][width / lanes] = {};
    OnlineSoftmax softmax;
    for (int i = 0; i < own_rows; ++i) {
        softmax.largest[i] = -INFINITY;
        softmax.sum[i] = 0;
    }
    const Range all = seen_by_tile(shape, head, first);
    for (std::int64_t key = all.begin / tile * tile; key < all.end; key += tile) {
        __syncthreads();
        load<width>(keys, k, key, shape.seq_k, shape.width);
        __syncthreads();
        float scores[own_rows][own_columns], rescale[own_rows];
        multiply<width>(queries, keys, scores);
        for (int i = 0; i < own_rows; ++i) {
            const Range visible = seen(shape, head, first + row(i));
            for (int j = 0; j < own_columns; ++j)
                scores[i][j] =
                    visible.has(key + column(j)) ? scores[i][j] * shape.scale : -INFINITY;
        }
        softmax.take(scores, rescale);
        for (int i = 0; i < own_rows; ++i)
            for (int j = 0; j < width / lanes; ++j) out[i][j] *= rescale[i];
        keep(weights, scores);
        __syncthreads();
        load<width>(keys, v, key, shape.seq_k, shape.value_width);
        __syncthreads();
        add_product<false, width>(weights, keys, out);
    }
    for (int i = 0; i < own_rows; ++i) {
        const float sum = softmax.sum[i];
        for (int j = 0; j < width / lanes; ++j) out[i][j] = sum > 0 ? out[i][j] / sum : 0.0f;
        if (column(0) == 0 && first + row(i) < shape.seq_q)  // a row that sees nothing: no weight
            at.log_sums[head * shape.seq_q + first + row(i)] =
                sum > 0 ? softmax.largest[i] + logf(sum) : INFINITY;
    }
    store<width>(at.result + head * shape.seq_q * shape.value_width, first, shape.seq_q,
                 shape.value_width, out);
}

// dots = the sum over each row of d_out * out: what the softmax's backward subtracts.
template <typename T>
__global__ void attention_dots_kernel(FusedShape shape, Tensors<T> at) {
    const std::int64_t rows = shape.batch * shape.heads * shape.seq_q;
    const std::int64_t mine = blockIdx.x * static_cast<std::int64_t>(threads / lanes) +
                              static_cast<int>(threadIdx.x) / lanes;
    float dot = 0;
    for (int c = column(0); c < shape.value_width && mine < rows; c += lanes)
        dot += to_float(at.out[mine * shape.value_width + c]) *
               to_float(at.d_out[mine * shape.value_width + c]);
    dot = sum_of_lanes(dot);
    if (column(0) == 0 && mine < rows) at.dots[mine] = dot;
}

// The weights P of a tile, from its products of queries and keys.
template <typename T>
__device__ void weigh(const FusedShape& shape, const Tensors<T>& at, std::int64_t head,
                      std::int64_t query, std::int64_t key,
                      float (&scores)[own_rows][own_columns]) {
    for (int i = 0; i < own_rows; ++i) {
        const std::int64_t q = query + row(i);
        const Range visible = q < shape.seq_q ? seen(shape, head, q) : Range{0, 0};
        const float log_sum = q < shape.seq_q ? at.log_sums[head * shape.seq_q + q] : 0.0f;
        for (int j = 0; j < own_columns; ++j)
            scores[i][j] =
                visible.has(key + column(j)) ? __expf(scores[i][j] * shape.scale - log_sum) : 0.0f;
    }
}

// dS = P (dP - dots) scale, in the place of dP.
template <typename T>
__device__ void differentiate(const FusedShape& shape, const Tensors<T>& at, std::int64_t head,
                              std::int64_t query, const float (&p)[own_rows][own_columns],
                              float (&d_p)[own_rows][own_columns]) {
    for (int i = 0; i < own_rows; ++i) {
        const std::int64_t q = query + row(i);
        const float dot = q < shape.seq_q ? at.dots[head * shape.seq_q + q] : 0.0f;
        for (int j = 0; j < own_columns; ++j) d_p[i][j] = p[i][j] * (d_p[i][j] - dot) * shape.scale;
    }
}

// A tile of queries against all keys that it sees: dQ = dS K.
template <typename T, int width>
__global__ void attention_queries_kernel(Width<width>, FusedShape shape, Tensors<T> at) {
    __shared__ T left[tile][width + pad], right[tile][width + pad];
    __shared__ float weights[tile][tile + 1];
    const std::int64_t tiles = (shape.seq_q + tile - 1) / tile, head = blockIdx.x / tiles,
                       first = blockIdx.x % tiles * tile;
    const T* q = at.q + head * shape.seq_q * shape.width;
    const T* d_out = at.d_out + head * shape.seq_q * shape.value_width;
    const T* k = at.k + key_head(shape, head) * shape.seq_k * shape.width;
    const T* v = at.v + key_head(shape, head) * shape.seq_k * shape.value_width;
    float d_q[own_rows][width / lanes] = {};
    const Range all = seen_by_tile(shape, head, first);
    for (std::int64_t key = all.begin / tile * tile; key < all.end; key += tile) {
        float p[own_rows][own_columns], d_s[own_rows][own_columns];
        __syncthreads();
        load<width>(left, d_out, first, shape.seq_q, shape.value_width);
        load<width>(right, v, key, shape.seq_k, shape.value_width);
        __syncthreads();
        multiply<width>(left, right, d_s);
        __syncthreads();
        load<width>(left, q, first, shape.seq_q, shape.width);
        load<width>(right, k, key, shape.seq_k, shape.width);
        __syncthreads();
        multiply<width>(left, right, p);
        weigh(shape, at, head, first, key, p);
        differentiate(shape, at, head, first, p, d_s);
        keep(weights, d_s);
        __syncthreads();
        add_product<false, width>(weights, right, d_q);
    }
    store<width>(at.d_q + head * shape.seq_q * shape.width, first, shape.seq_q, shape.width, d_q);
}

// A tile of keys against all queries that see it, of every head that shares it: dV = P^T dO, dK =
// dS^T Q. Nobody else adds to the tile, so the sums always come in the same order.
template <typename T, int width>
__global__ void attention_keys_kernel(Width<width>, FusedShape shape, Tensors<T> at) {
    __shared__ T left[tile][width + pad], right[tile][width + pad];
    __shared__ float weights[tile][tile + 1];
    const std::int64_t tiles = (shape.seq_k + tile - 1) / tile, keys = blockIdx.x / tiles,
                       key = blockIdx.x % tiles * tile, group = shape.heads / shape.kv_heads;
    const T* k = at.k + keys * shape.seq_k * shape.width;
    const T* v = at.v + keys * shape.seq_k * shape.value_width;
    float d_k[own_rows][width / lanes] = {}, d_v[own_rows][width / lanes] = {};
    for (std::int64_t head = keys * group; head < (keys + 1) * group; ++head) {
        const T* q = at.q + head * shape.seq_q * shape.width;
        const T* d_out = at.d_out + head * shape.seq_q * shape.value_width;
        for (std::int64_t first = 0; first < shape.seq_q; first += tile) {
            const Range all = seen_by_tile(shape, head, first);
            if (all.end <= key || all.begin >= key + tile) continue;
            float p[own_rows][own_columns], d_s[own_rows][own_columns];
            __syncthreads();
            load<width>(left, q, first, shape.seq_q, shape.width);
            load<width>(right, k, key, shape.seq_k, shape.width);
            __syncthreads();
            multiply<width>(left, right, p);
            weigh(shape, at, head, first, key, p);
            keep(weights, p);
            __syncthreads();
            load<width>(left, d_out, first, shape.seq_q, shape.value_width);
            load<width>(right, v, key, shape.seq_k, shape.value_width);
            __syncthreads();
            multiply<width>(left, right, d_s);
            differentiate(shape, at, head, first, p, d_s);
            add_product<true, width>(weights, left, d_v);
            __syncthreads();
            keep(weights, d_s);
            load<width>(left, q, first, shape.seq_q, shape.width);
            __syncthreads();
            add_product<true, width>(weights, left, d_k);
        }
    }
    store<width>(at.d_k + keys * shape.seq_k * shape.width, key, shape.seq_k, shape.width, d_k);
    store<width>(at.d_v + keys * shape.seq_k * shape.value_width, key, shape.seq_k,
                 shape.value_width, d_v);
}

template <typename T>
Tensors<T> tensors_of(const FusedTensors& at) {
    return {static_cast<const T*>(at.q),
            static_cast<const T*>(at.k),
            static_cast<const T*>(at.v),
            static_cast<const T*>(at.out),
            static_cast<const T*>(at.d_out),
            static_cast<T*>(at.out),
            static_cast<T*>(at.d_q),
            static_cast<T*>(at.d_k),
            static_cast<T*>(at.d_v),
            at.log_sums,
            at.dots};
}

// Calls `run` with the narrowest width that holds the heads.
template <typename T, typename Run>
void with_width(const FusedShape& shape, Run run) {
    const int widest = shape.width > shape.value_width ? shape.width : shape.value_width;
    if (widest <= 64) return run(Width<64>{});
    if (widest <= 128) return run(Width<128>{});
    if constexpr (sizeof(T) == 2) {
        if (widest <= 192) return run(Width<192>{});
        run(Width<256>{});
    }
}

unsigned int blocks_for(std::int64_t heads, std::int64_t rows) {
    return static_cast<unsigned int>(heads * ((rows + tile - 1) / tile));
}

}  // namespace

cudaError_t fused_attention(const FusedShape& shape, const FusedTensors& at, cudaStream_t stream) {
    if (!fits_fused(shape)) return cudaErrorInvalidValue;
    return with_type(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const Tensors<T> tensors = tensors_of<T>(at);
        const unsigned int blocks = blocks_for(shape.batch * shape.heads, shape.seq_q);
        with_width<T>(shape, [&](auto width) {
            attention_forward_kernel<<<blocks, threads, 0, stream>>>(width, shape, tensors);
        });
    });
}

cudaError_t fused_attention_backward(const FusedShape& shape, const FusedTensors& at,
                                     cudaStream_t stream) {
    if (!fits_fused(shape)) return cudaErrorInvalidValue;
    return with_type(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const Tensors<T> tensors = tensors_of<T>(at);
        constexpr std::int64_t rows_of_block = threads / lanes;
        const auto dots = static_cast<unsigned int>(
            (shape.batch * shape.heads * shape.seq_q + rows_of_block - 1) / rows_of_block);
        const unsigned int queries = blocks_for(shape.batch * shape.heads, shape.seq_q),
                           keys = blocks_for(shape.batch * shape.kv_heads, shape.seq_k);
        attention_dots_kernel<<<dots, threads, 0, stream>>>(shape, tensors);
        with_width<T>(shape, [&](auto width) {
            attention_queries_kernel<<<queries, threads, 0, stream>>>(width, shape, tensors);
            attention_keys_kernel<<<keys, threads, 0, stream>>>(width, shape, tensors);
        });
    });
}

}  // namespace stepcast
