#include "sim/memory/unit_tape.h"

#include <algorithm>
#include <cmath>

#include "model/block/block_pass.h"
#include "model/block/blocks.h"
#include "model/input/key_values.h"
#include "model/machine/libraries.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

std::int64_t whole(Bytes bytes) { return std::llround(std::ceil(bytes.si())); }

void add(TensorList& list, Bytes bytes) {
    if (bytes > Bytes(0)) list.push_back(whole(bytes));
}
void add(TensorList& list, const TensorSizes& sizes, double share = 1) {
    for (const Bytes bytes : sizes) add(list, share * bytes);
}

// Whether the next operator keeps the result of this one as its input. GELU in steps keeps a copy
// in fp32 under automatic casting.
bool is_kept_next(const Block& block, std::size_t i, const LayerContext& c) {
    if (i + 1 >= block.size()) return false;
    const Experiment& e = c.experiment;
    if (std::holds_alternative<Activate>(block[i + 1]) && casts_weights(e) &&
        e.workload.activation == Activation::gelu_steps && composes(e, Composed::activation))
        return false;
    return std::holds_alternative<Activate>(block[i + 1]) ||
           std::holds_alternative<Elementwise>(block[i + 1]) ||
           std::holds_alternative<Loss>(block[i + 1]);
}

// Whether the next operator is a product of the same input.
bool is_read_again(const Block& block, std::size_t i) {
    if (i + 1 >= block.size()) return false;
    const auto *own = std::get_if<Linear>(&block[i]), *next = std::get_if<Linear>(&block[i + 1]);
    return own && next && next->split == Split::none && own->in.rank == next->in.rank;
}

// What each operator makes beside what automatic differentiation keeps.
struct TapeRules : BlockRules {
    OperatorTape& tape;
    const OperatorMemory& memory;
    bool kept_next = false, read_again = false;  // by the next operator: its result, its input

    // For the backward. An eager host has a buffer for each kind of it that stays (nanotron of
    // 2025: MemoryBuffer).
    void gather_again(Bytes whole_tensor) const {
        if (r.host_lead > 0)
            tape.buffer = whole(whole_tensor);
        else
            add(tape.brought_back, whole_tensor);
    }
    void operator()(const Linear& op) const {
        tape.is_product = true;
        const Bytes in = number(op.tokens * op.in.rank) * s.element(),
                    out = number(op.tokens * op.out.rank) * s.element();
        const bool gathers = splits_sequence(p);
        const bool spreads = gathers && (op.split == Split::column || op.split == Split::whole),
                   sums = gathers && op.split == Split::row;
        // what the reduction leaves of the whole gradient
        if (!op.constant_input && !op.detached) add(tape.gradients, spreads ? 1.0 / p.tp * in : in);
        const bool parts = keeps_gathered(c);
        if (spreads) {
            const bool keeps = parts && op.split == Split::column;
            // a sequence alone arrives in order (PyTorch 2.11, torch/_utils.py:
            // _maybe_view_chunk_cat)
            if (!keeps || s.batch > 1) add(tape.brought, in);
            if (!keeps) gather_again(in);
            if (!op.constant_input && !op.detached) add(tape.brought_back, in);
        }
        // DTensors add up gradients in a tensor of its own, and what they reduce over the sequence
        // is first put in order by a copy (torch/distributed/_functional_collectives.py of 2.11:
        // reduce_scatter_tensor, chunk and cat; seen in recorded events)
        if (parts && !op.constant_input && (read_again || op.split == Split::column))
            add(tape.brought_back, in);
        if (sums) {
            tape.sums = true;
            add(tape.brought, out);
            if (parts) add(tape.brought, out);
            gather_again(out);
            add(tape.made, s.outer());
        } else if (!kept_next) {
            add(tape.made, out);
        }
        if (w.adapter_rank > 0) {
            add(tape.work, memory.work);
            if (op.adapter_rank > 0)
                tape.trained = {op.in.rank * op.adapter_rank, op.adapter_rank * op.out.rank};
            return;
        }
        tape.weight_gradient = whole(number(op.out.rank * op.in.rank) * s.element());
        tape.trained = {op.out.rank * op.in.rank};
    }
    void operator()(const GroupedLinear& op) const {
        tape.is_product = true;
        const double slots = expert_slots(c);
        add(tape.gradients, slots * number(op.in.rank) * s.element());
        if (!kept_next) add(tape.made, slots * number(op.out.rank) * s.element());
        if (w.adapter_rank > 0) return;
        tape.weight_tensors = std::max(1, w.moe.experts / p.ep);
        tape.trained = {tape.weight_tensors * op.out.rank * op.in.rank};
        // the loop picks an expert of one parameter, and the gradient of what it picks is as large
        // as all (transformers 5.17, models/mixtral/modeling_mixtral.py: gate_up_proj[expert_idx])
        tape.gradient_in_turns =
            r.experts.one_by_one && composes(*this, Composed::experts) && tape.weight_tensors > 1;
        tape.weight_gradient =
            whole(tape.weight_tensors * number(op.out.rank * op.in.rank) * s.element());
    }
    void operator()(const Activate&) const { add(tape.gradients, *memory.work.begin()); }
    void operator()(const Elementwise&) const { add(tape.gradients, *memory.work.begin()); }
    void operator()(const OneOf<Attend, AttendRelative> auto& op) const {
        // work: the result's gradient, which is there already, those of queries, keys and values,
        // and what comes on top
        int i = 0;
        for (const Bytes bytes : memory.work) {
            if (i > 0) add(i < 4 ? tape.gradients : tape.work, bytes);
            ++i;
        }
        add(tape.work, query_sums(op, memory, c));
    }
    void operator()(const HeadLayout& op) const {
        if (is_latent(w)) return;
        add(tape.gradients, s.inner(op.heads * s.qk_dim + op.kv_heads * (s.qk_dim + s.value_dim)));
    }
    void operator()(const Normalize& op) const {
        add(tape.gradients, number(op.rows * op.width) * s.element());
    }
    void operator()(const OneOf<Scan, DeltaRule, Index> auto&) const {
        add(tape.gradients, *memory.work.begin());
        bool first = true;
        for (const Bytes bytes : memory.work) {
            if (!first) add(tape.work, bytes);
            first = false;
        }
    }
    void operator()(const ToExperts&) const {
        const Bytes slots = number(s.routed_tokens * w.moe.top_k) * number(s.hidden) * s.element();
        if (p.ep > 1) add(tape.brought, slots);
        if (p.ep > 1) add(tape.brought_back, slots);
        add(tape.gradients, s.outer());
    }
    void operator()(const FromExperts&) const {
        add(tape.gradients, expert_slots(c) * number(s.hidden) * s.element());
        add(tape.made, s.outer());
    }
    void operator()(const OneOf<Route, Fork, Cast, WithMemory, AddShared, Residual, Embed, Loss,
                                SpanLoss> auto&) const {}
};

std::string name_of(const Operator& op) {
    return std::visit(
        []<class T>(const T& of) -> std::string {
            if constexpr (requires { of.name; })
                return std::string(of.name);
            else if constexpr (OneOf<T, Attend, AttendRelative>)
                return "attention";
            else if constexpr (std::same_as<T, Activate>)
                return "activation";
            else if constexpr (std::same_as<T, HeadLayout>)
                return "rotary_positions";
            else if constexpr (OneOf<T, Route, ToExperts, FromExperts, AddShared>)
                return "experts_exchange";
            else if constexpr (std::same_as<T, Residual>)
                return "residual";
            else
                return "mixing";
        },
        op);
}

BlockTape tape_of(const Block& block, const LayerContext& c, double share) {
    const OperatorMemories memories = operator_memories(block, c);
    BlockTape tape;
    tape.result = whole(c.shape.outer());
    for (std::size_t i = 0; i < block.size(); ++i) {
        OperatorTape one;
        one.what = name_of(block[i]);
        add(one.kept, memories.operators[i].kept, share);
        add(one.again, memories.operators[i].again, share);
        add(one.passing, memories.operators[i].passing, share);
        one.for_backward = static_cast<std::size_t>(memories.operators[i].for_backward);
        add(one.rerun, memories.kept_by_alternate[i], share);
        std::visit(TapeRules{{c},
                             one,
                             memories.operators[i],
                             is_kept_next(block, i, c),
                             is_read_again(block, i)},
                   block[i]);
        if (!one.kept.empty() || !one.again.empty() || !one.made.empty() || !one.passing.empty() ||
            !one.gradients.empty() || one.weight_gradient > 0)
            tape.operators.push_back(std::move(one));
    }
    return tape;
}

// A tensor for each trained matrix, and the rest in one.
void add_weights(UnitTape& tape, const UnitWeights& weights) {
    double rest = weights.trained.all();
    for (const BlockTape& block : tape.blocks)
        for (const OperatorTape& op : block.operators)
            for (const std::int64_t elements : op.trained) {
                if (real(elements) > rest) continue;
                tape.matrices.push_back(elements);
                rest -= real(elements);
            }
    if (rest >= 1) tape.matrices.push_back(std::llround(rest));
    tape.weights = weights;
}

// PyTorch's cross entropy: the caller holds the logits, and their fp32 copy, until the loss is
// there; the logarithm of the softmax lasts. The gradient of what it picks is filled with zeros
// before that of the softmax, which is cast back (transformers 5.17, loss/loss_utils.py:
// ForCausalLMLoss; PyTorch 2.11, nll_loss_backward; seen in recorded events).
std::vector<OperatorTape> composed_loss(const LayerContext& c) {
    const double logits = number(c.shape.head_tokens) * number(c.shape.vocab);
    const LossMemory memory = loss_memory(c);
    OperatorTape cast, loss;
    cast.what = loss.what = "loss";
    cast.made = {whole(logits * c.shape.element())};
    loss.kept = {whole(logits * memory.kept)};
    loss.gradients = {whole(logits * memory.kept)};
    for (Bytes made = memory.made - memory.kept; made > Bytes(0); made -= memory.kept)
        add(loss.work, logits * memory.kept);
    // beside its result what split DTensors are less their maximum, or its exponential
    // (_log_softmax)
    if (memory.made > 2.0 * memory.kept) loss.passing = {whole(logits * memory.kept)};
    if (memory.kept > c.shape.element()) {
        add(cast.made, logits * memory.kept);
        cast.gradients = {whole(logits * c.shape.element())};
    }
    return {cast, loss};
}

// Chunks take one place after another, and leave the matrix's gradient.
std::vector<OperatorTape> loss_without_logits(const LayerContext& c) {
    OperatorTape loss;
    loss.what = "loss";
    add(loss.passing, logits_at_once(c) * loss_memory(c).made);
    add(loss.kept, logits_at_once(c) * loss_memory(c).kept + gradient_of_loss(c));
    return {loss};
}

// What the loss makes of the logits. Separate kernels have them in the element's type, in fp32 and
// as a softmax. Frameworks with gradients in tensors that stay have a loss of their own that works
// in place (Megatron-LM's and nanotron's _VocabParallelCrossEntropy): only the softmax lasts until
// the backward and becomes the gradient, which is then cast.
std::vector<OperatorTape> loss_tape(const LayerContext& c) {
    if (!keeps_logits(c.experiment)) return loss_without_logits(c);
    // a gradient of the loss's result and one of the logits
    if (loss_memory(c).made > loss_memory(c).kept) return composed_loss(c);
    const double logits = number(c.shape.head_tokens) * number(c.shape.vocab);
    const Bytes wide(4), element = c.shape.element();
    const LossMemory memory = loss_memory(c);
    OperatorTape loss;
    loss.what = "loss";
    const bool by_steps =
        is_eager(c.experiment) && !c.experiment.runtime.loss.fused && memory.kept > element + wide;
    if (by_steps && !c.experiment.runtime.gradients.freed) {
        // the caller holds the logits until the loss is there
        loss.made_first = true;
        loss.made = {whole(logits * element), whole(logits * wide)};
        loss.kept = {whole(logits * wide)};
        loss.gradients = {whole(logits * element)};
        return {loss};
    }
    if (by_steps)
        loss.kept = {whole(logits * element), whole(logits * (memory.kept - element - wide)),
                     whole(logits * wide)};
    else
        add(loss.kept, logits * memory.kept);
    if (!by_steps && !c.experiment.runtime.loss.fused && memory.kept > element)
        add(loss.made, logits * element);
    add(loss.gradients, logits * memory.made);
    return {loss};
}

}  // namespace

UnitTape layer_tape(const LayerContext& c, int layer) {
    UnitTape tape;
    tape.what = "layer";
    for (const SharedBlock& one : layer_blocks(c.experiment.workload, c.shape, layer))
        tape.blocks.push_back(tape_of(one.block, c, one.share));
    tape.input = whole((stream_element(c) / c.shape.element()) * c.shape.outer());
    tape.put_off = whole(layer_memory(c, layer).put_off);
    add_weights(tape, layer_weights(c, layer));
    return tape;
}

UnitTape embedding_tape(const LayerContext& c) {
    UnitTape tape;
    tape.what = "embedding";
    OperatorTape embed;
    embed.what = "embedding";
    const Activations memory = embedding_memory(c);
    add(embed.kept, memory.kept);
    embed.weight_gradient = whole(table_gradient(c));
    // a DTensor's is of the whole vocabulary, of which the rank then takes its part (torch 2.11,
    // aten embedding_dense_backward by num_weights; RowwiseParallel; seen in recorded events); its
    // words of the whole sequence are reduced like a product's result
    if (keeps_gathered(c)) {
        for (int copy = 0; copy < 2; ++copy) add(embed.brought, c.shape.inner(c.shape.hidden));
        if (embed.weight_gradient > 0)
            add(embed.work,
                number(long{c.experiment.workload.vocab} * c.shape.hidden) * c.shape.element());
    }
    tape.blocks.push_back({{embed}, whole(c.shape.outer())});
    add_weights(tape, embedding_weights(c));
    return tape;
}

UnitTape head_tape(const LayerContext& c) {
    UnitTape tape;
    tape.what = "head";
    BlockTape block = tape_of(head_block(c.experiment.workload, c.shape), c, 1);
    const Bytes of_loss = logits_at_once(c) * loss_memory(c).kept + gradient_of_loss(c);
    for (OperatorTape& one : block.operators) {
        if (one.what == "final_norm") {
            const Bytes gathered = keeps_gathered(c) ? c.shape.inner(c.shape.hidden) : Bytes(0);
            one.kept.clear();
            add(one.kept, head_memory(c).kept - of_loss - gathered);
        }
        if (one.what == "logits" && c.experiment.runtime.loss.logits == LogitsKept::chunks) {
            one.weight_gradient = 0;  // the loss has both
            one.gradients.clear();
        }
    }
    for (OperatorTape& one : loss_tape(c)) block.operators.push_back(std::move(one));
    tape.blocks.push_back(std::move(block));
    add_weights(tape, head_weights(c));
    return tape;
}

int launches_of(const UnitTape& tape, Phase phase) {
    const LayerLaunches& layer = layer_launches();
    const bool is_backward = phase == Phase::backward;
    std::size_t collectives = 0;
    for (const BlockTape& block : tape.blocks)
        for (const OperatorTape& op : block.operators)
            collectives +=
                is_backward ? op.brought_back.size() + (op.buffer > 0 ? 1 : 0) : op.brought.size();
    return (is_backward ? layer.backward : layer.forward) +
           layer.collective * static_cast<int>(collectives);
}

}  // namespace stepcast
