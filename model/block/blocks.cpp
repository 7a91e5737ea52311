#include "model/block/blocks.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "model/base/lists.h"

namespace stepcast {

double packed_bytes(const Workload& w) {
    if (w.adapter_rank == 0) return 0;
    constexpr double block = 64, scales = 256;  // weights of a scale, scales of a scale
    switch (w.frozen) {
        case FrozenWeights::stored: break;
        case FrozenWeights::nf4: return 0.5 + 4 / block;
        case FrozenWeights::nf4_double: return 0.5 + (1 + 4 / scales) / block;
        case FrozenWeights::int8: return 1;  // a row's scale is nothing beside it
    }
    return 0;
}

namespace {

// The projections that a product is, or is made of where one product serves several.
std::span<const AdaptedModule> projections_of(std::string_view product) {
    using enum AdaptedModule;
    struct Named {
        std::string_view name;
        std::vector<AdaptedModule> are;
    };
    static const std::vector<Named> all{{"qkv", {query, key, value}},
                                        {"query", {query}},
                                        {"key", {key}},
                                        {"value", {value}},
                                        {"attention_output", {output}},
                                        {"ffn_gate", {gate}},
                                        {"ffn_up", {up}},
                                        {"ffn_down", {down}},
                                        {"shared_up", {gate, up}},
                                        {"shared_down", {down}}};
    const auto found = std::ranges::find(all, product, &Named::name);
    return found == all.end() ? std::span<const AdaptedModule>() : found->are;
}

// A product that makes several projections at once has adapters if one of them has. Of all linear
// layers each has them but the router, and products of a constant.
bool has_adapters(const Linear& l, const Workload& w, const RankShape& s) {
    const bool with_gate = l.name == "ffn_up" && w.gated && s.fused_projections;
    const auto own = projections_of(with_gate ? "shared_up" : l.name);
    const auto listed = [&](AdaptedModule module) { return contains(w.adapter_modules, module); };
    if (!w.adapter_modules.empty()) return std::ranges::any_of(own, listed);
    if (w.adapter_on == Adapted::linear)
        return l.name != "router" && !l.constant_input && !l.detached;
    return !own.empty() && own.front() <= AdaptedModule::output;
}

// Packed are the weights of all linear layers, with adapters or without.
Block adapted(Block block, const Workload& w, const RankShape& s) {
    for (Operator& op : block) {
        auto* const l = std::get_if<Linear>(&op);
        if (l == nullptr) continue;
        l->packed = packed_bytes(w);
        if (s.adapters && has_adapters(*l, w, s)) l->adapter_rank = w.adapter_rank;
    }
    return block;
}

// Forks the residual stream: one reader is the norm, the other is the residual sum at the end of
// the block.
void add_norm(Block& b, const Workload& w, const RankShape& s, std::string_view name,
              Dtype product) {
    const double outer = number(s.outer_tokens * s.hidden);
    b.insert(b.end(), {Fork{"residual_backward", outer},
                       Normalize{name, s.outer_tokens, w.hidden, product}, Cast{outer}});
}

// Products of all tokens that read the model's width, or make it of parts that are summed.
Linear from_hidden(std::string_view name, const Workload& w, const RankShape& s, Width out,
                   Split split = Split::column) {
    return {.name = name,
            .tokens = s.tokens,
            .out = out,
            .in = w.hidden,
            .dtype = s.matrix,
            .split = split};
}
Linear to_hidden(std::string_view name, const Workload& w, const RankShape& s, Width in) {
    return {.name = name,
            .tokens = s.tokens,
            .out = w.hidden,
            .in = in,
            .dtype = s.matrix,
            .split = Split::row,
            .bias = w.linear_bias};
}

Width heads_of(const Workload& w, const RankShape& s) { return {w.heads, s.heads}; }
Width kv_heads_of(const Workload& w, const RankShape& s) { return {kv_heads(w), s.kv_heads}; }

void add_projections(Block& b, const Workload& w, const RankShape& s) {
    const Width queries = heads_of(w, s) * (s.qk_dim * (w.attention_gate ? 2 : 1)),
                keys = kv_heads_of(w, s) * s.qk_dim;
    const auto linear = [&](std::string_view name, Width out, Split split) {
        Linear l = from_hidden(name, w, s, out, split);
        l.bias = w.qkv_bias;
        l.after_norm = name != "query";
        return l;
    };
    if (s.fused_projections) return b.push_back(linear("qkv", queries + keys * 2, Split::column));
    b.push_back(Fork{"input_gradient_sum", number(s.tokens * s.hidden), 3});
    b.insert(b.end(), {linear("query", queries, Split::column), linear("key", keys, Split::none),
                       linear("value", keys, Split::none)});
}

void add_residual(Block& b, const Workload& w, const RankShape& s) {
    if (w.post_norms)
        b.push_back(Normalize{.name = "post_norm",
                              .rows = s.outer_tokens,
                              .width = w.hidden,
                              .product = s.storage,
                              .inner = true});
    b.push_back(Residual{w.linear_bias});
}

// Queries, keys and values come from low-rank latents, with one rotary key for all heads
// (DeepSeek-V2, arXiv 2405.04434, section 2.1). The projections have no biases. The projections to
// the latents are not split over tensor-parallel ranks.
void add_latent_projections(Block& b, const Workload& w, const RankShape& s) {
    const Mla& m = w.mla;
    const Width heads = heads_of(w, s);
    const long latents = m.q_rank + m.kv_rank;
    b.push_back(Linear{.name = "mla_down",
                       .tokens = s.outer_tokens,
                       .out = latents + m.rope_dim,
                       .in = w.hidden,
                       .dtype = s.matrix});
    b.push_back(Normalize{"latent_norm", s.outer_tokens, latents, s.matrix, 2});
    b.push_back(Linear{.name = "mla_query_up",
                       .tokens = s.tokens,
                       .out = heads * s.qk_dim,
                       .in = m.q_rank > 0 ? m.q_rank : w.hidden,
                       .dtype = s.matrix,
                       .split = Split::column});
    b.push_back(Linear{.name = "mla_key_value_up",
                       .tokens = s.tokens,
                       .out = heads * (m.nope_dim + m.value_dim),
                       .in = m.kv_rank,
                       .dtype = s.matrix});
}

// The indexer reads the block's normed input and the queries' latent, and sends no gradient back to
// them. Every tensor-parallel rank runs all of it, on the tokens of all (Megatron-Core 0.16.0,
// dsa.py: parallel_mode="duplicated", gather_from_sequence_parallel_region). Queries and the one
// key of a token are rotated twice: by position, and by a Hadamard matrix.
void add_indexer(Block& b, const Workload& w, const RankShape& s) {
    const Indexer& x = w.indexer;
    const long width = long{x.heads} * x.head_dim;
    const double rotated = number(s.tokens * (width + x.head_dim));
    const auto linear = [&](std::string_view name, long out, long in, Split split) {
        return Linear{.name = name,
                      .tokens = s.tokens,
                      .out = out,
                      .in = in,
                      .dtype = s.matrix,
                      .split = split,
                      .after_norm = name == "indexer_weights",
                      .detached = true};
    };
    b.push_back(
        linear("indexer_query", width, w.mla.q_rank > 0 ? w.mla.q_rank : w.hidden, Split::whole));
    b.push_back(linear("indexer_key", x.head_dim, w.hidden, Split::whole));
    b.push_back(linear("indexer_weights", x.heads, w.hidden, Split::none));
    b.push_back(Normalize{.name = "indexer_norm",
                          .rows = s.tokens,
                          .width = x.head_dim,
                          .product = s.storage,
                          .inner = true,
                          .shifted = true});
    b.push_back(
        Elementwise{.name = "indexer_rotation", .read = 2 * rotated, .written = 2 * rotated});
    b.push_back(Index{});
}

Linear attention_output(const Workload& w, const RankShape& s) {
    Linear l = to_hidden("attention_output", w, s, heads_of(w, s) * s.value_dim);
    l.bias = w.linear_bias && w.positions != Positions::relative;
    return l;
}

// Transformer-XL (arXiv 1901.02860, section 3.3) has no biases. It projects memory and input
// together, and positions once for all sequences.
Block relative_attention(const Workload& w, const RankShape& s) {
    const long keys = s.seq + w.memory;
    const Width queries = heads_of(w, s) * s.qk_dim, kv = kv_heads_of(w, s) * s.qk_dim;
    const double outer = number(s.outer_tokens * s.hidden);
    return {Fork{"residual_backward", outer},
            WithMemory{},
            Cast{number(s.batch * keys * s.hidden)},
            Linear{.name = "qkv",
                   .tokens = s.batch * keys,
                   .out = queries + kv * 2,
                   .in = w.hidden,
                   .dtype = s.matrix},
            Linear{.name = "position_projection",
                   .tokens = keys,
                   .out = queries,
                   .in = w.hidden,
                   .dtype = s.matrix,
                   .constant_input = true},
            AttendRelative{},
            attention_output(w, s),
            Residual{w.linear_bias},
            Normalize{"attention_norm", s.outer_tokens, w.hidden, s.matrix}};
}

// One number a token, of its own product, multiplies what the shared experts give.
void add_shared_gate(Block& b, const Workload& w, const RankShape& s) {
    const double outer = number(s.outer_tokens * s.hidden);
    b.push_back(Linear{.name = "shared_gate",
                       .tokens = s.outer_tokens,
                       .out = 1,
                       .in = w.hidden,
                       .dtype = s.storage});
    b.push_back(
        Elementwise{.name = "shared_gate_product", .read = outer, .written = outer, .kept = outer});
}

}  // namespace

FlashGeneration flash_generation(AttentionKind kind) {
    if (kind == AttentionKind::flash2) return FlashGeneration::second;
    return kind == AttentionKind::triton ? FlashGeneration::triton : FlashGeneration::best;
}

Block attention_block(const Workload& w, const RankShape& s) {
    if (w.positions == Positions::relative) return adapted(relative_attention(w, s), w, s);
    const bool latent = is_latent(w);
    Block b;
    add_norm(b, w, s, "attention_norm", s.matrix);
    latent ? add_latent_projections(b, w, s) : add_projections(b, w, s);
    if (w.indexer.heads > 0) add_indexer(b, w, s);
    if (w.qk_norm && !latent)
        for (const auto& [name, heads] :
             {std::pair{"query_norm", s.heads}, {"key_norm", s.kv_heads}})
            b.push_back(Normalize{.name = name,
                                  .rows = s.tokens * heads,
                                  .width = s.qk_dim,
                                  .product = s.storage,
                                  .inner = true});
    b.push_back(HeadLayout{s.heads, s.kv_heads, w.qkv_bias && !latent});
    b.push_back(Attend{s.heads, s.kv_heads});
    if (const double result = number(s.tokens * s.heads * s.value_dim); w.attention_gate)
        b.push_back(Elementwise{.name = "attention_gate",
                                .read = 2 * result,
                                .written = result,
                                .kept = result,
                                .into_product = true});
    b.push_back(attention_output(w, s));
    add_residual(b, w, s);
    return adapted(std::move(b), w, s);
}

// In order: one projection to gate and input (heads x width each), B and C (groups x state each)
// and one step size per head; a short convolution over input, B and C; the scan; a norm with the
// gate; the output projection.
Block mamba_block(const Workload& w, const RankShape& s) {
    const Mamba& m = w.mamba;
    const Scan scan{{m.heads, s.mamba_heads}, {m.groups, s.mamba_groups}, m.head_dim, m.state};
    const double inner = number(s.tokens * scan.inner().rank),
                 around = number(s.tokens * scan.around().rank);
    Block b;
    add_norm(b, w, s, "mamba_norm", s.matrix);
    b.push_back(from_hidden("mamba_in", w, s, scan.inner() + scan.around() + scan.heads));
    b.push_back(Elementwise{.name = "convolution",
                            .read = around,
                            .written = around,
                            .kept = around,
                            .weights = 4.0 * number(scan.around().rank)});
    b.push_back(scan);
    b.push_back(
        Elementwise{.name = "gated_norm", .read = 2 * inner, .written = inner, .kept = 2 * inner});
    b.push_back(to_hidden("mamba_out", w, s, scan.inner()));
    b.push_back(Residual{w.linear_bias});
    return adapted(std::move(b), w, s);
}

// In order: a projection to queries, keys, values and gate, and to step size and decay of each
// value head; a short convolution over queries, keys and values; decay and step size, with a bias
// and a factor a head; the delta rule; a norm of each head's result with the gate; the output
// projection.
Block delta_block(const Workload& w, const RankShape& s) {
    const Delta& d = w.delta;
    const Width keys{delta_key_heads(w), s.delta_key_heads},
        values{d.value_heads, s.delta_value_heads};
    const DeltaRule rule{keys, values, d.key_dim, d.value_dim};
    const double inner = number(s.tokens * rule.inner().rank),
                 around = number(s.tokens * rule.around().rank),
                 gates = number(s.tokens * values.rank);
    const auto linear = [&](std::string_view name, Width out, Split split) {
        Linear l = from_hidden(name, w, s, out, split);
        l.after_norm = true;
        return l;
    };
    Block b;
    add_norm(b, w, s, "delta_norm", s.matrix);
    const Width wide = rule.around() + rule.inner();
    if (s.fused_projections) {
        b.push_back(linear("delta_in", wide + values * 2, Split::column));
    } else {
        b.push_back(Fork{"input_gradient_sum", number(s.tokens * s.hidden)});
        b.push_back(linear("delta_in", wide, Split::column));
        b.push_back(linear("delta_gates_in", values * 2, Split::none));
    }
    b.push_back(Elementwise{.name = "convolution",
                            .read = around,
                            .written = around,
                            .kept = around,
                            .weights = number(d.conv * rule.around().rank)});
    b.push_back(Elementwise{.name = "delta_gates",
                            .read = 2 * gates,
                            .written = 3 * gates,
                            .kept = 2 * gates,
                            .weights = number(2 * values.rank)});
    b.push_back(rule);
    b.push_back(Elementwise{.name = "gated_norm",
                            .read = 2 * inner,
                            .written = inner,
                            .kept = 2 * inner,
                            .into_product = true,
                            .weights = number(d.value_dim)});
    b.push_back(to_hidden("delta_out", w, s, rule.inner()));
    add_residual(b, w, s);
    return adapted(std::move(b), w, s);
}

std::vector<SharedBlock> mixing_blocks(const Workload& w, const RankShape& s, bool attends) {
    if (!attends) return {{1, delta_block(w, s)}};
    if (w.mamba.heads == 0) return {{1, attention_block(w, s)}};
    std::vector<SharedBlock> blocks{{1, mamba_block(w, s)}};
    if (w.mamba.attention > 0) blocks.push_back({w.mamba.attention, attention_block(w, s)});
    return blocks;
}

Block mixing_block(const Workload& w, const RankShape& s, bool attends) {
    if (!attends) return delta_block(w, s);
    if (w.mamba.heads == 0) return attention_block(w, s);
    Block b = mamba_block(w, s);
    if (w.mamba.attention == 0) return b;
    RankShape part = s;
    const auto share = [&](long heads) {
        return std::max(1L, std::lround(w.mamba.attention * number(heads)));
    };
    part.heads = share(s.heads);
    part.kv_heads = share(s.kv_heads);
    const Block attention = attention_block(w, part);
    append(b, attention);
    return b;
}

Block feed_forward_block(const Workload& w, const RankShape& s) {
    const Width ffn{w.ffn, s.ffn};
    // A gate and its input are one product, followed by one kernel for gate and activation, or
    // `separate` products.
    const bool at_once = w.gated && s.fused_projections, separate = w.gated && !s.fused_projections,
               by_steps = separate && !s.fused_gate;
    const int inputs = w.gated && !by_steps ? 2 : 1;
    const auto up = [&](std::string_view name, Split split) {
        Linear l = from_hidden(name, w, s, ffn * (at_once ? 2 : 1), split);
        l.bias = w.linear_bias;
        l.after_norm = name == "ffn_up";
        return l;
    };
    Block b;
    add_norm(b, w, s, "ffn_norm", s.matrix);
    if (separate) b.push_back(Fork{"input_gradient_sum", number(s.tokens * s.hidden)});
    b.push_back(separate ? up("ffn_gate", Split::column) : up("ffn_up", Split::column));
    if (separate && !by_steps) b.push_back(up("ffn_up", Split::none));
    b.push_back(
        Activate{.width = ffn, .inputs = inputs, .bias = w.linear_bias, .into_product = !by_steps});
    if (by_steps) {
        const double inner = number(s.tokens * s.ffn);
        b.push_back(up("ffn_up", Split::none));
        b.push_back(Elementwise{.name = "gate_product",
                                .read = 2 * inner,
                                .written = inner,
                                .kept = inner,
                                .into_product = true});
    }
    b.push_back(to_hidden("ffn_down", w, s, ffn));
    add_residual(b, w, s);
    return adapted(std::move(b), w, s);
}

// Shared experts form a dense block that every token passes through.
Block expert_block(const Workload& w, const RankShape& s) {
    const int inputs = w.gated ? 2 : 1;
    const Width ffn{expert_ffn(w), s.expert_ffn}, shared{shared_ffn(w), s.shared_ffn};
    Block b;
    add_norm(b, w, s, "ffn_norm", s.matrix);
    b.push_back(Linear{.name = "router",
                       .tokens = s.routed_tokens,
                       .out = w.moe.experts,
                       .in = w.hidden,
                       .dtype = s.storage,
                       .bias = w.moe.router_bias});
    b.push_back(Route{});
    b.push_back(ToExperts{});
    b.push_back(GroupedLinear{"experts_up", "experts_up_weight", ffn * inputs, w.hidden,
                              Split::column, w.linear_bias});
    b.push_back(Activate{.rows = Activate::Rows::expert_slots, .width = ffn, .inputs = inputs});
    b.push_back(GroupedLinear{"experts_down", "experts_down_weight", w.hidden, ffn, Split::row,
                              w.linear_bias});
    b.push_back(FromExperts{});
    if (w.moe.shared_experts > 0) {
        Linear up = from_hidden("shared_up", w, s, shared * inputs);
        up.bias = w.linear_bias;
        up.after_norm = true;
        b.push_back(up);
        b.push_back(Activate{.width = shared, .inputs = inputs});
        b.push_back(to_hidden("shared_down", w, s, shared));
        if (w.moe.shared_gate) add_shared_gate(b, w, s);
        b.push_back(AddShared{});
    }
    add_residual(b, w, s);
    return adapted(std::move(b), w, s);
}

std::vector<SharedBlock> layer_blocks(const Workload& w, const RankShape& s, int layer) {
    std::vector<SharedBlock> blocks = mixing_blocks(w, s, has_attention(w, layer));
    blocks.push_back({1, has_experts(w, layer) ? expert_block(w, s) : feed_forward_block(w, s)});
    return blocks;
}

std::vector<bool> alternate_runs(std::span<const Operator> operators, int tp) {
    std::vector<bool> runs;
    int products = 0;
    for (const Operator& op : operators)
        runs.push_back(std::visit(
            [&]<class T>(const T& of) {
                if constexpr (std::same_as<T, Linear>)
                    return of.name == "router" ||
                           (products++ % 2 == 1 && (tp == 1 || of.split != Split::row));
                return OneOf<T, Normalize, HeadLayout, Activate, Elementwise, Residual, Route,
                             ToExperts, GroupedLinear, FromExperts, AddShared>;
            },
            op));
    return runs;
}

namespace {

// Which modules hold an operator of a block; none of residual stream and attention.
struct HoldingModules {
    bool experts;  // the block has a router
    bool latent;   // its attention is latent

    using enum RecomputedModule;
    using Modules = std::vector<RecomputedModule>;
    Modules operator()(const Normalize& op) const {
        if (op.name == "attention_norm") return latent ? Modules{layernorm} : Modules{};
        if (op.name != "ffn_norm") return {};
        return {experts ? layernorm : mlp};
    }
    Modules operator()(const Linear& op) const {
        if (op.name == "router") return {moe};
        if (op.name.starts_with("shared")) return {moe, shared_experts};
        if (op.name.starts_with("ffn")) return {mlp};
        if (latent && op.name.ends_with("_up")) return {mla_up_proj};
        return {};
    }
    Modules operator()(const Activate& op) const {
        if (op.rows == Activate::Rows::expert_slots) return {moe, moe_act};
        return experts ? Modules{moe, shared_experts} : Modules{mlp};
    }
    Modules operator()(const Elementwise& op) const {
        if (op.name == "gate_product") return {mlp};
        return op.name == "shared_gate_product" ? Modules{moe, shared_experts} : Modules{};
    }
    Modules operator()(const HeadLayout&) const {
        return latent ? Modules{mla_up_proj} : Modules{};
    }
    Modules operator()(
        const OneOf<Route, ToExperts, GroupedLinear, FromExperts, AddShared> auto&) const {
        return {RecomputedModule::moe};
    }
    Modules operator()(const auto&) const { return {}; }
};

}  // namespace

std::vector<bool> selective_runs(std::span<const Operator> operators, const Experiment& e) {
    const bool experts = std::ranges::any_of(
        operators, [](const Operator& op) { return std::holds_alternative<Route>(op); });
    const HoldingModules holding{experts, is_latent(e.workload)};
    std::vector<bool> runs;
    for (const Operator& op : operators)
        runs.push_back(std::ranges::any_of(std::visit(holding, op), [&](RecomputedModule module) {
            return runs_again(e.parallelism, module);
        }));
    return runs;
}

// The projection is not split over tensor-parallel ranks.
Block prediction_block(const Workload& w, const RankShape& s) {
    return {Embed{}, Normalize{"mtp_embedding_norm", s.outer_tokens, w.hidden, s.matrix},
            Normalize{"mtp_norm", s.outer_tokens, w.hidden, s.matrix},
            Linear{.name = "mtp_projection",
                   .tokens = s.outer_tokens,
                   .out = w.hidden,
                   .in = 2L * w.hidden,
                   .dtype = s.matrix}};
}

Block embedding_block() { return {Embed{}}; }

// Transformer-XL has no final norm, and its logits have a bias.
Block head_block(const Workload& w, const RankShape& s) {
    const double outer = number(s.outer_tokens * s.hidden);
    if (w.head == Head::span)
        return {Cast{outer},
                Linear{.name = "span",
                       .tokens = s.tokens,
                       .out = 2,
                       .in = w.hidden,
                       .dtype = s.matrix,
                       .bias = true},
                SpanLoss{}};
    const bool relative = w.positions == Positions::relative;
    Block b;
    if (relative)
        b.push_back(Cast{outer});
    else
        // its Fork is one too many, but the recorded host runs contain it
        add_norm(b, w, s, "final_norm", s.storage);
    b.push_back(Linear{.name = "logits",
                       .tokens = s.head_tokens,
                       .out = {w.vocab, s.vocab},
                       .in = w.hidden,
                       .dtype = s.storage,
                       .split = Split::column,
                       .bias = relative,
                       .logits = true});
    b.push_back(Loss{});
    return b;
}

}  // namespace stepcast
