// 1F1B (PipeDream-Flush, arXiv 2006.09503): stage s of p first runs p - 1 - s forwards, then
// alternates one forward and one backward. The bubble is GPipe's, (p - 1)(F + B), but only min(m, p
// - s) micro-batches are in flight. Interleaved 1F1B (arXiv 2104.04473): a stage holds v chunks,
// each 1/v of its layers. Micro-batches run in rounds of p: a round passes chunk 0, then chunk 1,
// and so on; the backward takes the chunks in reverse. Stage s first runs 2 (p - s - 1) + (v - 1) p
// forwards, and one more is in flight with them. Bubble (p - 1)(F + B) / v.

#include <algorithm>

#include "model/transformer/known_schedules.h"

namespace stepcast::pipeline_orders {

namespace {

Slot slot_of(int k, int stages, int chunks, Pass pass) {
    const int round = stages * chunks;
    const int chunk = k % round / stages;
    return {k / round * stages + k % stages, pass == Pass::forward ? chunk : chunks - 1 - chunk,
            pass};
}

}  // namespace

Order one_f_one_b(int stage, int stages, int chunks, int micro_batches) {
    const int passes = micro_batches * chunks;
    const int wanted =
        chunks > 1 ? 2 * (stages - stage - 1) + (chunks - 1) * stages : stages - 1 - stage;
    const int ahead = std::min(wanted, passes);
    Order order;
    for (int k = 0; k < ahead; ++k) order.push_back(slot_of(k, stages, chunks, Pass::forward));
    for (int k = 0; k < passes; ++k) {
        if (ahead + k < passes) order.push_back(slot_of(ahead + k, stages, chunks, Pass::forward));
        order.push_back(slot_of(k, stages, chunks, Pass::backward));
    }
    return order;
}

}  // namespace stepcast::pipeline_orders
