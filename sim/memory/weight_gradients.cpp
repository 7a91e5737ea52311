#include "sim/memory/weight_gradients.h"

#include <algorithm>
#include <cmath>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/transformer/rank_shape.h"

namespace stepcast {

// of torch.distributed's first bucket (_DEFAULT_FIRST_BUCKET_BYTES), so that it leaves early
static constexpr double first_bucket = 1 * mebibyte;

bool adds_up_whole(const LayerContext& c) {
    const Experiment& e = c.experiment;
    return e.parallelism.pp > 1 && e.parallelism.zero >= 2 && c.groups.shard.size() > 1 &&
           e.runtime.weight_shards == WeightShards::dtensors && frees_each_step(e);
}

// The unit is an end of the model whose weights are the other end's, too: what the logits make of
// their gradient waits for the embedding's.
bool WeightGradients::shares_table(const OperatorTape& op) const {
    return e_.workload.tied && e_.parallelism.pp == 1 && tensors_.layer < 0 &&
           real(op.weight_gradient) == std::ceil(table_gradient(c_).si());
}

void WeightGradients::add(const OperatorTape& op, const UnitTape& unit) {
    const auto bytes = real(op.weight_gradient);
    const Bytes element = c_.shape.element();
    const bool of_table = shares_table(op);
    const auto pass = [&] { return tensors_.make(TensorKind::work, op.what, bytes); };
    if (flat_ && flat_->add(op.what, bytes / element.si(), of_table && unit.what == "head")) return;
    if (brings_each_pass(c_) || adds_up_whole(c_)) {
        of_unit_.push_back(pass());
    } else if (frees_each_step(e_)) {
        const auto key = std::pair{tensors_.layer, of_table ? "table" : op.what};
        if (own_.contains(key)) return tensors_.free(pass());
        own_[key] = tensors_.make(TensorKind::gradients, op.what,
                                  bytes * (size_of(trained_gradients(e_)) / element));
    } else if (e_.runtime.gradients.fused_accumulation && tensors_.layer >= 0) {
        // a dummy for each shape; experts have one for all
        const double one = bytes / real(op.weight_tensors);
        if (dummies_.insert(std::llround(one)).second)
            tensors_.make(TensorKind::work, "weight gradient", one);
    } else if (is_eager(e_) && size_of(gradient_type(e_)) > element) {
        // added to the wide ones when the backward has ended
        passing_.push_back(pass());
    } else {
        tensors_.free(pass());
    }
}

void WeightGradients::end_unit(const UnitTape& unit) {
    if (flat_) return;
    if (brings_each_pass(c_)) reduce(unit);
    if (adds_up_whole(c_)) accumulate(unit);
}

void WeightGradients::end_backward() {
    if (flat_) flat_->end_backward();
    tensors_.free(passing_);
}

// The first micro-batch's are cast one after another, later ones are added to these (torch 2.11,
// _fully_shard/_fsdp_param.py: to_accumulated_grad_if_needed).
void WeightGradients::accumulate(const UnitTape& unit) {
    TensorIds& whole = whole_[{tensors_.layer, unit.what}];
    const bool first = whole.empty();
    const double widened = size_of(trained_gradients(e_)) / c_.shape.element();
    for (const TensorId id : of_unit_) {
        const auto bytes = real(tensors_.out.tensors[id].bytes);
        if (first && widened == 1) tensors_.free(id);  // it is the one that stays
        if (first)
            whole.push_back(tensors_.make(TensorKind::gradients, unit.what, bytes * widened));
        if (!first || widened != 1) tensors_.free(id);
    }
    of_unit_.clear();
}

// Automatic differentiation puts FSDP 1's views together on the stream on which their unit was
// gathered (torch 2.11, distributed/fsdp/_runtime_utils.py: _unshard).
static std::uint8_t unit_stream(const Experiment& e) {
    return e.runtime.weight_shards == WeightShards::flat ? gather_stream : std::uint8_t{0};
}

// A unit's gradients are copied into one tensor, once the one before it has gone; of the reduced
// the rank's piece stays or is added to an earlier one (torch 2.11, _fully_shard/
// _fsdp_param_group.py: post_backward; _fsdp_collectives.py: foreach_reduce).
void WeightGradients::reduce(const UnitTape& unit) {
    RankWeights weights = unit.weights.trained;
    if (root_ && tensors_.layer < 0) {
        root_weights_ += weights;
        append(of_root_, std::exchange(of_unit_, {}));
        if (unit.what == "head") return;
        weights = std::exchange(root_weights_, {});
        std::swap(of_unit_, of_root_);
    }
    const double elements = in_common(c_, weights);
    if (elements == 0) return tensors_.free(of_unit_);
    const Bytes type = size_of(trained_gradients(e_));
    tensors_.free(in_flight_);
    in_flight_.push_back(
        tensors_.make(TensorKind::exchanged, "gradients", elements * type.si(), unit_stream(e_)));
    tensors_.free(of_unit_);
    keep_piece(unit, weights, type);
}

// Of fp32 weights the piece is cast to their type (_to_dtype_if_needed(reduce_output, orig_dtype)).
// A pipeline shares pieces out in the end alone.
void WeightGradients::keep_piece(const UnitTape& unit, const RankWeights& weights, Bytes type) {
    const double piece = shared_out(c_, weights, adds_up_whole(c_) ? 1 : 2);
    const Bytes kept = keeps_wide_weights(e_) ? std::max(type, Bytes(4)) : type;
    const auto key = std::pair{tensors_.layer, unit.what};
    const bool stays = frees_each_step(e_) && !own_.contains(key);
    TensorIds reduced;
    if (!stays || kept != type)
        reduced = {
            tensors_.make(TensorKind::exchanged, "gradients", piece * type.si(), reduce_stream)};
    if (stays)
        own_[key] =
            tensors_.make(TensorKind::gradients, unit.what, piece * kept.si(), reduce_stream);
    tensors_.free(reduced);
}

void WeightGradients::reduce_whole(const UnitTape& unit) {
    const auto found = whole_.find({tensors_.layer, unit.what});
    if (found == whole_.end()) return;
    of_unit_ = std::move(found->second);
    whole_.erase(found);
    reduce(unit);
}

TensorIds WeightGradients::take_own() {
    TensorIds ids;
    for (const auto& [key, id] : own_) ids.push_back(id);
    own_.clear();
    return ids;
}

void WeightGradients::end_update() {
    TensorIds ids = take_own();
    tensors_.free(ids);
}

void ReducerBuckets::make(const TensorList& elements) {
    const double each = reducer_element(c_).si();
    double filled = 0, most = first_bucket;
    const auto close = [&] {
        if (filled > 0) buckets_.push_back(tensors_.make(TensorKind::gradients, "buckets", filled));
        filled = 0;
        most = bucket_bytes(c_.experiment).si();
    };
    for (auto matrix = elements.rbegin(); matrix != elements.rend(); ++matrix) {
        filled += real(*matrix) * each;
        if (filled >= most) close();
    }
    close();
}

void ReducerBuckets::rebuild(const TensorList& elements) {
    TensorIds old = std::exchange(buckets_, {});
    make(elements);
    tensors_.free(old);
}

}  // namespace stepcast
