// What automatic differentiation keeps of each operator until its backward, and what the backward
// needs on top. Activations have the storage type; inputs of products have the type of the product.
//   norm       its input and its result; composed of PyTorch's operators its input in fp32, the
//              normed one that the gradient of its weights reads, and its result. Under automatic
//              casting the residual stream is fp32, and so is a norm's input; each product of an
//              eager layer casts a composed norm's result anew
//   attention  queries, keys, values, result; plain attention: the softmax of the scores; a fused
//              kernel: an fp32 sum for a row and head. Dropout adds its mask (1 byte), and in plain
//              attention the dropped scores. Latent attention also keeps its keys in parts
//   activation its input and its result. A gated one in eager passes also keeps the activation
//              before the product with the other half, because these are two operations; GELU in
//              steps keeps three tensors more, ReLU its result alone
//   experts    the slots as they arrive; router: logits, probabilities and choice (4 + 4 + 1
//              bytes). The combining weights are multiplied before the second product, so its
//              result is not kept
//   adapters   their input and its product with A. The frozen layer keeps no input itself, so that
//              what no adapter reads is freed: results of norms and activations, slots of experts.
//              PEFT's read a copy in the type of their products, made for each layer anew. Of
//              composed norms the fp32 input is kept in place of input and result, as many bytes
//   delta rule its normed queries and keys, values, decays in fp32 and step sizes, and the inverse
//              of each chunk's system (fla/ops/gated_delta_rule/chunk.py: save_for_backward)
//   indexer    queries, keys and weights of its heads; of the selected keys their places, the
//              scores' softmax and attention's probabilities
//   residual   the mask of its dropout
// Plain attention with dropout and GELU in 16 bit gives s b h (34 + 5 a s / h), Korthikanti et al.,
// arXiv 2205.05198, section 4. Work: the gradients of the block's input and result, and those of
// the operator that has most: of its inputs first, then of its result, and what its kernels make.
#include "model/transformer/layer_memory.h"

#include <algorithm>
#include <numeric>

#include "model/base/lists.h"
#include "model/block/adapters.h"
#include "model/block/block_pass.h"
#include "model/block/blocks.h"
#include "model/recorded/moe/layer.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

// Slots that the fullest rank computes, over the mean of all ranks.
double imbalance(const LayerContext& c) {
    const Parallelism& p = c.experiment.parallelism;
    if (c.routing.counts.empty() || p.ep == 1) return 1;
    const std::vector<double> slots =
        computed_slots(p.moe_system, c.experiment.workload.hidden, c.routing);
    return *std::ranges::max_element(slots) * p.ep / std::reduce(slots.begin(), slots.end());
}

}  // namespace

bool keeps_gathered(const LayerContext& c) {
    return splits_sequence(c.experiment.parallelism) &&
           c.experiment.runtime.weight_shards == WeightShards::dtensors;
}

Bytes stream_element(const LayerContext& c) {
    return casts_weights(c.experiment) ? size_of(Dtype::fp32) : c.shape.element();
}

// An expert that is split over the tensor-parallel ranks gets the slots of all these ranks, a whole
// expert those of its own rank.
double expert_slots(const LayerContext& c) {
    const Moe& moe = c.experiment.workload.moe;
    const Parallelism& p = c.experiment.parallelism;
    const double routed = number(c.shape.tokens) / (splits_experts(c.experiment) ? 1 : p.tp);
    return routed * moe.top_k * (moe.capacity_factor > 0 ? moe.capacity_factor : imbalance(c));
}

namespace {

// Whether the gradients of the layer's own weights or of its adapters need its input as it is.
bool keeps_input(const Experiment& e, const Linear& l) {
    if (e.workload.adapter_rank == 0) return true;
    return l.adapter_rank > 0 && !(widens_adapters(e) && adapter_types(e.runtime, l).cast());
}

// No product behind it reads what was made before it.
bool ends_reach(const Operator& op) {
    if (const auto* norm = std::get_if<Normalize>(&op)) return !norm->inner;
    if (const auto* activation = std::get_if<Activate>(&op))
        return activation->rows == Activate::Rows::tokens;
    return std::holds_alternative<HeadLayout>(op) || std::holds_alternative<Attend>(op) ||
           std::holds_alternative<AttendRelative>(op) || std::holds_alternative<Scan>(op) ||
           std::holds_alternative<DeltaRule>(op);
}

// Whether a product keeps the result of operator i: the next one, or of those behind a norm any.
bool is_kept_by_product(const Block& block, std::size_t i, const Experiment& e) {
    if (e.workload.adapter_rank == 0) return true;
    for (std::size_t j = i + 1; j < block.size() && !ends_reach(block[j]); ++j) {
        const auto* l = std::get_if<Linear>(&block[j]);
        if (l && keeps_input(e, *l)) return true;
        if ((l || std::holds_alternative<GroupedLinear>(block[j])) &&
            !std::holds_alternative<Normalize>(block[i]))
            return false;
    }
    return false;
}

// Then that product keeps the gathered tensor, and nothing reads this rank's part any more.
bool is_gathered_next(const Block& block, std::size_t i, const LayerContext& c) {
    if (!keeps_gathered(c)) return false;
    for (std::size_t j = i + 1; j < block.size(); ++j)
        if (const auto* l = std::get_if<Linear>(&block[j])) return l->split == Split::column;
    return false;
}

// Composed of PyTorch's operators a norm keeps its input in fp32 instead of input and result.
bool norm_keeps_fp32(const BlockRules& rules) {
    return rules.w.norm == Norm::rmsnorm && composes(rules, Composed::norms);
}

// All that is kept but the first tensors is made again.
void make_again(OperatorMemory& memory, std::size_t first) {
    TensorSizes stay;
    for (const Bytes size : memory.kept) {
        (first == 0 ? memory.again : stay).add(size);
        first -= std::min<std::size_t>(first, 1);
    }
    memory.kept = stay;
}

// How many products read the result of a composed norm. Automatic casting has a cache for casts of
// weights alone (ATen/autocast_mode.cpp: cached_cast), so that each product of an eager layer casts
// it anew. Models with layer norms may have one product for queries, keys and values (GPT-2's
// c_attn), which no key says: theirs counts once.
int casts_of_result(const Block& block, std::size_t i, const Experiment& e) {
    if (!casts_weights(e) || !is_eager(e) || e.workload.adapter_rank > 0) return 1;
    int count = 0;
    for (std::size_t j = i + 1; j < block.size(); ++j) {
        if (std::holds_alternative<Normalize>(block[j])) break;
        const auto* const l = std::get_if<Linear>(&block[j]);
        count += l != nullptr && l->split != Split::row ? 1 : 0;
    }
    return std::max(1, count);
}

// What one operator keeps and what its backward needs: one overload for each operator.
struct Rules : BlockRules {
    bool read = true;    // a product keeps the operator's result
    int casts_read = 1;  // copies of it that products keep

    OperatorMemory operator()(const Normalize& op) const {
        const Dtype result = w.adapter_rank > 0 ? s.storage : op.product;
        const double elements = number(op.rows * op.width);
        const Bytes stream = op.inner ? s.element() : stream_element(c);
        if (norm_keeps_fp32(*this) && w.adapter_rank == 0) {
            OperatorMemory memory{{elements * size_of(Dtype::fp32), elements * stream}, {}};
            // its square, and its product with the root of the mean
            memory.passing = {elements * size_of(Dtype::fp32), elements * size_of(Dtype::fp32)};
            if (read && !op.inner)
                for (int i = 0; i < casts_read; ++i) memory.kept.add(elements * size_of(result));
            return memory;
        }
        const bool both = read || op.inner || norm_keeps_fp32(*this);
        return {{elements * stream, both ? elements * size_of(result) : Bytes(0)}, {}};
    }
    // Latent attention keeps the shared rotary key and the keys' own part as they were before their
    // concatenation.
    OperatorMemory operator()(const HeadLayout& op) const {
        if (!latent()) return {{}, {}, {}, rotated(op)};
        // queries as they were before they met the keys' weights
        if (selects_keys(w)) return {{s.inner(op.heads * w.mla.nope_dim)}, {}};
        return {{number(s.outer_tokens) * w.mla.rope_dim * s.element(),
                 number(s.tokens * op.heads) * w.mla.nope_dim * s.element()},
                {}};
    }
    OperatorMemory operator()(const Attend& op) const { return attention(op.heads, op.kv_heads); }
    OperatorMemory operator()(const AttendRelative&) const {
        return attention(s.heads, s.kv_heads);
    }
    OperatorMemory operator()(const Activate& op) const {
        const bool slots = op.rows == Activate::Rows::expert_slots;
        const double rows = slots ? expert_slots(c) : number(s.tokens),
                     inner = rows * number(op.width.rank);
        const bool by_steps = is_eager(c.experiment) && op.inputs == 2;
        // then the product reads another tensor
        const bool dropped = w.inner_dropout && drops() && !slots;
        const bool reads_result = w.activation == Activation::relu && op.inputs == 1 &&
                                  op.into_product && s.matrix == s.storage && !dropped;
        // under automatic casting the power keeps its input in fp32
        const bool reads_input = !(casts() && composes_gelu());
        OperatorMemory memory{{reads_input ? inner * op.inputs * s.element() : Bytes(0)},
                              {inner * op.inputs * s.element(), inner * s.element()}};
        if (by_steps) memory.kept.add(inner * s.element());
        if (op.into_product && !reads_result && read) memory.kept.add(inner * kept_element());
        if (composes_gelu()) add_gelu_steps(memory, inner);
        if (slots) memory.work.add(rows * number(s.hidden) * s.element());
        if (slots && masks_rows()) memory.passing.add(inner * op.inputs * s.element());
        return memory;
    }
    OperatorMemory operator()(const Elementwise& op) const {
        OperatorMemory memory{{(is_eager(c.experiment) ? op.read : op.kept) * s.element()},
                              {op.read * s.element(), op.written * s.element()}};
        if (op.into_product && read) memory.kept.add(op.written * kept_element());
        return memory;
    }
    OperatorMemory operator()(const Scan& op) const {
        return {{s.inner(op.around().rank)}, {s.inner(op.around().rank)}};
    }
    // Work: states of all chunks and their gradients, and for each value head the tensors that the
    // kernels of the backward pass on: three and a gradient as wide as a key, five as wide as a
    // value.
    OperatorMemory operator()(const DeltaRule& op) const {
        constexpr long chunk = 64;
        const double heads = number(s.tokens * op.value_heads.rank);
        const Bytes key = heads * number(op.key_dim) * s.element(),
                    value = heads * number(op.value_dim) * s.element(),
                    states = heads * number(op.key_dim * op.value_dim / chunk) * s.element();
        return {{s.inner(op.around().rank), heads * (chunk + 1) * s.element(), heads * Bytes(4)},
                {s.inner(op.around().rank), 4.0 * key, 5.0 * value, 2.0 * states}};
    }
    OperatorMemory operator()(const Index&) const {
        const Indexer& x = w.indexer;
        const double selected = number(s.tokens) * number(std::min<long>(x.top_k, s.seq));
        const Bytes read_by_scores = s.inner(long{x.heads + 1} * x.head_dim + x.heads);
        OperatorMemory memory{{read_by_scores, selected * Bytes(4)},
                              {read_by_scores, read_by_scores}};
        if (w.adapter_rank == 0) memory.kept.add({selected * Bytes(4), selected * Bytes(4)});
        return memory;
    }
    OperatorMemory operator()(const Residual&) const { return {{mask_of(outer())}, {}}; }
    OperatorMemory operator()(const Route&) const {
        const double scores = number(s.routed_tokens) * w.moe.experts;
        return {{scores * Bytes(4), scores * Bytes(4), scores * Bytes(1)}, {}};
    }
    OperatorMemory operator()(const ToExperts&) const {
        if (!read) return {};
        return {{expert_slots(c) * number(s.hidden) * size_of(s.matrix)}, {}};
    }
    // The weighting reads what the second product gave, and adding up in a loop asks for the shape
    // of what it added (PyTorch 2.11, derivatives.yaml: mul; index_add, grad.expand_as(source)).
    // Grouped: the product's own result, its rows weighted in fp32, these in the tokens' order, and
    // their sum.
    OperatorMemory operator()(const FromExperts&) const {
        if (!composes(*this, Composed::experts)) return {};
        const double slots = expert_slots(c) * number(s.hidden);
        OperatorMemory memory{{slots * s.element()}, {}};
        if (r.experts.one_by_one) memory.kept.add(slots * stream_element(c));
        if (masks_rows())
            memory.passing = {slots * s.element(), slots * Bytes(4), slots * Bytes(4),
                              slots / w.moe.top_k * Bytes(4)};
        return memory;
    }
    // What was gathered for it; what adapters' products read besides the layer's input. Work of
    // composed ones: gradients of the result, scaled and not, of x and of its copy. Their forward
    // passes the layer's result, theirs, that times the scaling, and the sum (PEFT 0.21,
    // tuners/lora/layer.py: Linear.forward).
    OperatorMemory operator()(const Linear& op) const {
        if (op.adapter_rank == 0) {
            if (!keeps_gathered(c) || op.split != Split::column) return {};
            return {{number(op.tokens * op.in.rank) * size_of(op.dtype)}, {}};
        }
        const double inner = number(op.tokens * op.adapter_rank);
        if (!widens_adapters(c.experiment)) return {{inner * s.element()}, {}};
        const AdapterTypes types = adapter_types(r, op);
        const Bytes inside = size_of(types.inside), outside = size_of(types.outside);
        const double x = number(op.tokens * op.in.rank), y = number(op.tokens * op.out.rank);
        const Bytes copy = types.cast() ? x * inside : Bytes(0);
        return {{copy, inner * inside},
                {y * inside, y * inside, x * inside, x * outside},
                {},
                {y * outside, y * inside, y * inside, y * inside}};
    }
    // These operators keep nothing: the rules of other operators count what their backward reads.
    OperatorMemory operator()(const OneOf<GroupedLinear, Fork, Cast, WithMemory, AddShared, Embed,
                                          Loss, SpanLoss> auto&) const {
        return {};
    }

private:
    // Grouped products leave rows without a token as they were, so that their result is copied with
    // zeros there (transformers 5.17, integrations/moe.py: grouped_mm_experts_forward).
    [[nodiscard]] bool masks_rows() const {
        return composes(*this, Composed::experts) && !r.experts.one_by_one && p.ep == 1;
    }
    // Adapters multiply in 16 bits what a narrow product reads in 8 or 4.
    [[nodiscard]] Bytes kept_element() const {
        return size_of(w.adapter_rank > 0 ? s.storage : s.matrix);
    }
    [[nodiscard]] bool composes_gelu() const {
        return w.activation == Activation::gelu_steps && composes(*this, Composed::activation);
    }
    // GELU in steps keeps half of its input, the tangent and its sum with one; under automatic
    // casting the last two, and the input of the power, in fp32, which is there instead of the
    // input. It passes the power, that times a constant, the sum with the input, that times another
    // constant, and the product at the end.
    void add_gelu_steps(OperatorMemory& memory, double inner) const {
        const Bytes wide = casts() ? size_of(Dtype::fp32) : s.element();
        memory.kept.add(inner * s.element());
        if (casts()) memory.kept.add(inner * wide);
        memory.kept.add({inner * wide, inner * wide});
        memory.for_backward = casts() ? 3 : 2;
        for (int i = 0; i < 5; ++i) memory.passing.add(inner * wide);
    }
    // Composed: queries and keys times the cosine, turned, and that times the sine.
    [[nodiscard]] TensorSizes rotated(const HeadLayout& op) const {
        if (w.positions != Positions::rotary || !composes(*this, Composed::rotary)) return {};
        const Bytes queries = s.inner(op.heads * s.qk_dim), keys = s.inner(op.kv_heads * s.qk_dim);
        return {queries, queries, queries, keys, keys, keys};
    }
    [[nodiscard]] bool latent() const { return is_latent(w); }

    // Keys and values of other context-parallel ranks, with gradients: those of the next rank in
    // the ring, or of all ranks.
    [[nodiscard]] Bytes context(Bytes own) const {
        return p.cp == 1 ? Bytes(0)
                         : 2.0 * own * (r.context_exchange == ContextExchange::ring ? 1.0 : p.cp);
    }

    // Queries as wide as the keys' latent, that latent, the result as wide, and the result that the
    // output projection reads.
    [[nodiscard]] OperatorMemory attention_to_latents(long heads) const {
        const long key = w.mla.kv_rank + w.mla.rope_dim;
        const Bytes queries = s.inner(heads * key), latent = s.inner(key),
                    result = s.inner(heads * w.mla.kv_rank);
        return {{queries, latent, result, s.inner(heads * s.value_dim),
                 number(s.tokens * heads) * Bytes(4)},
                {result, queries, latent}};
    }

    // Each query with each key.
    [[nodiscard]] double score_count(long heads) const {
        return number(s.batch * heads) * number(s.seq_q) * number(s.seq + w.memory);
    }
    // What the backward reads of the scores: the softmax, in steps also its wide copy; with dropout
    // what that leaves, and its mask. One kernel makes them again from the sum of each query.
    [[nodiscard]] TensorSizes kept_scores(long heads, bool plain, bool steps) const {
        if (!plain) return {number(s.tokens * heads) * Bytes(4)};
        const double all = score_count(heads);
        TensorSizes kept{all * s.element()};
        if (steps) kept.add({all * size_of(Dtype::fp32)});
        if (drops_scores()) kept.add({all * s.element(), all * Bytes(1)});
        return kept;
    }

    // Work: gradients of result, queries, keys, values; for plain attention of the scores around
    // the softmax, and what selective recompute makes again: its result, and the scores or one
    // kernel's sums. The first result stays for the product behind it, unless that reads a narrow
    // copy and no gate reads it (megatron-core 0.16.1, transformer/attention.py: the output of
    // core_attn and the quantized one are both saved).
    [[nodiscard]] OperatorMemory attention(long heads, long kv_heads) const {
        if (selects_keys(w)) return attention_to_latents(heads);
        const bool plain = attention_kernel(c.experiment) == AttentionKind::plain;
        const bool again = runs_again(p, RecomputedModule::core_attn);
        const bool narrow = s.matrix != s.storage && w.adapter_rank == 0;
        const Bytes result = s.inner(heads * s.value_dim), queries = s.inner(heads * s.qk_dim),
                    keys = s.inner(kv_heads * s.qk_dim), values = s.inner(kv_heads * s.value_dim);
        const long kept_heads = latent() ? heads : kv_heads;
        const bool steps = plain && composes(*this, Composed::softmax);
        OperatorMemory memory{
            {queries, s.inner(kept_heads * s.qk_dim), s.inner(kept_heads * s.value_dim)},
            {result, queries, keys, values, context(keys + values)}};
        if (r.stacked_heads && kv_heads == heads)
            memory.kept = {queries + keys + values, keys + values};
        if (latent() && runs_again(p, RecomputedModule::mla_up_proj)) make_again(memory, 0);
        if (!again || !narrow || w.attention_gate) memory.kept.add(result);
        // the copy that the output projection reads
        if (narrow) memory.kept.add(number(s.tokens * heads * s.value_dim) * size_of(s.matrix));
        // gradients around the softmax, of which steps free the others on their way
        if (plain) {
            const Bytes gradient =
                score_count(heads) * (steps ? size_of(Dtype::fp32) : s.element());
            memory.work.add({gradient, gradient});
        }
        (again ? memory.work : memory.kept).add(kept_scores(heads, plain, steps));
        if (again) memory.work.add(result);
        return memory;
    }
};

// How many of an operator's first tensors stay where selective recompute runs it again: those that
// a module reads or that precede it. A norm's input is the residual stream, of latent attention the
// shared rotary key comes from before the products, and an expert's activation runs again alone or
// with all that leads to it.
std::size_t read_from_outside(const Operator& op, const Parallelism& p) {
    if (std::holds_alternative<Normalize>(op) || std::holds_alternative<HeadLayout>(op)) return 1;
    const auto* const activation = std::get_if<Activate>(&op);
    return activation && activation->rows == Activate::Rows::expert_slots &&
                   !runs_again(p, RecomputedModule::moe)
               ? 1
               : 0;
}

OperatorMemory memory_of(const Block& block, std::size_t i, bool again, const LayerContext& c) {
    OperatorMemory memory = std::visit(
        Rules{{c},
              is_kept_by_product(block, i, c.experiment) && !is_gathered_next(block, i, c),
              casts_of_result(block, i, c.experiment)},
        block[i]);
    if (again) make_again(memory, read_from_outside(block[i], c.experiment.parallelism));
    return memory;
}

}  // namespace

Bytes query_sums(const Operator& op, const OperatorMemory& of, const LayerContext& c) {
    const bool attends =
        std::holds_alternative<Attend>(op) || std::holds_alternative<AttendRelative>(op);
    if (!attends || attention_kernel(c.experiment) == AttentionKind::plain ||
        of.work.begin() == of.work.end())
        return Bytes(0);
    return *(of.work.begin() + 1) * (4.0 / size_of(c.shape.storage).si());
}

namespace {

// What runs again is there for the whole backward of the block.
Activations memory_of(const Block& block, const LayerContext& c) {
    const std::vector<bool> runs = selective_runs(block, c.experiment);
    Activations sum;
    Bytes again;
    for (const std::size_t i : indices_of(block)) {
        const OperatorMemory of = memory_of(block, i, runs[i], c);
        sum.kept += of.kept.sum();
        sum.work = std::max(sum.work, of.work.sum() + query_sums(block[i], of, c));
        again += of.again.sum();
    }
    sum.work += 2.0 * c.shape.inner(c.shape.hidden) + again;
    return sum;
}

// What an all-to-all of experts brought: the slots that this rank computes, or its own slots back.
Bytes exchanged(const Operator& op, const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    if (c.experiment.parallelism.ep == 1) return Bytes(0);
    if (std::holds_alternative<ToExperts>(op)) return Rules{{c}}(ToExperts{}).kept.sum();
    if (!std::holds_alternative<FromExperts>(op)) return Bytes(0);
    const double share = w.moe.capacity_factor > 0 ? w.moe.capacity_factor : 1;
    return number(c.shape.routed_tokens * w.moe.top_k) * share * number(c.shape.hidden) *
           c.shape.element();
}

// Results of products, of attention and of the exchanges of experts, which an alternate recompute
// keeps.
TensorSizes kept_by_alternate(const Block& block, std::size_t i, bool runs_again,
                              const LayerContext& c) {
    const RankShape& s = c.shape;
    TensorSizes kept{exchanged(block[i], c)};
    if (runs_again) return kept;
    const auto* linear = std::get_if<Linear>(&block[i]);
    if (const auto* attend = std::get_if<Attend>(&block[i]))
        kept.add(s.inner(attend->heads * s.value_dim));
    else if (linear == nullptr)
        kept.add(memory_of(block, i, false, c).kept);
    else
        kept.add(linear->split == Split::row
                     ? s.outer()
                     : number(linear->tokens * linear->out.rank) * s.element());
    return kept;
}

Bytes kept_by_alternate(const Block& block, const LayerContext& c) {
    const std::vector<bool> runs = alternate_runs(block, c.experiment.parallelism.tp);
    Bytes sum;
    for (const std::size_t i : indices_of(block))
        sum += kept_by_alternate(block, i, runs[i], c).sum();
    return sum;
}

// The blocks as if all projections of one input were one matrix, even where they run separately.
std::vector<SharedBlock> fused_blocks(const LayerContext& c, int layer) {
    RankShape shape = c.shape;
    shape.fused_projections = true;
    return layer_blocks(c.experiment.workload, shape, layer);
}

// For fused blocks, in which each product has an input of its own, so that no shared input counts
// twice. An input that sequence parallelism gathers is kept as this rank's part. Of frozen products
// only the adapters have such gradients.
Bytes read_by_weight_gradients(const Block& block, const LayerContext& c) {
    const RankShape& s = c.shape;
    const bool frozen = c.experiment.workload.adapter_rank > 0;
    Bytes sum;
    for (const Operator& op : block) {
        if (const auto* l = std::get_if<GroupedLinear>(&op); l && !frozen)
            sum += expert_slots(c) * number(l->in.rank + l->out.rank) * size_of(s.matrix);
        const auto* l = std::get_if<Linear>(&op);
        if (l == nullptr || (frozen && l->adapter_rank == 0)) continue;
        const long outer = l->tokens == s.tokens ? s.outer_tokens : l->tokens;
        const long read = (l->split == Split::row ? l->tokens : outer) * l->in.rank;
        const long made = (l->split == Split::row ? outer : l->tokens) * l->out.rank;
        sum += number(read + made) * size_of(frozen ? between_products(l->dtype) : l->dtype);
    }
    return sum;
}

}  // namespace

LayerMemory layer_memory(const LayerContext& c, int layer) {
    const bool alternate = c.experiment.parallelism.recompute == Recompute::alternate;
    const std::vector<SharedBlock> blocks = layer_blocks(c.experiment.workload, c.shape, layer);
    LayerMemory memory;
    memory.rerun = (stream_element(c) / c.shape.element()) * c.shape.outer();
    for (const SharedBlock& one : blocks) {
        Activations& half = &one == &blocks.back() ? memory.feed_forward : memory.attention;
        const Activations of = memory_of(one.block, c);
        half.kept += one.share * of.kept;
        half.work = std::max(half.work, of.work);
        if (alternate) memory.rerun += one.share * kept_by_alternate(one.block, c);
    }
    for (const auto& [share, block] : fused_blocks(c, layer))
        memory.put_off += share * read_by_weight_gradients(block, c);
    return memory;
}

OperatorMemories operator_memories(const Block& block, const LayerContext& c) {
    const std::vector<bool> runs = alternate_runs(block, c.experiment.parallelism.tp),
                            selective = selective_runs(block, c.experiment);
    OperatorMemories memories;
    for (const std::size_t i : indices_of(block)) {
        memories.operators.push_back(memory_of(block, i, selective[i], c));
        memories.kept_by_alternate.push_back(kept_by_alternate(block, i, runs[i], c));
    }
    return memories;
}

// Beside adapters both are frozen.
Bytes table_gradient(const LayerContext& c) {
    return c.experiment.workload.adapter_rank > 0
               ? Bytes(0)
               : number(c.shape.vocab * c.shape.hidden) * c.shape.element();
}

Activations embedding_memory(const LayerContext& c) {
    return {Rules{{c}}(Residual{}).kept.sum(), table_gradient(c)};
}

// Whether the caller lets go of 16-bit logits before the backward, so that PyTorch's cross entropy
// of their fp32 copy keeps its result alone (torchtitan 0.2.2, train.py: del pred; seen in recorded
// peaks).
static bool drops_logits(const Experiment& e) {
    return is_eager(e) && e.runtime.gradients.freed && !e.runtime.loss.fused && !casts_weights(e) &&
           size_of(between_products(e.workload.dtype)) < size_of(Dtype::fp32);
}

// The fused loss turns the logits into their gradient in place. An unfused loss keeps fp32
// probabilities, which become the gradient, with the logits or the cast gradient beside them. Eager
// passes keep the logits, their fp32 copy and its softmax, and make the gradient in addition. Under
// automatic casting the softmax is of 16-bit logits, and the fp32 copy is one of its result
// (kernels and memory of nanoGPT's loss in PyTorch 2.11). A composed loss, and one whose logits are
// let go, keeps its result, and makes a gradient of that and one of the logits; of split DTensors
// also the softmax (torch/distributed/tensor/parallel/loss.py: _nll_loss_and_log_softmax_backward).
// Chunks keep none and make their own; recomputed ones keep the logarithm of the sum of a row.
LossMemory loss_memory(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    const Bytes element = c.shape.element();
    const bool eager = is_eager(c.experiment), composed = composes(Rules{{c}}, Composed::loss);
    if (w.kind == Workload::Kind::transformer && !keeps_logits(c.experiment))
        return c.experiment.runtime.loss.logits == LogitsKept::chunks
                   ? LossMemory{Bytes(0), element}
                   : LossMemory{Bytes(4), Bytes(0)};
    const Bytes wide = composed && !w.fp32_loss ? element : Bytes(4);
    if (composed || drops_logits(c.experiment))
        return {wide, (keeps_gathered(c) ? 3.0 : 2.0) * wide};
    if (c.experiment.runtime.loss.fused) return {element, Bytes(0)};
    if (eager)
        return {casts_weights(c.experiment) ? 2.0 * element + wide
                : element < wide            ? element + 2.0 * wide
                                            : element + wide,
                wide};
    return {wide, element};
}

double logits_at_once(const LayerContext& c) {
    switch (c.experiment.runtime.loss.logits) {
        case LogitsKept::chunks: return number(loss_rows(c.shape) * c.shape.vocab);
        case LogitsKept::recomputed: return number(c.shape.head_tokens);
        case LogitsKept::whole: break;
    }
    return number(c.shape.head_tokens) * number(c.shape.vocab);
}

Bytes gradient_of_loss(const LayerContext& c) {
    return c.experiment.runtime.loss.logits == LogitsKept::chunks ? table_gradient(c) : Bytes(0);
}

// Work: also the gradients of the matrix and of its input, and the gathered input. Gradients that
// chunks make in the forward last until the backward: the input's in place of the input.
static Activations logits_memory(const LayerContext& c) {
    const RankShape& s = c.shape;
    const double logits = logits_at_once(c);
    const Bytes early = gradient_of_loss(c);
    const LossMemory loss = loss_memory(c);
    // then the result of the final norm is freed
    const bool frozen = c.experiment.workload.adapter_rank > 0 && !norm_keeps_fp32(Rules{{c}});
    const Bytes read = keeps_gathered(c) ? s.inner(s.hidden) : frozen ? Bytes(0) : s.outer();
    return {s.outer() + read + logits * loss.kept + early,
            table_gradient(c) - early + 2.0 * s.inner(s.hidden) + logits * loss.made};
}

// Multi-token prediction layers keep their tensors as well, until their backward has run.
Activations head_memory(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    const Activations logits = logits_memory(c);
    Activations all = logits;
    for (int i = 0; i < w.mtp_layers; ++i) {
        const Activations entry = memory_of(prediction_block(w, c.shape), c);
        const LayerMemory layer = layer_memory(c, w.layers - 1);
        all.kept += entry.kept + layer.kept() + logits.kept;
        all.work = std::max({all.work, entry.work, layer.attention.work, layer.feed_forward.work});
    }
    return all;
}

// Without the router's matrix, because its product is not fused.
std::vector<Matrix> layer_matrices(const LayerContext& c, int layer) {
    std::vector<Matrix> all;
    for (const SharedBlock& of : fused_blocks(c, layer))
        for (const Operator& op : of.block) {
            if (const auto* l = std::get_if<Linear>(&op); l && l->name != "router")
                all.push_back({l->out.rank, l->in.rank});
            if (const auto* l = std::get_if<GroupedLinear>(&op))
                all.push_back({l->out.rank, l->in.rank});
        }
    return all;
}

}  // namespace stepcast
