// Bytes of a parameter in mixed precision with Adam (ZeRO, arXiv 1910.02054, section 3; D ranks
// share what a stage shards):
//   weight 2; gradient 2 or 4 (runtime.gradients.type); fp32 master and two moments 12
// Automatic casting: fp32 weights 4, their 16-bit casts, which the backward reads, 2, moments 8.
// FSDP (runtime.wide_weights): fp32 weights 4, moments 8; 16-bit copies only while they are used.
//   zero 1: 12 / D; zero 2: gradient / D too; zero 3: weight / D too, whole units only while they
//   are used
// PEFT's adapters: fp32 weights 4, gradients 4, moments 8, beside frozen weights 2.
// Without runtime.optimizer.master_weights the moments take 2 each and there is no master. fp32
// training: 4
// + 4 + 8. fp8 and fp4: 16-bit weights, and two narrow copies of each layer's matrices, one for
// each operand order; these alone with runtime.narrow_weights. Experts are sharded over their own
// data-parallel group; with parallelism.shard, over the ranks of that group that hold one copy.

#include "sim/memory/memory_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "model/block/blocks.h"
#include "model/machine/libraries.h"
#include "model/transformer/counts.h"
#include "sim/memory/flat_tensors.h"
#include "sim/memory/memory_use.h"

namespace stepcast {
namespace {

// cuBLAS takes one for each stream, and grouped products run on four streams.
Bytes workspaces(const Experiment& e) { return 4.0 * product_workspace(e.cluster.gpu); }

void add_states(MemoryUse& use, const LayerContext& c, const StageWeights& stage) {
    const Bytes stored = c.shape.element();
    const Experiment& e = c.experiment;
    const Bytes master = casts_weights(e) ? size_of(Dtype::fp32) : Bytes(0);
    const Bytes wide = keeps_wide_weights(e) ? size_of(Dtype::fp32) : Bytes(0);
    const Bytes trained = widens_adapters(e) ? size_of(trained_dtype(e))
                          : wide > Bytes(0)  ? wide + (master > Bytes(0) ? stored : Bytes(0))
                                             : stored;
    if (!keeps_weights_on_host(e)) {
        use.weights = shared_out(c, stage.all, 3) * trained;
        if (e.workload.adapter_rank > 0)
            use.weights += frozen_bytes(c, stage.frozen, stage.layers, stored + master);
    }
    if (is_narrow(c.shape.matrix))
        use.weights +=
            shared_out(c, stage.layers, 3) *
            (2.0 * size_of(c.shape.matrix) - (keeps_narrow_alone(c) ? trained : Bytes(0)));
    if (!sends_gradients_to_host(e))
        use.gradients = shared_out(c, stage.all, 2) * size_of(trained_gradients(e));
    if (e.run.offload_optimizer) return;
    const bool own_master = e.runtime.optimizer.master_weights && !widens_adapters(e);
    use.optimizer = shared_out(c, stage.all, 1) * (optimizer_bytes(e, size_of(trained_dtype(e))) -
                                                   (own_master ? wide : Bytes(0)));
    if (e.workload.optimizer == Optimizer::muon)
        use.optimizer -= shared_out(c, stage.layers, 1) * 0.5 * moment_bytes(e, stored);
}

// Automatic differentiation wants a gradient in the weights' dtype for each matrix. With fused
// accumulation (Transformer Engine) a dummy is kept for each distinct shape; otherwise the largest
// such gradient exists for a moment. Frozen matrices have none.
Bytes matrix_gradients(const LayerContext& c, const StageWeights& stage) {
    if (c.experiment.workload.adapter_rank > 0) return Bytes(0);
    return (c.experiment.runtime.gradients.fused_accumulation ? stage.matrices.sum
                                                              : stage.matrices.largest) *
           c.shape.element();
}

// Data parallelism of eager passes keeps reduction buckets in the weights' dtype, with one element
// for every parameter. They come on top if gradients are accumulated in fp32. Seen in nanotron's
// peaks: ranks with replicas hold 2 bytes a parameter more than ranks without (8.9 GB and 1.3 GB
// models, tensor parallel over 8 and 16).
Bytes reduction_buckets(const LayerContext& c, const StageWeights& stage) {
    const Parallelism& p = c.experiment.parallelism;
    const bool widened = size_of(gradient_type(c.experiment)) > c.shape.element() &&
                         !c.experiment.runtime.gradients.fused_accumulation;
    if (!is_eager(c.experiment) || !widened || p.zero > 0 || c.groups.data_context.size() == 1)
        return Bytes(0);
    return stage.all.all() * c.shape.element();
}

// zero 2: one bucket that is being filled and one in flight; a bucket closes at the end of the unit
// that fills it. zero 3: the gathered weights of the unit in use and of the next, and the whole
// gradients of two units, one being computed and one in flight.
Bytes sharding_buffers(const LayerContext& c, const StageWeights& stage) {
    const Parallelism& p = c.experiment.parallelism;
    const bool by_unit = brings_each_pass(c) && p.zero == 3 && !brings_modules(c);
    const Bytes gathered = by_unit ? 2.0 * stage.largest_gathered * c.shape.element() : Bytes(0);
    if (has_flat_gradients(c.experiment)) return flat_lasting(c, stage) + gathered;
    if (!brings_each_pass(c)) return Bytes(0);
    const Bytes gradients = in_common(c, stage.all) * size_of(trained_gradients(c.experiment));
    const Bytes bucket = stage.largest_unit * size_of(trained_gradients(c.experiment));
    if (p.zero == 2) {
        // one bucket for all is of zero 0 and 1: gradients go while the backward runs
        const bool one = c.experiment.runtime.gradients.bucket == BucketSize::one();
        const Bytes filled = one ? Bytes(0) : bucket_bytes(c.experiment);
        return std::min(2.0 * std::max(filled, bucket), gradients);
    }
    return gathered + std::min(2.0 * bucket, gradients);
}

// What a backward adds to the activations: flat tensors, copies of fp32 weights, and what modules
// have gathered: those of its layer and the next, a shared table, and the layers that stay until
// their backward, of whose weights reuse_distance counts each twice.
Bytes backward_buffers(const LayerContext& c, const StageWeights& stage) {
    const Experiment& e = c.experiment;
    Bytes all = flat_backward(c, stage);
    if (makes_casts(e) && !casts_weights(e)) all += shared_out(c, stage.all, 3) * c.shape.element();
    if (brings_modules(c))
        all +=
            std::min(stage.all.all(), 0.5 * e.runtime.reuse_distance + 3 * stage.largest_gathered) *
            c.shape.element();
    return all;
}

// What waits for a layer's backward on the device, of `kept` bytes.
Bytes waiting(const Experiment& e, Bytes kept) {
    return e.run.offload_activations == ActivationOffload::none ? kept : Bytes(0);
}

// What the last layers keep and is still on its way to the host when the head runs: of recomputed
// ones an input each, of others fewer tensors than a layer keeps.
Bytes leaving(const Experiment& e, const Chunk& chunk, const LayerMemory& last, bool recomputed) {
    if (e.run.offload_activations != ActivationOffload::overlapped) return Bytes(0);
    return recomputed ? real(std::min(tensors_leaving, chunk.last - chunk.first)) * last.rerun
                      : last.kept();
}

// An update in steps holds copies of the gradients that a rank updates, beside these
// (flat_tensors.h), and before the second step buckets are there twice (lifetimes.cpp). No
// activations are there then.
Bytes update_tensors(const LayerContext& c, const StageWeights& stage) {
    const Experiment& e = c.experiment;
    const Bytes update = has_flat_gradients(e) ? flat_update(c, stage)
                                               : shared_out(c, stage.all, 1) *
                                                     (update_copies(e).sum() + update_roots(e));
    return std::max(update, reduction_buckets(c, stage));
}

// Between stages, one tensor arrives and one leaves.
Bytes pipeline_buffers(const LayerContext& c) {
    return c.experiment.parallelism.pp > 1 ? 2.0 * c.shape.outer() : Bytes(0);
}

}  // namespace

// Norms count with the linear layers.
Bytes frozen_bytes(const LayerContext& c, const RankWeights& frozen, const RankWeights& in_layers,
                   Bytes stored) {
    const double packed = packed_bytes(c.experiment.workload);
    const RankWeights linear{packed > 0 ? in_layers.dense : 0, 0};
    // PEFT casts what is not packed (prepare_model_for_kbit_training)
    if (packed > 0 && widens_adapters(c.experiment))
        stored = std::max(stored, size_of(Dtype::fp32));
    return shared_out(c, {frozen.dense - linear.dense, frozen.experts}, 3) * stored +
           shared_out(c, linear, 3) * Bytes(packed);
}

bool keeps_narrow_alone(const LayerContext& c) {
    const Experiment& e = c.experiment;
    return is_narrow(c.shape.matrix) && e.runtime.narrow_weights && e.workload.adapter_rank == 0 &&
           !has_flat_gradients(e) && !keeps_weights_on_host(e);
}

double in_common(const LayerContext& c, const RankWeights& weights) {
    const int alone = keeps_weights_on_host(c.experiment) ? 0 : 1;
    return (c.groups.shard.size() > alone ? weights.dense : 0) +
           (c.groups.expert_shard.size() > alone ? weights.experts : 0);
}

bool brings_each_pass(const LayerContext& c) {
    return shards_each_pass(c.experiment.parallelism) &&
           (c.groups.data_context.size() > 1 || keeps_weights_on_host(c.experiment));
}

void add_units(StageWeights& stage, const LayerContext& c, int count, const UnitWeights& unit) {
    if (count == 0) return;
    stage.all += count * unit.trained;
    stage.frozen += count * unit.frozen;
    stage.largest_unit = std::max(stage.largest_unit, in_common(c, unit.trained));
    const double gathered = brings_modules(c)
                                ? unit.trained.all()
                                : in_common(c, unit.trained) + in_common(c, unit.frozen);
    stage.largest_gathered = std::max(stage.largest_gathered, gathered);
}

namespace {

// Eager passes with wide gradients add those of a micro-batch to them when its backward has ended,
// unless they are sharded while it runs. Layers whose products add to the wide ones have none of
// their own.
bool gradients_pass(const LayerContext& c, std::size_t kind) {
    const Gradients& gradients = c.experiment.runtime.gradients;
    return is_eager(c.experiment) && !gradients.freed &&
           size_of(gradient_type(c.experiment)) > c.shape.element() &&
           !(gradients.fused_accumulation && is_layer(kind));
}
bool gradients_pass(const Experiment& e) {
    const bool sharded = shards_each_pass(e.parallelism) &&
                         (ranks_of_weights(e.parallelism) > 1 || keeps_weights_on_host(e));
    return !sharded && !has_flat_gradients(e);
}

}  // namespace

UnitMemory unit_memory(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    UnitMemory units{{},
                     embedding_memory(c),
                     head_memory(c),
                     {UnitWeights{}, {}, embedding_weights(c), head_weights(c), {}, {}},
                     {},
                     {}};
    std::map<std::size_t, int> first;  // layer of each kind
    for (int l = 0; l < w.layers; ++l) first.try_emplace(at(kind_of_layer(w, l)), l);
    std::size_t all_there = 0;
    if (gradients_pass(c, at(UnitKind::head)))
        units.passing[at(UnitKind::head)] = table_gradient(c);
    for (const auto& [kind, l] : first) {
        if (gradients_pass(c, kind))
            units.passing[kind] = layer_weights(c, l).trained.all() * c.shape.element();
        units.layers[kind] = layer_memory(c, l);
        units.weights[kind] = layer_weights(c, l);
        all_there |= std::size_t{1} << kind;
    }
    for (std::size_t there = all_there; there > 0; there = (there - 1) & all_there) {
        std::set<Matrix> matrices;
        for (const auto& [kind, l] : first)
            if (there >> kind & 1)
                for (const Matrix& matrix : layer_matrices(c, l)) matrices.insert(matrix);
        UnitMemory::Matrices& all = units.matrices[there];
        for (const Matrix& matrix : matrices) {
            all.sum += matrix.elements();
            all.largest = std::max(all.largest, matrix.elements());
        }
    }
    return units;
}

UnitKind kind_of_layer(const Workload& w, int layer) {
    if (has_attention(w, layer)) return has_experts(w, layer) ? UnitKind::experts : UnitKind::dense;
    return has_experts(w, layer) ? UnitKind::delta_experts : UnitKind::delta_dense;
}

UnitCounts units_of(const Workload& w, std::span<const Chunk> chunks) {
    UnitCounts counts{};
    for (const Chunk& chunk : chunks) {
        counts[at(UnitKind::embedding)] += chunk.embedding;
        counts[at(UnitKind::head)] += chunk.head;
        for (int l = chunk.first; l < chunk.last - (chunk.ends_inside ? 1 : 0); ++l)
            ++counts[at(kind_of_layer(w, l))];
    }
    return counts;
}

// The narrow copies are of the matrices that products read. Adapters stay in 16 bits, so with
// adapters only frozen matrices have them.
StageWeights weights_of(const LayerContext& c, const UnitMemory& units, const UnitCounts& counts) {
    const bool adapted = c.experiment.workload.adapter_rank > 0;
    StageWeights stage;
    std::size_t there = 0;
    for (std::size_t k = 0; k < unit_kinds; ++k) {
        add_units(stage, c, counts[k], units.weights[k]);
        if (!is_layer(k) || counts[k] == 0) continue;
        stage.layers += counts[k] * (adapted ? units.weights[k].frozen : units.weights[k].trained);
        there |= std::size_t{1} << k;
    }
    stage.matrices = units.matrices[there];
    return stage;
}

namespace {

// A chunk's backward, from its last unit to its first.
class BackwardWalk {
public:
    BackwardWalk(const UnitMemory& units, const Experiment& e, const Chunk& chunk)
        : units_(units), e_(e), chunk_(chunk), pass_(gradients_pass(e)) {
        memory_.kept = ends() + rest();
        for (int l = chunk.first; l < chunk.last; ++l) memory_.kept += kept_until(l);
        left_ = half_ = memory_.kept;
    }

    ChunkMemory walk() {
        if (chunk_.head) pass_head();
        for (int l = chunk_.last; l-- > chunk_.first;) pass(l);
        left_ -= rest();
        memory_.put_off = half_;
        half_ = left_;  // the last moment of the weight gradients
        if (chunk_.embedding) at(units_.embedding.work);
        return memory_;
    }

private:
    [[nodiscard]] bool again(int layer) const {
        return recomputes_layers(e_.parallelism) && layer < chunk_.again;
    }
    [[nodiscard]] std::size_t kind(int layer) const {
        return stepcast::at(kind_of_layer(e_.workload, layer));
    }
    [[nodiscard]] const LayerMemory& unit(int layer) const { return units_.layers[kind(layer)]; }
    [[nodiscard]] Bytes ends() const {
        return (chunk_.embedding ? units_.embedding.kept : Bytes(0)) +
               (chunk_.head ? units_.head.kept : Bytes(0));
    }
    // of a layer that a cut goes through
    [[nodiscard]] Bytes rest() const {
        return chunk_.begins_inside ? unit(chunk_.first - 1).feed_forward.kept : Bytes(0);
    }
    [[nodiscard]] Bytes kept_until(int layer) const {
        return waiting(e_, again(layer) ? unit(layer).rerun : unit(layer).kept());
    }

    void at(Bytes work) {
        consider(memory_.whole, {left_, work + passing_});
        consider(memory_.half, {half_, work + passing_});
    }
    void add_passing(std::size_t kind) {
        if (pass_) passing_ += units_.passing[kind];
    }
    void pass_head() {
        const int last = chunk_.last - 1;
        at(units_.head.work +
           (last < chunk_.first ? Bytes(0) : leaving(e_, chunk_, unit(last), again(last))));
        left_ -= units_.head.kept;
        add_passing(stepcast::at(UnitKind::head));
    }
    void pass(int l) {
        const LayerMemory& layer = unit(l);
        // Beside what its operators keep: what an alternate recompute has kept, or an input that
        // came from the host; the next layer's comes meanwhile.
        const bool moved = e_.run.offload_activations != ActivationOffload::none,
                   alternate = e_.parallelism.recompute == Recompute::alternate;
        const Bytes beside = again(l) && (moved || alternate) ? layer.rerun : Bytes(0),
                    next = again(l) && moved ? layer.rerun : Bytes(0),
                    made = layer.kept() - kept_until(l) + beside;
        add_passing(kind(l));
        left_ += made;
        half_ += made;
        at(layer.feed_forward.work + next);
        left_ -= layer.feed_forward.kept;
        at(layer.attention.work + next);
        left_ -= layer.attention.kept + beside;
        half_ += layer.put_off - layer.kept() - beside;
    }

    const UnitMemory& units_;
    const Experiment& e_;
    const Chunk& chunk_;
    const bool pass_;
    ChunkMemory memory_;
    Bytes left_, half_, passing_;
};

}  // namespace

// A block's tensors are freed when its backward ends; in the first half of a split backward those
// that the weight gradients read stay. A recomputed layer makes all its tensors again, except its
// kept input. If a cut goes through a layer, both of its stages keep the inner tensors.
ChunkMemory chunk_memory(const UnitMemory& units, const Experiment& e, const Chunk& chunk) {
    return BackwardWalk(units, e, chunk).walk();
}

MemoryUse memory_of(const LayerContext& c, const StageWeights& weights, const Activations& of,
                    Bytes process) {
    const Experiment& e = c.experiment;
    const Activations moment{of.kept, of.work + backward_buffers(c, weights)};
    MemoryUse use;
    add_states(use, c, weights);
    use.activations = moment.kept;
    use.buffers = moment.work + workspaces(e) + matrix_gradients(c, weights) +
                  reduction_buckets(c, weights) + sharding_buffers(c, weights) +
                  pipeline_buffers(c);
    // Gradients that are freed after the update exist when the backward has ended, activations when
    // it begins.
    const bool freed = frees_gradients(e) && micro_batches(e.parallelism) == 1;
    const Bytes update = update_tensors(c, weights), arrive = freed ? use.gradients : Bytes(0);
    if (arrive + update > moment.sum()) {
        use.activations = {};
        use.buffers += update - moment.work;
    } else if (freed) {
        use.gradients = {};
    }
    return summed_up(use, e, process);
}

}  // namespace stepcast
