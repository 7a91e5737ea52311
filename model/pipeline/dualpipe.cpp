// DualPipe (DeepSeek-V3, arXiv 2412.19437, section 3.2.1 and figure 5): two copies of the model in opposite directions,
// half of the micro-batches entering at each end. A rank near an end fills while the middle ranks already meet the other
// direction; then forwards and backwards of opposite directions take turns. Weight gradients are split off only where a
// rank would wait. p + 1 chunks in flight, weights held twice.
// DeepSeek's program runs such a forward and backward as one, F&B, which hides the all-to-alls of either; its bubble is
// (p / 2 - 1)(F&B + B - 3W), B a whole backward. A step does so with parallelism.overlap_experts. Else it runs these slots one
// after the other: what they send leaves sooner, the bubble is (p / 2 - 1)(F + B - 2W), and no all-to-all is hidden.
#include <algorithm>

#include "model/pipeline/known_schedules.h"

namespace stepcast::pipeline_orders {
namespace {

// The slots of one rank; direction "near" enters at the end of the pipeline that is nearer to the rank.
class DualRank {
public:
    DualRank(int near_chunk, int half) : near_(near_chunk), half_(half) {}
    void forward(bool near) { add(near, forwards_, Pass::forward); }
    void backward(bool near) { add(near, backwards_, Pass::backward); }
    void input_backward(bool near) {
        const Slot slot = add(near, backwards_, Pass::input_backward);
        waiting_.push_back({slot.micro_batch, slot.chunk, Pass::weight_backward});
    }
    // The oldest weight gradient that was put off.
    void weight_backward() {
        order_.push_back(waiting_.front());
        waiting_.erase(waiting_.begin());
    }
    [[nodiscard]] bool has_waiting() const { return !waiting_.empty(); }
    [[nodiscard]] const Order& order() const { return order_; }

private:
    Slot add(bool near, int (&next)[2], Pass pass) {
        const int chunk = near ? near_ : 1 - near_;
        order_.push_back({chunk * half_ + next[chunk]++, chunk, pass});
        return order_.back();
    }
    int near_, half_;
    int forwards_[2] = {}, backwards_[2] = {};
    Order waiting_, order_;
};

// `depth` is the distance to the nearer end, 0 .. p/2 - 1; both directions have `half` micro-batches.
Order order_of(int rank, int stages, int half) {
    const int depth = std::min(rank, stages - 1 - rank), middle = stages / 2 - 1 - depth;
    constexpr bool near = true, far = false;
    DualRank r(rank < stages / 2 ? 0 : 1, half);
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
    // Drain: after the first half of it, weight gradients are put off until no input gradient is left.
    for (int i = 0; i <= depth; ++i) {
        const bool split_far = 2 * i >= depth + 1, split_near = 2 * i + 1 >= depth + 1;
        split_far ? r.input_backward(far) : r.backward(far);
        split_near ? r.input_backward(near) : r.backward(near);
    }
    for (int i = 0; i < middle; ++i) {
        r.weight_backward();
        r.input_backward(near);
    }
    while (r.has_waiting()) r.weight_backward();
    return r.order();
}

}  // namespace

// The pattern needs p micro-batches in each direction to unfold; with fewer, those above are left out of it.
std::vector<Order> dualpipe(int stages, int /*chunks*/, int micro_batches) {
    const int first = (micro_batches + 1) / 2, second = micro_batches / 2, half = std::max(first, stages);
    std::vector<Order> orders;
    for (int rank = 0; rank < stages; ++rank) {
        Order order;
        for (Slot slot : order_of(rank, stages, half)) {
            const int of_direction = slot.micro_batch - slot.chunk * half;
            if (of_direction >= (slot.chunk == 0 ? first : second)) continue;
            slot.micro_batch = slot.chunk * first + of_direction;
            order.push_back(slot);
        }
        orders.push_back(std::move(order));
    }
    return orders;
}

}  // namespace stepcast::pipeline_orders
