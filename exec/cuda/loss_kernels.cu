// Softmax and cross entropy over rows of logits. A block has a row of any length; one read keeps a
// running maximum and a running sum, which is scaled where the maximum grows.
#include "exec/cuda/library_kernels.h"
#include "exec/cuda/rows.h"

namespace stepcast {

namespace {

constexpr int threads = 512;

template <typename T>
struct Loss {
    const T* logits;
    const std::int32_t* targets;
    float *losses, *log_sums, *probabilities;
    T* d_logits;
};

// The maximum of what a thread has seen, and the sum of exp(x - maximum).
struct Running {
    float maximum = -INFINITY, sum = 0;

    template <typename T, int size>
    __device__ void take(const Pack<T, size>& pack) {
        float largest = maximum;
        for (int j = 0; j < size; ++j) largest = fmaxf(largest, to_float(pack.values[j]));
        if (largest == -INFINITY) return;
        sum *= __expf(maximum - largest);
        for (int j = 0; j < size; ++j) sum += __expf(to_float(pack.values[j]) - largest);
        maximum = largest;
    }
    // log of the sum over the row of all threads
    __device__ float log_sum() const {
        const float largest = over_row(maximum, Largest{});
        const float all =
            over_row(maximum == -INFINITY ? 0.0f : sum * __expf(maximum - largest), Sum{});
        return largest + logf(all);
    }
};

template <typename T>
__device__ void keep_loss(const LossShape& shape, const Loss<T>& at, std::int64_t row,
                          float log_sum) {
    if (threadIdx.x != 0) return;
    at.log_sums[row] = log_sum;
    const std::int32_t target = at.targets[row];
    at.losses[row] =
        target < 0 ? 0.0f : log_sum - to_float(at.logits[row * shape.columns + target]);
}

// What one logit's gradient is, of probability p.
__device__ float gradient_of(const LossShape& shape, std::int32_t target, std::int64_t column,
                             float p) {
    return target < 0 ? 0.0f : (p - (column == target ? 1.0f : 0.0f)) * shape.scale;
}

template <typename T>
__global__ void loss_kernel(LossShape shape, Loss<T> at) {
    const std::int64_t row = blockIdx.x;
    const T* const logits = at.logits + row * shape.columns;
    Running running;
    over_any_row(logits, shape.columns,
                 [&](std::int64_t i, auto pack) { running.take(pack_at(logits + i, pack)); });
    keep_loss(shape, at, row, running.log_sum());
}

template <typename T>
__global__ void loss_backward_kernel(LossShape shape, Loss<T> at) {
    const std::int64_t row = blockIdx.x;
    const T* const logits = at.logits + row * shape.columns;
    const std::int32_t target = at.targets[row];
    const float log_sum = at.log_sums[row];
    over_any_row(logits, shape.columns, [&](std::int64_t i, auto pack) {
        auto values = pack_at(logits + i, pack);
        for (int j = 0; j < pack.value; ++j)
            values.values[j] = from_float<T>(
                gradient_of(shape, target, i + j, __expf(to_float(values.values[j]) - log_sum)));
        put(at.d_logits + row * shape.columns + i, values);
    });
}

template <typename T>
__global__ void loss_maxima_kernel(LossShape shape, Loss<T> at) {
    const T* const logits = at.logits + blockIdx.x * shape.columns;
    float largest = -INFINITY;
    over_any_row(logits, shape.columns, [&](std::int64_t i, auto pack) {
        const auto values = pack_at(logits + i, pack);
        for (int j = 0; j < pack.value; ++j) largest = fmaxf(largest, to_float(values.values[j]));
    });
    largest = over_row(largest, Largest{});
    if (threadIdx.x == 0) at.log_sums[blockIdx.x] = largest;
}

template <typename T>
__global__ void loss_sums_kernel(LossShape shape, Loss<T> at) {
    const std::int64_t row = blockIdx.x;
    const T* const logits = at.logits + row * shape.columns;
    const float largest = at.log_sums[row];
    float sum = 0;
    over_any_row(logits, shape.columns, [&](std::int64_t i, auto pack) {
        const auto values = pack_at(logits + i, pack);
        for (int j = 0; j < pack.value; ++j) sum += __expf(to_float(values.values[j]) - largest);
    });
    keep_loss(shape, at, row, largest + logf(over_row(sum, Sum{})));
}

// Sixteen bytes of logits have their probabilities at a multiple of sixteen bytes too.
template <typename T>
__global__ void loss_probabilities_kernel(LossShape shape, Loss<T> at) {
    const std::int64_t row = blockIdx.x;
    const T* const logits = at.logits + row * shape.columns;
    float* const probabilities = at.probabilities + row * shape.columns;
    const float log_sum = at.log_sums[row];
    over_any_row(logits, shape.columns, [&](std::int64_t i, auto pack) {
        constexpr int size = decltype(pack)::value;
        const auto values = pack_at(logits + i, pack);
        Pack < float, size<4 ? size : 4> part;
        for (int first = 0; first < size; first += part.size) {
            for (int j = 0; j < part.size; ++j)
                part.values[j] = __expf(to_float(values.values[first + j]) - log_sum);
            put(probabilities + i + first, part);
        }
    });
}

template <typename T>
__global__ void probabilities_backward_kernel(LossShape shape, Loss<T> at) {
    const std::int64_t row = blockIdx.x;
    const float* const probabilities = at.probabilities + row * shape.columns;
    T* const d_logits = at.d_logits + row * shape.columns;
    const std::int32_t target = at.targets[row];
    over_any_row(d_logits, shape.columns, [&](std::int64_t i, auto pack) {
        constexpr int size = decltype(pack)::value;
        constexpr int part = size < 4 ? size : 4;
        Pack<T, size> values;
        for (int first = 0; first < size; first += part) {
            const auto p = pack_at(probabilities + i + first, Size<part>{});
            for (int j = 0; j < part; ++j)
                values.values[first + j] =
                    from_float<T>(gradient_of(shape, target, i + first + j, p.values[j]));
        }
        put(d_logits + i, values);
    });
}

// Calls `run` with the tensors in their type, and a block for each row.
template <typename Run>
cudaError_t over_rows(const LossShape& shape, const LossTensors& at, Run run) {
    if (shape.rows == 0) return cudaSuccess;
    return with_type(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        run(Loss<T>{static_cast<const T*>(at.logits), at.targets, at.losses, at.log_sums,
                    at.probabilities, static_cast<T*>(at.d_logits)},
            static_cast<unsigned int>(shape.rows));
    });
}

}  // namespace

cudaError_t cross_entropy(const LossShape& shape, const LossTensors& at, cudaStream_t stream) {
    return over_rows(shape, at, [&](const auto& tensors, unsigned int rows) {
        loss_kernel<<<rows, threads, 0, stream>>>(shape, tensors);
    });
}

cudaError_t cross_entropy_backward(const LossShape& shape, const LossTensors& at,
                                   cudaStream_t stream) {
    return over_rows(shape, at, [&](const auto& tensors, unsigned int rows) {
        loss_backward_kernel<<<rows, threads, 0, stream>>>(shape, tensors);
    });
}

cudaError_t cross_entropy_in_steps(const LossShape& shape, const LossTensors& at,
                                   cudaStream_t stream) {
    return over_rows(shape, at, [&](const auto& tensors, unsigned int rows) {
        loss_maxima_kernel<<<rows, threads, 0, stream>>>(shape, tensors);
        loss_sums_kernel<<<rows, threads, 0, stream>>>(shape, tensors);
        loss_probabilities_kernel<<<rows, threads, 0, stream>>>(shape, tensors);
    });
}

cudaError_t cross_entropy_in_steps_backward(const LossShape& shape, const LossTensors& at,
                                            cudaStream_t stream) {
    return over_rows(shape, at, [&](const auto& tensors, unsigned int rows) {
        probabilities_backward_kernel<<<rows, threads, 0, stream>>>(shape, tensors);
    });
}

}  // namespace stepcast
