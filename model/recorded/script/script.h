// Kernels that an eager PyTorch script launches on one GPU, one operator after the other, and the
// host time to issue each. Counted from the operators that PyTorch 2.11 dispatches
// (notes/pytorch.md lists them with shapes). Comments at each operator name its kernels.
#pragma once

#include <cmath>
#include <string_view>

#include "model/block/operators.h"
#include "model/graph/task_graph.h"

namespace stepcast {

// Host time in units of cluster.host.call, which is one in-place addition issued by the script:
// Python, dispatcher, autograd and the launch itself, of about half. The other ratios are
// PyTorch 2.11's operators on tensors of a few elements to that addition, each timed by itself on
// an H200 machine (calibrate/measurements/h200/host_ops.csv, notes/pytorch.md); the optimizer's are
// of a CPU.
namespace issue {
inline constexpr double launch = 0.5;  // each kernel; what follows comes on top, once an operator
inline constexpr double operation = 1.2, function = 1.2, module = 1.3, norm = 3.4;
inline constexpr double linear = 4.5;                  // module, views, epilogue chosen
inline constexpr double views = 1.8;                   // view, permute and unpack
inline constexpr double attention = 3, product = 6.6;  // product: of two tensors with heads
// of the backward: the engine's thread, the function, a gradient that is passed on or accumulated
inline constexpr double node = 2;
inline constexpr double norm_node = 6.2, linear_node = 10.4, attention_node = 8.5,
                        product_node = 14.5;
inline constexpr double event = 0.5, backward_start = 6;
inline constexpr double optimizer = 12, parameter = 1, zero_gradient = 0.1;  // a step; a tensor
}  // namespace issue

class EagerScript {
public:
    using Access = MemoryPass::Access;
    EagerScript(TaskGraph& graph, Bytes element) : graph_(graph), element_(element) {}

    void begin(Phase phase) { phase_ = phase; }
    // Adds host time before the next kernel is issued.
    void host(double calls) { pending_ += calls; }
    // `calls`: host time of the operator on top of its launches, at its first kernel; 0 for its
    // further kernels.
    void kernel(double calls, std::string_view name, Op op) {
        add_task(name, std::move(op), Lane::compute, pending_ + calls + issue::launch);
        pending_ = 0;
    }
    // An element-wise operator over `elements`, of which `each` reads and writes so many bytes.
    void pass(double calls, std::string_view name, double elements, const MemoryPass& each) {
        kernel(calls, name, MemoryPass{elements * each.read, elements * each.written, each.access});
    }
    // Kernels so small that their launch outweighs their bytes: scalars, indices.
    void small(double calls, std::string_view name, int kernels, double elements = 0) {
        const Bytes moved = Bytes(512) + elements * Bytes(8);
        for (int i = 0; i < kernels; ++i)
            kernel(i == 0 ? calls : 0, name, MemoryPass{moved, moved});
    }
    // The host waits for the device and reads a value.
    void read(std::string_view name) {
        add_task(name, HostWork{HostWork::Kind::read, 1}, Lane::host, 0);
    }

    // Fused AdamW: gradients, weights and two moments in, weights and moments out, all of the
    // parameters' type; kernels of 320 chunks of 65536 elements (multi_tensor_apply.cuh).
    void adam(double parameters, int tensors) {
        constexpr double chunk = 65536, chunks = 320;
        small(issue::optimizer + issue::parameter * tensors, "step_count", 1 + tensors / 110,
              tensors);
        const double kernels = std::ceil(parameters / (chunk * chunks));
        for (double i = 0; i < kernels; ++i)
            pass(0, "adam", parameters / kernels,
                 {4.0 * element_, 3.0 * element_, Access::optimizer});
        small(issue::zero_gradient * tensors + issue::event, "end_of_step", 1);
    }

    [[nodiscard]] bool ahead() const { return phase_ == Phase::forward; }
    [[nodiscard]] Bytes element() const { return element_; }

private:
    // Each kernel follows the previous one in the stream. Only a host read waits for the device.
    void add_task(std::string_view name, Op op, Lane lane, double calls) {
        const Place place(0, lane);
        const TaskId before = graph_.size() > 0 ? static_cast<TaskId>(graph_.size() - 1) : 0;
        graph_.add(graph_.task_of(name, phase_, std::move(op), static_cast<float>(calls)),
                   {&place, 1}, {&before, graph_.size() > 0 ? 1U : 0U});
    }

    TaskGraph& graph_;
    Bytes element_;
    Phase phase_ = Phase::forward;
    double pending_ = 0;
};

}  // namespace stepcast
