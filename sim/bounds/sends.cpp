// Times of sends between stages, and what sends slow down.
#include <algorithm>

#include "model/transformer/stages.h"
#include "sim/bounds/bounds.h"

namespace stepcast {

double StepBounds::send_time(int a, int b) {
    const Parallelism& p = now_.parallelism;
    const Bytes bytes =
        shape_->shape.outer() / (sends_parts(now_) ? static_cast<double>(p.tp) : 1.0);
    return prices_
        .collective(SendRecv{bytes, now_.runtime.pipeline.messages_per_tensor},
                    between_stages(*context_, a, b))
        .si();
}

// The time before each slot whose input was sent. Parts that came early are gathered behind the
// last collective of the slot before, while that slot still computes and sends. Parts that the slot
// waits for are gathered when they arrive. With several chunks a stage computes while it sends: its
// own send overlaps the first kernels of the next slot, unless that slot waits for it, and it
// receives at any moment.
void StepBounds::bind_entry(double gather, double send) {
    const bool waits = !now_.runtime.exchanges.sends;
    const double s = base_.cluster.interference.compute_slowdown;
    const BoundShape& shape = *shape_;
    const UnitCounts& units = pipeline_->groups.back().most;
    if (all_layers(units) == 0) {
        estimate_[feature::entry] = gather;
        return;
    }
    double slot = 0, kernels = 0, exposed = 0, overlapped_gather = 0, lead = 0, waited = 0;
    for (const UnitKind kind : layer_kinds)
        for (const Pass pass : {Pass::forward, Pass::backward}) {
            const std::size_t f = feature::unit(kind, pass), again = feature::again(kind);
            const bool repeats = pass == Pass::backward && estimate_[again] > 0;
            const double share = 0.5 * units[at(kind)] / all_layers(units),
                         rest = (1 + s) * shape.rest[f];
            const double layers = share * all_layers(units) / key_.chunks;
            slot += layers * (estimate_[f] + (repeats ? estimate_[again] : 0));
            kernels += layers * (shape.computing[f] + (repeats ? shape.computing[again] : 0));
            exposed += share * std::max(0.0, gather - rest - (waits ? send : 0));
            waited += share * std::max(0.0, gather - rest);
            overlapped_gather += share * std::min(gather, rest);
            lead += share * shape.lead[repeats ? again : f];
        }
    estimate_[feature::entry] = exposed + lost_to_overlap(1e9, overlapped_gather, s);
    estimate_[feature::arrival] = gather - exposed;
    if (key_.chunks == 1 || slot == 0 || kernels == 0) return;
    const double inside = std::max(0.0, send - waited), density = kernels / slot;
    const double own =
        waits ? 0
              : std::min(kernels, std::min(inside, lead) + density * std::max(0.0, inside - lead));
    const double cycle = slot + exposed + (waits ? send : 0);
    const double others = std::min(kernels, send * kernels / cycle);
    const double busy = own + others - own * others / kernels;
    sending_ = busy / kernels;
    estimate_[feature::entry] += lost_to_overlap(1e9, busy, s);
}

void StepBounds::bind_sends() {
    const Parallelism& p = now_.parallelism;
    lower_ = shape_->lower;
    alone_ = shape_->alone;
    estimate_ = shape_->estimate;
    sending_ = 0;
    if (!recomputes_layers(p))
        for (Features* f : {&lower_, &alone_, &estimate_})
            for (const UnitKind k : layer_kinds)
                (*f)[feature::again(k)] = (*f)[feature::host_again(k)] = 0;
    if (p.pp > 1) {
        int near = -1, far = -1;
        for (int s = p.pp - 1; s-- > 0;) (near_link(key_, s) ? near : far) = s;
        const double close = near >= 0 ? send_time(near, near + 1) : 0;
        const double distant = far >= 0 ? send_time(far, far + 1) : 0;
        const bool wraps =
            traits(p.schedule).chunks == StageChunks::rounds && key_.chunks > 1 && p.pp > 2;
        const double around = wraps ? send_time(0, p.pp - 1) : 0;
        for (Features* f : {&lower_, &estimate_}) {
            (*f)[feature::send_near] = close;
            (*f)[feature::send_far] = distant;
            (*f)[feature::send_wrap] = around;
        }
        lower_[feature::arrival] = sends_parts(now_) ? shape_->gather.si() : 0;
        bind_entry(lower_[feature::arrival], std::max(close, distant));
    }
    units_ = shape_->units;
    const bool apart = p.pp > 1 && !traits(p.schedule).ends_meet();
    if (apart) units_.weights[at(UnitKind::head)] = shape_->copied_head;
    const double embedding = static_cast<double>(shape_->shape.vocab * shape_->shape.hidden);
    const bool joins = base_.workload.tied && base_.runtime.gradients.join_tied && apart;
    embedding_all_reduce_ =
        joins ? all_reduce(embedding * size_of(gradient_type(now_)), groups_.embedding) : 0;
}

}  // namespace stepcast
