#include "sim/memory/memory_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "model/block/blocks.h"
#include "model/machine/libraries.h"
#include "model/transformer/counts.h"
#include "sim/memory/flat_tensors.h"
#include "sim/memory/weight_tensors.h"

namespace stepcast {
namespace {

// cuBLAS takes one for each stream, and grouped products run on four streams.
Bytes workspaces(const Experiment& e) { return 4.0 * product_workspace(e.cluster.gpu); }

void add_states(MemoryUse& use, const LayerContext& c, const StageWeights& stage) {
    for_weight_tensors<false>(c, [&](const WeightTensors& row) {
        if (row.each <= Bytes(0)) return;
        Bytes& sum = row.kind == TensorKind::weights     ? use.weights
                     : row.kind == TensorKind::gradients ? use.gradients
                                                         : use.optimizer;
        const RankWeights of =
            row.of == WeightTensors::Of::trained ? stage.all : elements_of(c, row.of, stage);
        sum += row.copies * shared_out(c, of, row.from) * row.each;
        if (row.copies != row.copies_in_layers)
            sum -= (row.copies - row.copies_in_layers) * shared_out(c, stage.layers, row.from) *
                   row.each;
    });
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

Bytes reduction_buckets(const LayerContext& c, const StageWeights& stage) {
    return stage.all.all() * reducer_element(c);
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
// have gathered: those of its layer and the next, a shared table, and as many as reuse_distance,
// which stay or are gathered ahead.
Bytes backward_buffers(const LayerContext& c, const StageWeights& stage) {
    const Experiment& e = c.experiment;
    Bytes all = flat_backward(c, stage);
    if (makes_casts(e) && !casts_weights(e)) all += shared_out(c, stage.all, 3) * c.shape.element();
    if (brings_modules(c))
        all += std::min(stage.all.all(), e.runtime.reuse_distance + 3 * stage.largest_gathered) *
               c.shape.element();
    return all;
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

Bytes reducer_element(const LayerContext& c) {
    const Experiment& e = c.experiment;
    const Gradients& gradients = e.runtime.gradients;
    if (e.parallelism.zero > 0 || c.groups.data_context.size() == 1 || gradients.fused_accumulation)
        return Bytes(0);
    if (gradients.freed) return gradients.copies.empty() ? size_of(trained_gradients(e)) : Bytes(0);
    const bool widened = size_of(gradient_type(e)) > c.shape.element();
    return is_eager(e) && widened ? c.shape.element() : Bytes(0);
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

StageWeights weights_of(const LayerContext& c, const UnitMemory& units, const UnitCounts& counts) {
    StageWeights stage;
    std::size_t there = 0;
    for (std::size_t k = 0; k < unit_kinds; ++k) {
        add_units(stage, c, counts[k], units.weights[k]);
        if (!is_layer(k) || counts[k] == 0) continue;
        stage.layers += counts[k] * units.weights[k].trained;
        stage.frozen_layers += counts[k] * units.weights[k].frozen;
        there |= std::size_t{1} << k;
    }
    stage.matrices = units.matrices[there];
    return stage;
}

namespace {

// A layer of a chunk. Beside what its operators keep: what an alternate recompute has kept, or an
// input that came from the host; the next layer's comes meanwhile.
struct LayerOfChunk {
    const LayerMemory& memory;
    std::size_t kind = 0;
    Bytes until_backward, beside, next;
};
struct LayersOfChunk {
    const UnitMemory& units;
    const Experiment& e;
    const Chunk& chunk;
    const bool recomputes = recomputes_layers(e.parallelism),
               moved = e.run.offload_activations != ActivationOffload::none,
               alternate = e.parallelism.recompute == Recompute::alternate;

    LayerOfChunk operator()(int l) const {
        const std::size_t kind = at(kind_of_layer(e.workload, l));
        const LayerMemory& memory = units.layers[kind];
        const bool again = recomputes && l < chunk.again;
        const Bytes rerun = again ? memory.rerun : Bytes(0);
        return {memory, kind,
                moved   ? Bytes(0)
                : again ? rerun
                        : memory.kept(),
                moved || alternate ? rerun : Bytes(0), moved ? rerun : Bytes(0)};
    }
};

// What the last layers keep and is still on its way to the host when the head runs: of recomputed
// ones an input each, of others fewer tensors than a layer keeps.
Bytes leaving(const Experiment& e, const Chunk& chunk, const LayerOfChunk& last) {
    if (e.run.offload_activations != ActivationOffload::overlapped) return Bytes(0);
    return last.next > Bytes(0)
               ? real(std::min(tensors_leaving, chunk.last - chunk.first)) * last.next
               : last.memory.kept();
}

}  // namespace

// A block's tensors are freed when its backward ends; in the first half of a split backward those
// that the weight gradients read stay. A recomputed layer makes all its tensors again, except its
// kept input. If a cut goes through a layer, both of its stages keep the inner tensors.
ChunkMemory chunk_memory(const UnitMemory& units, const Experiment& e, const Chunk& chunk) {
    const LayersOfChunk layer{units, e, chunk};
    const Bytes rest =
        chunk.begins_inside ? layer(chunk.first - 1).memory.feed_forward.kept : Bytes(0);
    ChunkMemory memory;
    memory.kept = (chunk.embedding ? units.embedding.kept : Bytes(0)) +
                  (chunk.head ? units.head.kept : Bytes(0)) + rest;
    for (int l = chunk.first; l < chunk.last; ++l) memory.kept += layer(l).until_backward;
    Bytes left = memory.kept, half = memory.kept, passing;
    const auto at_work = [&](Bytes work) {
        consider(memory.whole, {left, work + passing});
        consider(memory.half, {half, work + passing});
    };
    const bool adds = gradients_pass(e);
    const auto pass = [&](std::size_t kind) {
        if (adds) passing += units.passing[kind];
    };
    if (chunk.head) {
        const bool alone = chunk.first == chunk.last;
        at_work(units.head.work + (alone ? Bytes(0) : leaving(e, chunk, layer(chunk.last - 1))));
        left -= units.head.kept;
        pass(at(UnitKind::head));
    }
    for (int l = chunk.last; l-- > chunk.first;) {
        const LayerOfChunk of = layer(l);
        const Bytes kept = of.memory.kept(), made = kept - of.until_backward + of.beside;
        pass(of.kind);
        left += made;
        half += made;
        at_work(of.memory.feed_forward.work + of.next);
        left -= of.memory.feed_forward.kept;
        at_work(of.memory.attention.work + of.next);
        left -= of.memory.attention.kept + of.beside;
        half += of.memory.put_off - kept - of.beside;
    }
    left -= rest;
    memory.put_off = half;
    half = left;  // the last moment of the weight gradients
    if (chunk.embedding) at_work(units.embedding.work);
    return memory;
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
