// Softmax and cross entropy over rows of logits. A block has a row of any length; one read keeps a
// running maximum and a running sum, which is scaled where the maximum grows.
#include "exec/cuda/library_kernels.h"
#include "exec/cuda/rows.h"

namespace stepcast {

namespace {

constexpr int threads = 512, blocks_at_once = 2;

template <typename T>
struct Loss {
    const T* logits;
    const std::int32_t* targets;
    float *losses, *log_sums, *probabilities;
    T* d_logits;
};

// exp(x - y) = 2^(x log2(e) - y log2(e)), one multiplication and addition before the power.
constexpr float log2_of_e = 1.44269504f;
__device__ float exp_above(float x, float base) { return power_of_two(x * log2_of_e - base); }

// The maximum of what a thread has seen, and the sum of exp(x - maximum).
struct Running {
    float maximum = -INFINITY, sum = 0;

    template <int size>
    __device__ void take(const Pack<float, size>& x) {
        float largest = maximum;
        for (int j = 0; j < size; ++j) largest = fmaxf(largest, x.values[j]);
        const float base = base_of(largest);
        sum *= exp_above(maximum, base);
        for (int j = 0; j < size; ++j) sum += exp_above(x.values[j], base);
        maximum = largest;
    }
    // log of the sum over the row of all threads
    __device__ float log_sum() const {
        const float largest = over_row(maximum, Largest{});
        const float all = over_row(sum * exp_above(maximum, base_of(largest)), Sum{});
        return largest + logf(all);
    }
    // where nothing is above -infinity, all are zeros still
    __device__ static float base_of(float largest) {
        return largest == -INFINITY ? 0.0f : largest * log2_of_e;
    }
};

// Of the thread that keeps the loss; it asks for both before the row, so that nobody waits then.
struct Target {
    std::int32_t place = -1;
    float logit = 0;

    template <typename T>
    __device__ Target(const LossShape& shape, const Loss<T>& at) {
        if (threadIdx.x == 0) place = at.targets[blockIdx.x];
        if (place >= 0) logit = to_float(at.logits[blockIdx.x * shape.columns + place]);
    }
    template <typename T>
    __device__ void keep_loss(const Loss<T>& at, float log_sum) const {
        if (threadIdx.x != 0) return;
        at.log_sums[blockIdx.x] = log_sum;
        at.losses[blockIdx.x] = place < 0 ? 0.0f : log_sum - logit;
    }
};

// Goes over a row of logits, in packs of `whole` elements; use(i, logits).
template <int whole, typename T, typename Use>
__device__ void over_logits(const LossShape& shape, const Loss<T>& at, Use use) {
    const T* const logits = at.logits + blockIdx.x * shape.columns;
    over_any_row<whole>(
        logits, shape.columns, [&](std::int64_t i, auto pack) { return pack_at(logits + i, pack); },
        [&](std::int64_t i, auto, const auto& x) { use(i, to_floats(x)); });
}

// Makes gradients of the probabilities of the logits from i on.
template <int size>
__device__ void make_gradients(Pack<float, size>& p, const LossShape& shape, std::int32_t target,
                               std::int64_t i) {
    const std::int64_t hot = target - i;
    if (hot >= 0 && hot < size)
        for (int j = 0; j < size; ++j) p.values[j] -= static_cast<int>(hot) == j ? 1.0f : 0.0f;
    const float scale = target < 0 ? 0.0f : shape.scale;
    for (int j = 0; j < size; ++j) p.values[j] *= scale;
}

template <typename T>
__global__ void __launch_bounds__(threads, blocks_at_once)
    loss_kernel(LossShape shape, Loss<T> at) {
    Running running;
    const Target target(shape, at);
    over_logits<Pack<T>::size>(shape, at, [&](std::int64_t, const auto& x) { running.take(x); });
    target.keep_loss(at, running.log_sum());
}

template <typename T>
__global__ void __launch_bounds__(threads, blocks_at_once)
    loss_backward_kernel(LossShape shape, Loss<T> at) {
    const std::int64_t row = blockIdx.x;
    T* const d_logits = at.d_logits + row * shape.columns;
    const std::int32_t target = at.targets[row];
    const float base = at.log_sums[row] * log2_of_e;
    over_logits<Pack<T>::size>(shape, at, [&](std::int64_t i, auto x) {
        for (float& value : x.values) value = exp_above(value, base);
        make_gradients(x, shape, target, i);
        put(d_logits + i, from_floats<T>(x));
    });
}

template <typename T>
__global__ void __launch_bounds__(threads, blocks_at_once)
    loss_maxima_kernel(LossShape shape, Loss<T> at) {
    float largest = -INFINITY;
    over_logits<Pack<T>::size>(shape, at, [&](std::int64_t, const auto& x) {
        for (const float value : x.values) largest = fmaxf(largest, value);
    });
    largest = over_row(largest, Largest{});
    if (threadIdx.x == 0) at.log_sums[blockIdx.x] = largest;
}

template <typename T>
__global__ void __launch_bounds__(threads, blocks_at_once)
    loss_sums_kernel(LossShape shape, Loss<T> at) {
    const std::int64_t row = blockIdx.x;
    const Target target(shape, at);
    const float largest = at.log_sums[row], base = largest * log2_of_e;
    float sum = 0;
    over_logits<Pack<T>::size>(shape, at, [&](std::int64_t, const auto& x) {
        for (const float value : x.values) sum += exp_above(value, base);
    });
    target.keep_loss(at, largest + logf(over_row(sum, Sum{})));
}

// A pack has as many logits as sixteen bytes have probabilities, so that a warp writes these
// without gaps.
constexpr int of_probabilities = Pack<float>::size;

template <typename T>
__global__ void __launch_bounds__(threads, blocks_at_once)
    loss_probabilities_kernel(LossShape shape, Loss<T> at) {
    const std::int64_t row = blockIdx.x;
    float* const probabilities = at.probabilities + row * shape.columns;
    const float base = at.log_sums[row] * log2_of_e;
    over_logits<of_probabilities>(shape, at, [&](std::int64_t i, auto x) {
        for (float& value : x.values) value = exp_above(value, base);
        put(probabilities + i, x);
    });
}

template <typename T>
__global__ void __launch_bounds__(threads, blocks_at_once)
    probabilities_backward_kernel(LossShape shape, Loss<T> at) {
    const std::int64_t row = blockIdx.x;
    const float* const probabilities = at.probabilities + row * shape.columns;
    T* const d_logits = at.d_logits + row * shape.columns;
    const std::int32_t target = at.targets[row];
    over_any_row<of_probabilities>(
        d_logits, shape.columns,
        [&](std::int64_t i, auto pack) { return pack_at(probabilities + i, pack); },
        [&](std::int64_t i, auto, auto p) {
            make_gradients(p, shape, target, i);
            put(d_logits + i, from_floats<T>(p));
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
