// Bytes of a parameter of mixed precision with Adam (ZeRO, arXiv 1910.02054, section 3; D ranks share what a stage shards):
//   weight 2; gradient 2 or 4 (parallelism.gradient_dtype); fp32 master and two moments 12
//   zero 1: 12 / D; zero 2: gradient / D too; zero 3: weight / D too, whole units only while they are used
// fp32 training: 4 + 4 + 8. fp8: 16-bit weights, and of each layer's matrices a copy in fp8 for either operand order.
// Experts are sharded over their own data-parallel group.
#include "sim/transformer_memory.h"

#include <algorithm>
#include <set>

#include "model/pipeline/schedule.h"
#include "model/transformer/pieces.h"
#include "model/transformer/weights.h"
#include "sim/layer_memory.h"

namespace stepcast {
namespace {

// cuBLAS takes 32 MiB a stream on current devices; grouped products run on four.
const Bytes workspaces = parse_bytes("128 MiB");

// What happens to memory while a slot of a piece runs, above what other slots left: `kept` stays after the forward;
// the backward peaks at `backward_kept` + `backward_work`.
struct PieceMemory {
    Bytes kept, backward_kept, backward_work;
};

// One stage being summed up.
struct StageMemory {
    RankWeights weights, layer_weights, largest_unit;
    std::vector<PieceMemory> pieces;
    std::set<Matrix> matrices;
    void count(const RankWeights& unit) {
        weights += unit;
        if (unit.dense + unit.experts > largest_unit.dense + largest_unit.experts) largest_unit = unit;
    }
};

// A point of the backward: what is kept until then, and what it needs beside.
void consider(PieceMemory& piece, Bytes kept, Bytes work) {
    if (kept + work <= piece.backward_kept + piece.backward_work) return;
    piece.backward_kept = kept;
    piece.backward_work = work;
}

// A layer that the cut opens counts its inner tensors on both stages, which keep them both.
// Walks the backward of a piece from its last unit to its first; each block's tensors go when it is done. A layer that is
// computed again comes to life whole, its input being there.
PieceMemory piece_memory(const LayerContext& c, const Piece& piece, int layers_before) {
    const Parallelism& p = c.experiment.parallelism;
    const auto again = [&](int layer) {
        const int of_stage = layers_before + layer - piece.first;
        return p.recompute == Recompute::full && (p.recompute_layers == 0 || of_stage < p.recompute_layers);
    };
    const BlockMemory embedding = piece.embedding ? embedding_memory(c) : BlockMemory{};
    const BlockMemory head = piece.head ? head_memory(c) : BlockMemory{};
    PieceMemory memory;
    memory.kept = embedding.kept + head.kept;
    const Bytes rest = piece.begins_inside ? layer_memory(c, piece.first - 1).feed_forward.kept : Bytes(0);
    memory.kept += rest;
    for (int l = piece.first; l < piece.last; ++l) memory.kept += again(l) ? layer_input(c) : layer_memory(c, l).kept();
    Bytes left = memory.kept;
    consider(memory, left, head.work);
    left -= head.kept;
    for (int l = piece.last; l-- > piece.first;) {
        const LayerMemory layer = layer_memory(c, l);
        if (again(l)) left += layer.kept() - layer_input(c);
        consider(memory, left, layer.feed_forward.work);
        left -= layer.feed_forward.kept;
        consider(memory, left, layer.attention.work);
        left -= layer.attention.kept;
    }
    left -= rest;
    consider(memory, left, embedding.work);
    return memory;
}

StageMemory stage_memory(const LayerContext& c, int stage) {
    const Parallelism& p = c.experiment.parallelism;
    StageMemory memory;
    memory.pieces.resize(static_cast<std::size_t>(pieces_per_stage(p)));
    int layers = 0;
    for (int direction = 0; direction < directions(p); ++direction)
        for (const Piece& piece : pieces_of(c.experiment.workload, p, direction)) {
            if (piece.stage != stage) continue;
            memory.pieces[static_cast<std::size_t>(piece.index)] = piece_memory(c, piece, layers);
            layers += piece.last - piece.first;
            if (piece.embedding) memory.count(embedding_weights(c));
            if (piece.head) memory.count(head_weights(c));
            if (piece.begins_inside) memory.count(rest_weights(c));
            for (int l = piece.first; l < piece.last; ++l) {
                const bool opened = piece.ends_inside && l + 1 == piece.last;
                memory.count(opened ? opened_weights(c, l) : layer_weights(c, l));
                memory.layer_weights += layer_weights(c, l);
                for (const Matrix& matrix : layer_matrices(c, l)) memory.matrices.insert(matrix);
            }
        }
    return memory;
}

// The fullest moment of the order: activations that wait, and the work of the slot that runs.
struct Moment {
    Bytes activations, work;
};
Moment fullest_moment(const Order& order, const std::vector<PieceMemory>& pieces) {
    Moment fullest;
    Bytes now;
    const auto consider = [&](Bytes activations, Bytes work) {
        if (activations + work > fullest.activations + fullest.work) fullest = {activations, work};
    };
    for (const Slot& slot : order) {
        const PieceMemory& piece = pieces[static_cast<std::size_t>(slot.piece)];
        if (slot.pass == Pass::forward)
            consider(now += piece.kept, Bytes(0));
        else
            consider(now - piece.kept + piece.backward_kept, piece.backward_work);
        if (slot.pass == Pass::backward || slot.pass == Pass::weight_backward) now -= piece.kept;
    }
    return fullest;
}

// Adam's master weight and moments; plain SGD the master alone.
Bytes optimizer_bytes(const Workload& w, Bytes stored) {
    const Bytes master = stored < Bytes(4) ? Bytes(4) : Bytes(0);
    switch (w.optimizer) {
        case Optimizer::none: return Bytes(0);
        case Optimizer::sgd: return master;
        case Optimizer::adam:
        case Optimizer::lamb: return master + Bytes(8);
    }
    return Bytes(0);
}

// Elements that are left when a state is sharded from ZeRO stage `from` on.
double shared_out(const LayerContext& c, const RankWeights& weights, int from) {
    const int zero = c.experiment.parallelism.zero;
    if (zero < from) return weights.dense + weights.experts;
    const int dense = zero == 3 ? c.groups.shard.size() : c.groups.data_context.size();
    return weights.dense / dense + weights.experts / c.groups.expert_data.size();
}

void add_states(MemoryUse& use, const LayerContext& c, const StageMemory& stage) {
    const Workload& w = c.experiment.workload;
    const Bytes stored = c.shape.element();
    use.weights = shared_out(c, stage.weights, 3) * stored;
    if (c.shape.matrix == Dtype::fp8) use.weights += shared_out(c, stage.layer_weights, 3) * 2.0 * size_of(Dtype::fp8);
    use.gradients = shared_out(c, stage.weights, 2) * size_of(c.experiment.parallelism.gradient_dtype);
    use.optimizer = shared_out(c, stage.weights, 1) * optimizer_bytes(w, stored);
}

// A gradient in the weights' dtype that the framework's automatic differentiation wants for each matrix: with fused
// accumulation a stand-in that is kept for each distinct shape (Transformer Engine), else the largest for a moment.
Bytes matrix_gradients(const LayerContext& c, const StageMemory& stage) {
    double all = 0, largest = 0;
    for (const Matrix& matrix : stage.matrices) {
        all += matrix.elements();
        largest = std::max(largest, matrix.elements());
    }
    return (c.experiment.parallelism.fused_accumulation ? all : largest) * c.shape.element();
}

// zero 2: one bucket filling and one on its way, a bucket closing with the unit that fills it. zero 3: the unit in use
// and the next, gathered, and two units' whole gradients, one being computed and one on its way.
Bytes sharding_buffers(const LayerContext& c, const StageMemory& stage) {
    const Parallelism& p = c.experiment.parallelism;
    if (p.zero < 2 || c.groups.data_context.size() == 1) return Bytes(0);
    const double unit = stage.largest_unit.dense + stage.largest_unit.experts;
    const Bytes gradients = (stage.weights.dense + stage.weights.experts) * size_of(p.gradient_dtype);
    const Bytes bucket = unit * size_of(p.gradient_dtype);
    if (p.zero == 2) return std::min(2.0 * std::max(p.bucket, bucket), gradients);
    return 2.0 * unit * c.shape.element() + std::min(2.0 * bucket, gradients);
}

// Between stages: one tensor on its way in, one on its way out.
Bytes pipeline_buffers(const LayerContext& c) {
    return c.experiment.parallelism.pp > 1 ? 2.0 * c.shape.outer() : Bytes(0);
}

std::vector<Order> orders_of(const Parallelism& p) {
    return schedule_orders(p.schedule, p.pp, pieces_per_stage(p), micro_batches(p));
}

MemoryUse memory_of(const LayerContext& c, int stage, const Order& order) {
    const Experiment& e = c.experiment;
    const StageMemory memory = stage_memory(c, stage);
    const Moment moment = fullest_moment(order, memory.pieces);
    MemoryUse use;
    add_states(use, c, memory);
    use.activations = moment.activations;
    use.buffers =
        moment.work + workspaces + matrix_gradients(c, memory) + sharding_buffers(c, memory) + pipeline_buffers(c);
    use.peak = use.weights + use.gradients + use.optimizer + use.activations + use.buffers;
    use.overheads = e.cluster.overheads.context + e.cluster.overheads.fragmentation * use.peak;
    use.capacity = e.cluster.gpu.memory;
    use.fits = use.capacity == Bytes(0) || use.peak + use.overheads <= use.capacity;
    return use;
}

}  // namespace

MemoryUse transformer_memory(const Experiment& e, int stage, const Routing& routing) {
    const LayerContext context{e, rank_shape(e), rank_groups(e.parallelism), routing};
    return memory_of(context, stage, orders_of(e.parallelism)[static_cast<std::size_t>(stage)]);
}

MemoryUse transformer_memory(const Experiment& e, const Routing& routing) {
    const LayerContext context{e, rank_shape(e), rank_groups(e.parallelism), routing};
    const std::vector<Order> orders = orders_of(e.parallelism);
    MemoryUse fullest;
    for (int stage = 0; stage < e.parallelism.pp; ++stage) {
        const MemoryUse use = memory_of(context, stage, orders[static_cast<std::size_t>(stage)]);
        if (stage == 0 || use.peak > fullest.peak) fullest = use;
    }
    return fullest;
}

}  // namespace stepcast
