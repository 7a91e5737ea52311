#include "model/multimodal/parts.h"

#include <algorithm>

namespace stepcast {

ZeroOne::ZeroOne(TaskGraph& graph, const TowerContext& context, Stage& stage)
    : graph_(graph), context_(context), stage_(stage), groups_(parameter_groups(context.workload())) {
    std::vector<int> tensors(static_cast<std::size_t>(ranks()));
    for (const ParameterGroup& group : groups_)
        for (int r = 0; r < ranks(); ++r) tensors[static_cast<std::size_t>(r)] += tensors_on(group, ranks(), r);
    fullest_ = static_cast<int>(std::max_element(tensors.begin(), tensors.end()) - tensors.begin());
}

void ZeroOne::add(const ParameterTensor& tensor, const std::vector<Slice>& slices, Phase phase) {
    const Parallelism& p = context_.experiment.parallelism;
    const Bytes element = size_of(p.gradient_dtype);
    if (filled_ > 0 && (filled_ + tensor.elements) * element > p.bucket) close();
    Planner planner(graph_);
    planner.compute("bucket_copy", MemoryPass{tensor.elements * element, tensor.elements * element});
    stage_.stamp(planner.take(), phase);
    filled_ += tensor.elements;
    for (const Slice& slice : slices) {
        if (!runs_.empty() && runs_.back().rank == slice.rank)
            runs_.back().elements += slice.elements;
        else
            runs_.push_back(slice);
    }
}

// The buffer is used again: the next bucket's copies wait for these reductions; with overlap, which has two buffers, for
// those of the bucket before.
void ZeroOne::close() {
    const Parallelism& p = context_.experiment.parallelism;
    if (runs_.empty()) return;
    Planner planner(graph_);
    planner.compute("bucket_divide", MemoryPass{p.bucket, p.bucket});
    stage_.stamp(planner.take(), p.overlap ? Phase::backward : Phase::gradient_sync);
    const NameId name = graph_.name_id("gradient_reduce");
    const GroupId group = graph_.add_group(context_.data);
    TasksByRank done;
    const TasksByRank ready = stage_.last();
    for (const Slice& run : runs_)
        done = stage_.collective(name, Phase::gradient_sync,
                               graph_.add_op(Reduce{run.elements * size_of(p.gradient_dtype), run.rank}), group,
                               Lane::data, ready);
    sent_.push_back(std::move(done));
    const std::size_t buffers = p.overlap ? 2 : 1;
    if (sent_.size() >= buffers) stage_.follow(sent_[sent_.size() - buffers]);
    runs_.clear();
    filled_ = 0;
}

void ZeroOne::gradients_ready(const std::string& unit) {
    if (ranks() == 1 || !context_.experiment.parallelism.overlap) return;
    for (const ParameterGroup& group : groups_) {
        const auto slices = slices_of(group, ranks());
        for (std::size_t i = 0; i < group.tensors.size(); ++i)
            if (group.tensors[i].unit == unit) add(group.tensors[i], slices[i], Phase::backward);
    }
}

void ZeroOne::finish_gradients() {
    if (ranks() == 1) return;
    if (!context_.experiment.parallelism.overlap)
        for (const ParameterGroup& group : groups_) {
            const auto slices = slices_of(group, ranks());
            for (std::size_t i = 0; i < group.tensors.size(); ++i)
                add(group.tensors[i], slices[i], Phase::gradient_sync);
        }
    close();
    for (const TasksByRank& tasks : sent_) stage_.follow(tasks);
}

namespace {

HostWork reads(double count) { return {HostWork::Kind::read, count}; }

}  // namespace

void ZeroOne::check_finite(Planner& planner) const {
    const Bytes element = size_of(context_.experiment.parallelism.gradient_dtype);
    for (const ParameterGroup& group : groups_) {
        planner.compute("overflow_check", MemoryPass{owned(group) * element, Bytes(0)}, 0);
        planner.host("overflow_read", reads(owned_tensors(group)), true);
    }
    planner.host("overflow_send", reads(1), true);
    planner.collective("overflow_all_reduce", AllReduce{Bytes(4)}, context_.data);
    planner.host("overflow_read", reads(1), true);
}

void ZeroOne::add_norms(Planner& planner) const {
    const Bytes element = size_of(context_.experiment.parallelism.gradient_dtype);
    for (const ParameterGroup& group : groups_) {
        planner.compute("gradient_norm", MemoryPass{owned(group) * element, Bytes(0)}, 0);
        planner.host("norm_read", reads(owned_tensors(group)), true);
        planner.host("norm_send", reads(1), true);
        planner.collective("norm_all_reduce", AllReduce{Bytes(4)}, context_.data);
        planner.host("norm_read", reads(1), true);
    }
}

// Flatten r2 w2, to fp32 r2 w4, unscale r4 w4. LAMB: fp32 gradient, master weight and two moments in, the last three
// out, its update written, read for its norm and applied; then the 16-bit weight is written.
void ZeroOne::update_groups(Planner& planner) const {
    const bool lamb = context_.workload().optimizer == Optimizer::lamb;
    for (const ParameterGroup& group : groups_) {
        const double n = owned(group);
        planner.host("flatten", HostWork{HostWork::Kind::flatten, 1}, false);
        planner.compute("flatten_gradients", MemoryPass{n * Bytes(8), n * Bytes(10)}, 0);
        planner.host("update", HostWork{HostWork::Kind::update, 1}, false);
        planner.compute("optimizer",
                        MemoryPass{n * Bytes(lamb ? 24 : 16), n * Bytes(lamb ? 16 : 12), MemoryPass::Access::optimizer},
                        0);
        planner.compute("half_weights", MemoryPass{n * Bytes(4), n * Bytes(2)}, 0);
    }
}

void ZeroOne::gather_groups(Planner& planner) const {
    for (const ParameterGroup& group : groups_) {
        planner.host("gather", HostWork{HostWork::Kind::gather, 1}, false);
        planner.collective("gather_parameters", AllGather{ranks() * owned(group) * context_.element()}, context_.data);
    }
}

void ZeroOne::update() {
    Planner planner(graph_);
    check_finite(planner);
    add_norms(planner);
    update_groups(planner);
    gather_groups(planner);
    stage_.stamp(planner.take(), Phase::optimizer);
}

}  // namespace stepcast
