// DualPipe (DeepSeek-V3, arXiv 2412.19437, section 3.2.1 and figure 5): two copies of the model run
// in opposite directions; half of the micro-batches enter at each end. While a rank near an end
// fills, middle ranks already receive the other direction; then forwards and backwards of opposite
// directions alternate. Weight gradients are split off only where a rank would wait. p + 1 chunks
// are in flight, and weights are held twice.
// DeepSeek runs such a forward and backward as one pass, F&B, which hides the all-to-alls of both;
// its bubble is (p / 2 - 1)(F&B + B
// - 3W), B a whole backward. parallelism.overlap_experts does this. Otherwise the slots run in
// sequence: they send earlier, the bubble is (p / 2 - 1)(F + B - 2W), and no all-to-all is hidden.

#include <algorithm>

#include "model/transformer/known_schedules.h"

namespace stepcast::pipeline_orders {
namespace {

// The slots of one rank. Micro-batches of direction "near" enter at the end of the pipeline nearer
// to the rank.
struct DualRank {
    int near_chunk, half;
    int forwards[2] = {}, backwards[2] = {};
    Order waiting{}, order{};  // waiting: postponed weight gradients

    void forward(bool near) { add(near, forwards, Pass::forward); }
    void backward(bool near) { add(near, backwards, Pass::backward); }
    void input_backward(bool near) {
        const Slot slot = add(near, backwards, Pass::input_backward);
        waiting.push_back({slot.micro_batch, slot.chunk, Pass::weight_backward});
    }
    // Runs the oldest postponed weight gradient.
    void weight_backward() {
        order.push_back(waiting.front());
        waiting.erase(waiting.begin());
    }
    Slot add(bool near, int (&next)[2], Pass pass) {
        const int chunk = near ? near_chunk : 1 - near_chunk;
        order.push_back({chunk * half + next[chunk]++, chunk, pass});
        return order.back();
    }
};

// `depth` is the distance to the nearer end, 0 .. p/2 - 1. Both directions have `half`
// micro-batches.
Order order_of(int rank, int stages, int half) {
    const int depth = std::min(rank, stages - 1 - rank), middle = stages / 2 - 1 - depth;
    constexpr bool near = true, far = false;
    DualRank r{rank < stages / 2 ? 0 : 1, half};
    for (int i = 0; i < 2 * middle; ++i) r.forward(near);
    for (int i = 0; i <= depth; ++i) {
        r.forward(near);
        r.forward(far);
    }
    for (int i = 0; i < middle; ++i) {
        r.input_backward(far);
        r.weight_backward();
        r.forward(far);
    }
    for (int i = 0; i < half - stages + depth + 1; ++i) {
        r.forward(near);
        r.backward(far);
        r.forward(far);
        r.backward(near);
    }
    for (int i = 0; i < middle; ++i) {
        r.backward(far);
        r.forward(far);
        r.backward(near);
    }
    // Drain: in its second half, weight gradients are postponed until no input gradient is left.
    for (int i = 0; i <= depth; ++i) {
        const bool split_far = 2 * i >= depth + 1, split_near = 2 * i + 1 >= depth + 1;
        split_far ? r.input_backward(far) : r.backward(far);
        split_near ? r.input_backward(near) : r.backward(near);
    }
    for (int i = 0; i < middle; ++i) {
        r.weight_backward();
        r.input_backward(near);
    }
    while (!r.waiting.empty()) r.weight_backward();
    return std::move(r.order);
}

}  // namespace

// The pattern needs p micro-batches in each direction. With fewer, it is built for p and the
// surplus ones are removed.
Order dualpipe(int rank, int stages, int /*chunks*/, int micro_batches) {
    const int first = (micro_batches + 1) / 2, second = micro_batches / 2,
              half = std::max(first, stages);
    Order order;
    for (Slot slot : order_of(rank, stages, half)) {
        const int of_direction = slot.micro_batch - slot.chunk * half;
        if (of_direction >= (slot.chunk == 0 ? first : second)) continue;
        slot.micro_batch = slot.chunk * first + of_direction;
        order.push_back(slot);
    }
    return order;
}

}  // namespace stepcast::pipeline_orders
