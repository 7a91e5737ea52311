// Kernels as an eager PyTorch script launches them on one GPU, one operator after the other, and what issuing each costs
// the host. Counted from the operators that PyTorch 2.11 dispatches for such a script, forward and backward
// (docs/pytorch.md lists them with shapes); which kernels an operator is made of is said at each.
#pragma once

#include <string_view>

#include "model/block/operators.h"
#include "model/graph/task_graph.h"

namespace stepcast {

// Host time in units of cluster.host.call, which is one in-place addition issued by the script: Python, dispatcher,
// autograd and the launch itself, of about half. Of the rest the ratios are those of PyTorch 2.11's operators on tensors of
// a few elements to that addition (docs/pytorch.md).
namespace issue {
inline constexpr double launch = 0.5;  // each kernel; what follows comes on top, once an operator
inline constexpr double operation = 0.4, function = 0.8, module = 1.9;
inline constexpr double linear = 3;   // module, views, epilogue chosen
inline constexpr double views = 1.8;  // view, permute and unpack
inline constexpr double attention = 4, product = 1.6;
inline constexpr double node = 0.6;  // of the backward; each gradient that it accumulates
inline constexpr double linear_node = 4.5, attention_node = 5;
inline constexpr double event = 0.5, backward_start = 6;
inline constexpr double optimizer = 12, parameter = 1, zero_gradient = 0.1;  // a step; a tensor
}  // namespace issue

class EagerScript {
public:
    EagerScript(TaskGraph& graph, Dtype dtype) : graph_(graph), dtype_(dtype), element_(size_of(dtype)) {}

    void begin(Phase phase) { phase_ = phase; }
    // The host works this long before it issues the next kernel.
    void host(double calls) { pending_ += calls; }
    void kernel(std::string_view name, Op op);
    // An element-wise operator over `elements`, of so many bytes each.
    void pass(std::string_view name, double elements, Bytes read, Bytes written,
              MemoryPass::Access access = MemoryPass::Access::stream);
    // Kernels whose bytes are nothing next to their launch: scalars, indices.
    void small(std::string_view name, int kernels, double elements = 0);
    // The host waits for the device and reads a value.
    void read(std::string_view name);

    // x and y of `elements`, rows of any width. Backward: one kernel for dx, one that sums over rows for scale and shift.
    void norm(std::string_view name, double elements);
    void norm_backward(std::string_view name, double elements);
    // addmm with the bias in its epilogue.
    void linear(const Linear& l);
    // dx unless the input needs none, dW, and a sum over tokens for the bias; without bias dW comes first.
    void linear_backward(const Linear& l, bool input_gradient = true);
    void gelu(double elements);
    void gelu_backward(double elements);
    void add(std::string_view name, double elements);
    // The sum of the two gradients of a tensor that is read twice.
    void accumulate(double elements);
    // Fused AdamW: gradients, weights and two moments in, weights and moments out, all of the parameters' type; kernels of
    // 320 pieces of 65536 elements.
    void adam(double parameters, int tensors);

    [[nodiscard]] Bytes element() const { return element_; }
    [[nodiscard]] Dtype dtype() const { return dtype_; }

private:
    void add_task(std::string_view name, Op op, Lane lane, double calls);

    TaskGraph& graph_;
    Dtype dtype_;
    Bytes element_;
    Phase phase_ = Phase::forward;
    double pending_ = 0;
};

}  // namespace stepcast
