#include "sim/memory/flat_tensors.h"

#include <algorithm>
#include <cmath>

#include "sim/memory/memory_use.h"

namespace stepcast {
namespace {

FlatGroup flat_group(double elements, int ranks, int zero) {
    const double block = zero < 3 ? 2.0 * ranks : ranks, all = std::ceil(elements / block) * block;
    return {all, all / ranks};
}

}  // namespace

std::vector<FlatGroup> flat_groups(const LayerContext& c, const RankWeights& trained) {
    const Parallelism& p = c.experiment.parallelism;
    // zero 3 with a pipeline shards no weights
    const bool shared = p.zero < 2 || shards_each_pass(p);
    std::vector<FlatGroup> groups;
    const auto add = [&](double elements, const Group& shard) {
        if (elements > 0) groups.push_back(flat_group(elements, shared ? shard.size() : 1, p.zero));
    };
    add(trained.dense, c.groups.shard);
    add(trained.experts, c.groups.expert_shard);
    return groups;
}

double part_of(const std::vector<FlatGroup>& groups) {
    double part = 0;
    for (const FlatGroup& group : groups) part += group.part;
    return part;
}

double flat_bucket(const LayerContext& c, const RankWeights& trained) {
    const Bytes element = size_of(trained_gradients(c.experiment));
    const BucketSize size = c.experiment.runtime.gradients.bucket;
    return size == BucketSize::one() ? trained.all() : size.bytes(element) / element;
}

int flat_buckets(const Experiment& e) {
    return e.parallelism.zero < 3 && overlaps_gradients(e) ? 2 : 1;
}

std::vector<double> update_pieces(const Experiment& e, double part) {
    const Bytes element = size_of(trained_gradients(e));
    // a group has at least one tensor, of which a layer has some ten
    const double tensor = part / (10 * real(e.workload.layers));
    const double most = e.parallelism.zero == 3
                            ? std::max(tensor, e.runtime.optimizer.part.bytes(element) / element)
                            : part;
    std::vector<double> pieces;
    for (double left = part; left > 0; left -= pieces.back())
        pieces.push_back(most > 0 ? std::min(left, most) : left);
    return pieces;
}

Bytes norm_copy(const LayerContext& c, double part) {
    const int zero = c.experiment.parallelism.zero;
    if (!c.experiment.runtime.optimizer.wide_norm || zero < 1 || zero > 2) return Bytes(0);
    return std::min(part, table_gradient(c) / c.shape.element()) * Bytes(8);
}

bool brings_modules(const LayerContext& c) {
    return brings_each_pass(c) && gathers_by_module(c.experiment);
}

Bytes flat_lasting(const LayerContext& c, const StageWeights& stage) {
    const Experiment& e = c.experiment;
    if (!has_flat_gradients(e) || e.parallelism.zero < 3) return Bytes(0);
    return flat_bucket(c, stage.all) * size_of(trained_gradients(e));
}

// The copy of a bucket, and below zero 3 the buckets. Zero 2: what an earlier micro-batch has left.
// A gradient that does not fit into a bucket waits until the next one comes, and what the logits
// make of a shared table's until the embedding's comes. Zero 1 has all gradients in any case.
Bytes flat_backward(const LayerContext& c, const StageWeights& stage) {
    const Experiment& e = c.experiment;
    if (!has_flat_gradients(e)) return Bytes(0);
    const int zero = e.parallelism.zero;
    const double bucket = flat_bucket(c, stage.all),
                 largest = std::max(stage.matrices.largest, table_gradient(c) / c.shape.element());
    double elements =
        std::min(bucket, stage.all.all()) + (zero == 3 ? 0 : flat_buckets(e) * bucket);
    if (zero > 1 && largest > bucket) elements += largest;
    if (zero > 1 && e.workload.tied) elements += table_gradient(c) / c.shape.element();
    if (zero == 2 && micro_batches(e.parallelism) > 1)
        elements += part_of(flat_groups(c, stage.all));
    return elements * size_of(trained_gradients(e));
}

Bytes flat_update(const LayerContext& c, const StageWeights& stage) {
    const Experiment& e = c.experiment;
    const double part = part_of(flat_groups(c, stage.all));
    const std::vector<double> pieces = update_pieces(e, part);
    const Bytes each = update_copies(e).sum() + update_roots(e),
                copies =
                    std::max(pieces.empty() ? Bytes(0) : pieces.front() * each, norm_copy(c, part));
    if (e.parallelism.zero != 1) return copies;
    const double bucket = flat_bucket(c, stage.all),
                 reduced = part + flat_buckets(e) * bucket + std::min(bucket, stage.all.all());
    return std::max(copies, reduced * size_of(trained_gradients(e)));
}

}  // namespace stepcast
