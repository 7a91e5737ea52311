// Times of sends between stages.
#include <algorithm>

#include "model/base/numbers.h"
#include "model/transformer/schedule.h"
#include "model/transformer/stages.h"
#include "sim/bounds/bounds.h"

namespace stepcast {

double StepBounds::send_time(int a, int b) {
    const SendRecv send{sent_by_rank(now_, shape_->shape.outer()),
                        now_.runtime.pipeline.messages_per_tensor};
    return prices_.collective(send, between_stages(*context_, a, b)).si();
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

// lower.cpp proves what they add.
void StepBounds::bind_stalls() {
    const Parallelism& p = now_.parallelism;
    const HostWaits& waits = shape_->waits;
    const bool again = recomputes_layers(p);
    for (const Pass pass : {Pass::forward, Pass::backward, Pass::input_backward}) {
        const bool repeats = again && pass != Pass::forward;
        if (!waits.pass[as_index(pass)] && !(repeats && waits.again)) continue;
        double host = lower_[feature::host(UnitKind::experts, pass)],
               device = lower_[feature::unit(UnitKind::experts, pass)];
        if (repeats) {
            host += lower_[feature::host_again(UnitKind::experts)];
            device += lower_[feature::again(UnitKind::experts)];
        }
        lower_[feature::stall(pass)] =
            std::max({0.0, host - device, repeats ? waits.repeated[as_index(pass)] : 0});
    }
    // of all that may come behind a forward
    const auto turn = [&](Pass pass) {
        const double plain = waits.turn[as_index(pass)], whole = waits.turn_again[as_index(pass)];
        return !again ? plain : p.recompute_layers > 0 ? std::min(plain, whole) : whole;
    };
    lower_[feature::turn] = traits(p.schedule).splits_backward
                                ? std::min(turn(Pass::backward), turn(Pass::input_backward))
                                : turn(Pass::backward);
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
    bind_stalls();
    if (p.pp > 1) bind_hops();
    const double embedding = real(shape_->shape.vocab * shape_->shape.hidden);
    const bool joins = base_.workload.tied && base_.runtime.gradients.join_tied && ends_apart(p);
    embedding_all_reduce_ =
        joins ? all_reduce(embedding * size_of(gradient_type(now_)), groups_.embedding) : 0;
}

}  // namespace stepcast
