// ZB-V (arXiv 2405.15362, V-ZB; arXiv 2401.10241, section 6): stage s holds chunk s on the way down
// and chunk 2p - 1 - s on the way up, so the last stage turns around without a transfer and the
// first stage begins the backward. With F = B = W no stage waits between its first and last slot,
// and at most 2p half-size chunks are in flight, which is 1F1B's memory.

#include <algorithm>

#include "model/base/numbers.h"
#include "model/transformer/known_schedules.h"

namespace stepcast::pipeline_orders {
namespace {

// Appends slots of chunk 0 (down) and 1 (up). Each pass counts its own micro-batches.
struct Stage {
    Order order;
    int next[2][4] = {};
    void add(int chunk, Pass pass) { order.push_back({next[chunk][as_int(pass)]++, chunk, pass}); }
    void forward(int chunk) { add(chunk, Pass::forward); }
    void input_backward(int chunk) { add(chunk, Pass::input_backward); }
    void weight_backward(int chunk) { add(chunk, Pass::weight_backward); }
    void backward(int chunk) {
        input_backward(chunk);
        weight_backward(chunk);
    }
    [[nodiscard]] int done(int chunk, Pass pass) const { return next[chunk][as_int(pass)]; }
};

}  // namespace

// The pattern needs 2p - 1 micro-batches. With fewer, it is built for 2p - 1 and the surplus ones
// are removed.
Order zb_v(int stage, int stages, int /*chunks*/, int asked) {
    const int micro_batches = std::max(asked, 2 * stages - 1);
    Stage s;
    // Fill until the first micro-batch has passed down and up.
    for (int i = 0; i < 2 * (stages - stage) - 1; ++i) s.forward(0);
    for (int i = 0; i < stage; ++i) {
        s.forward(1);
        s.forward(0);
    }
    // The backward of the up chunk begins; its weight gradients fill the wait for the down chunk.
    for (int i = 0; i < stages - stage; ++i) {
        s.forward(1);
        s.backward(1);
    }
    while (s.done(1, Pass::forward) < micro_batches) {
        if (s.done(0, Pass::forward) < micro_batches) s.forward(0);
        s.backward(0);
        s.forward(1);
        s.backward(1);
    }
    // Drain: input gradients come first, and the remaining weight gradients fill the rest.
    for (int i = 0; i < stage; ++i) {
        s.input_backward(0);
        s.input_backward(1);
    }
    while (s.done(0, Pass::input_backward) < micro_batches) {
        s.input_backward(0);
        s.weight_backward(0);
    }
    while (s.done(1, Pass::weight_backward) < micro_batches) s.weight_backward(1);
    while (s.done(0, Pass::weight_backward) < micro_batches) s.weight_backward(0);
    std::erase_if(s.order, [&](const Slot& slot) { return slot.micro_batch >= asked; });
    return std::move(s.order);
}

}  // namespace stepcast::pipeline_orders
