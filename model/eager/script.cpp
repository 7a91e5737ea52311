#include "model/eager/script.h"

#include <array>
#include <cmath>

namespace stepcast {
namespace {

using Access = MemoryPass::Access;

const Bytes least(512);  // what a kernel of a few elements moves

}  // namespace

void EagerScript::add_task(std::string_view name, Op op, Lane lane, double calls) {
    const Place place(0, lane);
    std::array<TaskId, 1> before{};
    if (graph_.size() > 0) before[0] = static_cast<TaskId>(graph_.size() - 1);
    // A kernel follows the one before in its stream; only a read of the host waits for the device.
    const std::span<const TaskId> after(before.data(), graph_.size() > 0 ? 1 : 0);
    graph_.add(name, phase_, std::move(op), std::span(&place, 1), after, static_cast<float>(calls));
}

void EagerScript::kernel(std::string_view name, Op op) {
    add_task(name, std::move(op), Lane::compute, pending_ + issue::launch);
    pending_ = 0;
}

void EagerScript::pass(std::string_view name, double elements, Bytes read, Bytes written, Access access) {
    kernel(name, MemoryPass{elements * read, elements * written, access});
}

void EagerScript::small(std::string_view name, int kernels, double elements) {
    for (int i = 0; i < kernels; ++i)
        kernel(name, MemoryPass{least + elements * Bytes(8), least + elements * Bytes(8)});
}

void EagerScript::read(std::string_view name) { add_task(name, HostWork{HostWork::Kind::read, 1}, Lane::host, 0); }

void EagerScript::norm(std::string_view name, double elements) {
    host(issue::module);
    pass(name, elements, element_, element_, Access::rows);
}

void EagerScript::norm_backward(std::string_view name, double elements) {
    host(3 * issue::node);
    pass(name, elements, 2.0 * element_, element_, Access::rows);
    pass("norm_weight_gradient", elements, 2.0 * element_, Bytes(0), Access::strided);
}

void EagerScript::linear(const Linear& l) {
    host(issue::linear);
    kernel(l.name, Gemm{.m = l.tokens, .n = l.out.rank, .k = l.in.rank, .dtype = dtype_});
}

void EagerScript::linear_backward(const Linear& l, bool input_gradient) {
    host(issue::linear_node);
    const Gemm dx{.m = l.tokens, .n = l.in.rank, .k = l.out.rank, .dtype = dtype_, .layout = Gemm::Layout::nn};
    const Gemm dw{.m = l.out.rank, .n = l.in.rank, .k = l.tokens, .dtype = dtype_, .layout = Gemm::Layout::tn};
    if (!l.bias) kernel(l.name, dw);
    if (input_gradient) kernel(l.name, dx);
    if (!l.bias) return;
    kernel(l.name, dw);
    pass("bias_gradient", static_cast<double>(l.tokens * l.out.rank), element_, Bytes(0), Access::strided);
}

void EagerScript::gelu(double elements) {
    host(issue::function);
    pass("gelu", elements, element_, element_);
}

void EagerScript::gelu_backward(double elements) {
    host(issue::node);
    pass("gelu_backward", elements, 2.0 * element_, element_);
}

void EagerScript::add(std::string_view name, double elements) {
    host(issue::operation);
    pass(name, elements, 2.0 * element_, element_);
}

void EagerScript::accumulate(double elements) {
    host(issue::node);
    pass("gradient_sum", elements, 2.0 * element_, element_);
}

void EagerScript::adam(double parameters, int tensors) {
    constexpr double piece = 65536, pieces = 320;
    host(issue::optimizer + issue::parameter * tensors);
    small("step_count", 1 + tensors / 110, tensors);
    const double kernels = std::ceil(parameters / (piece * pieces));
    for (double i = 0; i < kernels; ++i)
        pass("adam", parameters / kernels, 4.0 * element_, 3.0 * element_, Access::optimizer);
    host(issue::zero_gradient * tensors + issue::event);
    small("end_of_step", 1);
}

}  // namespace stepcast
