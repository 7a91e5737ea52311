// Times of sends between stages.
#include <algorithm>

#include "model/base/numbers.h"
#include "model/transformer/stages.h"
#include "sim/bounds/bounds.h"

namespace stepcast {

double StepBounds::send_time(int a, int b) {
    const Parallelism& p = now_.parallelism;
    const Bytes bytes = shape_->shape.outer() / (sends_parts(now_) ? real(p.tp) : 1.0);
    return prices_
        .collective(SendRecv{bytes, now_.runtime.pipeline.messages_per_tensor},
                    between_stages(*context_, a, b))
        .si();
}

// What a slot of a pipeline with stages waits for its input.
void StepBounds::bind_hops() {
    const Parallelism& p = now_.parallelism;
    int near = -1, far = -1;
    for (int s = p.pp - 1; s-- > 0;) (near_link(key_, s) ? near : far) = s;
    const double close = near >= 0 ? send_time(near, near + 1) : 0;
    const double distant = far >= 0 ? send_time(far, far + 1) : 0;
    const bool wraps =
        traits(p.schedule).chunks == StageChunks::rounds && key_.chunks > 1 && p.pp > 2;
    const double around = wraps ? send_time(0, p.pp - 1) : 0;
    for (FeatureTimes* f : {&lower_, &estimate_}) {
        (*f)[feature::send_near] = close;
        (*f)[feature::send_far] = distant;
        (*f)[feature::send_wrap] = around;
    }
    lower_[feature::arrival] = sends_parts(now_) ? shape_->gather.si() : 0;
    estimate_entry(lower_[feature::arrival], std::max(close, distant));
}

void StepBounds::bind_sends() {
    const Parallelism& p = now_.parallelism;
    lower_ = shape_->lower;
    alone_ = shape_->alone;
    estimate_ = shape_->estimate;
    sending_ = 0;
    if (!recomputes_layers(p))
        for (FeatureTimes* f : {&lower_, &alone_, &estimate_})
            for (const UnitKind k : layer_kinds)
                (*f)[feature::again(k)] = (*f)[feature::host_again(k)] = 0;
    if (p.pp > 1) bind_hops();
    const bool apart = p.pp > 1 && !traits(p.schedule).ends_meet();
    const double embedding = real(shape_->shape.vocab * shape_->shape.hidden);
    const bool joins = base_.workload.tied && base_.runtime.gradients.join_tied && apart;
    embedding_all_reduce_ =
        joins ? all_reduce(embedding * size_of(gradient_type(now_)), groups_.embedding) : 0;
}

}  // namespace stepcast
