#include "model/input/remarks.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "model/machine/capability.h"
#include "model/machine/lacks.h"
#include "model/machine/measured_tables.h"
#include "model/runtime_rules.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

using Kind = Workload::Kind;
using Remarks = std::vector<std::string>;
using Has = bool(const Experiment&);

// Keys that only steps with a feature read. A key that ends with a dot stands for its whole table.
struct Feature {
    std::string_view keys;  // separated by spaces
    Has* there;
    std::string_view lacks;  // what is the case without it
};

bool is_transformer(const Experiment& e) { return e.workload.kind == Kind::transformer; }
bool has_attention(const Experiment& e) {
    return is_transformer(e) || e.workload.kind == Kind::coca;
}
bool has_experts(const Experiment& e) { return e.workload.moe.experts > 0; }
bool has_tensor_ranks(const Experiment& e) { return e.parallelism.tp > 1; }
bool has_stages(const Experiment& e) { return e.parallelism.pp > 1; }
bool has_replicas(const Experiment& e) { return ranks_of_weights(e.parallelism) > 1; }

constexpr Feature features[] = {
    {"workload.moe. runtime.experts.tensor_parallel runtime.experts.dispatch "
     "runtime.experts.products parallelism.moe_system",
     has_experts, "workload.moe.experts is 0"},
    {"workload.moe.shared_ffn workload.moe.shared_gate",
     [](const Experiment& e) { return e.workload.moe.shared_experts > 0 || !has_experts(e); },
     "workload.moe.shared_experts is 0"},
    {"runtime.kernels", [](const Experiment& e) { return is_transformer(e) || !is_eager(e); },
     "workload.kind is no transformer"},
    {"workload.moe.top_groups",
     [](const Experiment& e) { return e.workload.moe.groups > 1 || !has_experts(e); },
     "workload.moe.groups is 1"},
    {"workload.mla.", [](const Experiment& e) { return is_latent(e.workload); },
     "workload.mla.kv_rank is 0"},
    {"runtime.attention", [](const Experiment& e) { return !is_latent(e.workload); },
     "MLA (workload.mla) has its own kernel"},
    {"workload.mamba.", [](const Experiment& e) { return e.workload.mamba.heads > 0; },
     "workload.mamba.heads is 0"},
    {"workload.delta.", [](const Experiment& e) { return e.workload.delta.value_heads > 0; },
     "workload.delta.value_heads is 0"},
    {"workload.indexer.", [](const Experiment& e) { return e.workload.indexer.heads > 0; },
     "workload.indexer.heads is 0"},
    {"workload.kv_heads workload.head_dim workload.vocab workload.max_positions runtime.autocast",
     has_attention, "its layers have no attention (workload.kind)"},
    {"runtime.vocab_multiple workload.tied workload.memory workload.window workload.token_types "
     "workload.norm workload.causal "
     "workload.linear_bias workload.qkv_bias workload.head workload.head_share "
     "workload.table_slices workload.mamba.heads workload.delta.value_heads "
     "workload.indexer.heads "
     "runtime.loss.fused runtime.loss.logits workload.fp32_loss runtime.loss.pieces "
     "runtime.loss.in_forward "
     "runtime.optimizer.reads_loss "
     "workload.moe.groups workload.moe.router_bias parallelism.head_apart "
     "runtime.gradients.fused_accumulation "
     "runtime.gradients.freed runtime.experts.tensor_parallel runtime.experts.dispatch",
     is_transformer, "workload.kind is no transformer"},
    {"runtime.optimizer.clip_scales runtime.optimizer.fused runtime.optimizer.calls",
     is_transformer, "workload.kind is no transformer"},
    {"runtime.fused_gate",
     [](const Experiment& e) { return e.workload.gated && !e.runtime.fused_projections; },
     "there are no separate projections of a gated feed-forward"},
    {"runtime.optimizer.calls", [](const Experiment& e) { return optimizer_groups(e) > 1; },
     "runtime.optimizer.groups is 1"},
    {"runtime.gradients.join_tied",
     [](const Experiment& e) { return has_stages(e) && e.workload.tied; },
     "there are no stages with tied embeddings"},
    {"runtime.experts.tensor_parallel", has_tensor_ranks, "parallelism.tp is 1"},
    {"runtime.experts.dispatch", [](const Experiment& e) { return e.parallelism.ep > 1; },
     "parallelism.ep is 1"},
    {"routing.skew",
     [](const Experiment& e) { return e.routing.kind != RoutingSpec::Kind::uniform; },
     "routing.kind is uniform"},
    {"workload.window_share", [](const Experiment& e) { return e.workload.window > 0; },
     "workload.window is 0"},
    {"workload.score_dropout workload.inner_dropout",
     [](const Experiment& e) { return e.workload.dropout > 0; }, "workload.dropout is 0"},
    {"workload.adapter_on workload.adapter_modules workload.frozen",
     [](const Experiment& e) { return e.workload.adapter_rank > 0; }, "workload.adapter_rank is 0"},
    {"workload.reference_forwards",
     [](const Experiment& e) { return e.workload.reference != Reference::none; },
     "workload.reference is none"},
    {"workload.max_positions",
     [](const Experiment& e) { return e.workload.positions == Positions::learned; },
     "workload.positions is not learned"},
    {"workload.vision. workload.decoder. workload.patch workload.pool_queries",
     [](const Experiment& e) { return e.workload.kind == Kind::coca; },
     "workload.kind is not coca"},
    {"runtime.optimizer.host_gradients cluster.host_memory.",
     [](const Experiment& e) { return e.run.offload_optimizer; }, "run.offload_optimizer is false"},
    {"runtime.gradients.flat", [](const Experiment& e) { return e.parallelism.zero > 0; },
     "parallelism.zero is 0"},
    {"runtime.optimizer.part",
     [](const Experiment& e) { return has_flat_gradients(e) && e.parallelism.zero == 3; },
     "parallelism.zero is not 3, or runtime.gradients.flat is false"},
    {"runtime.root_unit", [](const Experiment& e) { return e.parallelism.zero == 3; },
     "parallelism.zero is not 3"},
    {"runtime.weight_shards",
     [](const Experiment& e) { return e.parallelism.zero == 3 || has_tensor_ranks(e); },
     "parallelism.zero is not 3, and parallelism.tp is 1"},
    {"runtime.reuse_distance", gathers_by_module,
     "no module gathers weights of its own (parallelism.zero, runtime.module_hooks)"},
    {"runtime.optimizer.muon",
     [](const Experiment& e) { return e.workload.optimizer == Optimizer::muon; },
     "workload.optimizer is not muon"},
    {"runtime.optimizer.groups runtime.optimizer.calls runtime.optimizer.clip_scales "
     "runtime.optimizer.fused",
     [](const Experiment& e) { return e.workload.optimizer != Optimizer::none; },
     "workload.optimizer is none"},
    {"parallelism.sequence_parallel runtime.exchanges.tensor runtime.exchanges.weight_gradient "
     "runtime.gather_copies",
     has_tensor_ranks, "parallelism.tp is 1"},
    {"parallelism.vp parallelism.schedule runtime.exchanges.sends runtime.pipeline.blocking "
     "runtime.pipeline.messages_per_tensor "
     "runtime.pipeline.messages_per_tuple runtime.pipeline.resend_first_stage "
     "runtime.pipeline.gradient_tensors "
     "runtime.gradients.clip_per_rank "
     "runtime.exchanges.scatter_sends parallelism.cut",
     has_stages, "parallelism.pp is 1"},
    {"parallelism.layout",
     [](const Experiment& e) { return e.parallelism.pp * e.parallelism.vp > 1; },
     "there is one stage chunk"},
    {"runtime.context_exchange", [](const Experiment& e) { return e.parallelism.cp > 1; },
     "parallelism.cp is 1"},
    {"parallelism.zero",
     [](const Experiment& e) { return has_replicas(e) || e.run.offload_optimizer; },
     "there is one replica"},
    {"runtime.gradients.bucket runtime.gradients.pieces", has_replicas, "there is one replica"},
    {"runtime.eager_traffic", [](const Experiment& e) { return is_eager(e); },
     "runtime.kernels is not eager"},
    {"runtime.recompute_stops_early",
     [](const Experiment& e) { return recomputes_layers(e.parallelism); },
     "parallelism.recompute is not full"},
    {"parallelism.recompute_modules",
     [](const Experiment& e) { return e.parallelism.recompute == Recompute::selective; },
     "parallelism.recompute is not selective"},
    {"parallelism.recompute_modules",
     [](const Experiment& e) {
         const auto& named = e.parallelism.recompute_modules;
         return modules_of(e.workload, named) == named;
     },
     "the model lacks some of these modules"},
    {"routing.kind routing.skew routing.skew_spread routing.file", has_experts,
     "workload.moe.experts is 0"},
};

bool names(std::string_view keys, std::string_view key) {
    for (std::size_t at = 0; at < keys.size();) {
        const auto end = std::min(keys.find(' ', at), keys.size());
        const auto one = keys.substr(at, end - at);
        if (one == key || (one.ends_with('.') && key.starts_with(one))) return true;
        at = end + 1;
    }
    return false;
}

bool was_replaced(const Experiment& e, std::string_view key) {
    return contains(e.overlay.under, key, &Override::key);
}

// Keys with another value than the default that their step does not read. What a framework or a
// cluster's file sets counts for many experiments, so it is not looked at.
void add_idle_keys(const Experiment& e, Remarks& remarks) {
    static const Experiment defaults;
    for (const std::string_view table : {"workload.", "parallelism.", "runtime.", "routing."})
        for (const Key& key : keys_of(table)) {
            if (is_preset(key) || was_replaced(e, key.path)) continue;
            const auto feature = first_where(
                features, [&](const Feature& f) { return names(f.keys, key.path) && !f.there(e); });
            if (!feature) continue;
            if (const auto value = text_of(key, e); value != text_of(key, defaults))
                add_line(remarks, "{} = {} changes nothing: {}", key.path, value, feature->lacks);
        }
}

void add_odd_sizes(const Experiment& e, Remarks& remarks) {
    const Workload& w = e.workload;
    if (w.window > w.seq)
        add_line(remarks,
                 "workload.window = {} reaches beyond workload.seq = {}: as if there were none",
                 w.window, w.seq);
    if (w.head_share == 0 && is_transformer(e))
        remarks.emplace_back("workload.head_share = 0 leaves no logits");
    if (w.vocab == 1) remarks.emplace_back("workload.vocab = 1 leaves nothing to predict");
    if (w.adapter_rank > w.hidden)
        add_line(remarks,
                 "workload.adapter_rank = {} is above workload.hidden = {}, so adapters "
                 "have more weights than what they "
                 "adapt",
                 w.adapter_rank, w.hidden);
    if (const double all = real(w.moe.experts) / w.moe.top_k;
        w.moe.experts > 0 && w.moe.capacity_factor > all)
        add_line(remarks,
                 "workload.moe.capacity_factor = {} is above experts / top_k = {:.4g}: each "
                 "expert has room for more than all tokens",
                 w.moe.capacity_factor, all);
    if (w.max_positions > 0 && w.max_positions < w.seq && w.positions == Positions::learned &&
        is_transformer(e))
        add_line(remarks,
                 "workload.max_positions = {} is below workload.seq = {}: positions beyond "
                 "it have no row",
                 w.max_positions, w.seq);
}

// Bounds a factor of ten and more away from every device and link that is built.
void add_odd_machine(const Experiment& e, Remarks& remarks) {
    const Cluster& c = e.cluster;
    const auto check = [&](std::string_view key, auto value, decltype(value) least,
                           decltype(value) most) {
        if (value > decltype(value)(0) && (value < least || value > most))
            add_line(remarks, "cluster.{} = {} is that of no machine; expected {} to {}", key,
                     to_string(value), to_string(least), to_string(most));
    };
    if (c.network.oversubscription != 1 && c.nodes <= c.network.nodes_per_leaf)
        add_line(remarks,
                 "cluster.network.oversubscription = {} changes nothing: all {} nodes meet "
                 "below the spine",
                 c.network.oversubscription, c.nodes);
    check("gpu.memory", c.gpu.memory, Bytes(100e6), Bytes(10e12));
    check("gpu.memory_bandwidth", c.gpu.memory_bandwidth, BytesPerSecond(100e6),
          BytesPerSecond(1e15));
    check(fmt::format("gpu.peak.{}", to_string(e.workload.dtype)), c.gpu.peaks[e.workload.dtype],
          FlopsPerSecond(1e9), FlopsPerSecond(1e18));
    check("link.intra.bandwidth", c.intra.bandwidth, BytesPerSecond(10e6), BytesPerSecond(100e12));
    check("link.inter.bandwidth", c.inter.bandwidth, BytesPerSecond(1e6), BytesPerSecond(10e12));
}

// A stated rate beside measured tables of what it would price.
void add_measured_rates(const Experiment& e, Remarks& remarks) {
    for (const std::string& stated : e.overlay.stated) {
        if (!stated.starts_with("cluster.")) continue;
        std::vector<std::string> measured;
        for (const std::string& table : tables_before(stated.substr(std::size("cluster.") - 1)))
            if (const std::string key = "cluster." + table; text_of(*find_key(key), e) != "[]")
                measured.push_back(key);
        if (!measured.empty())
            add_line(remarks,
                     "{} = {} changes nothing of what was measured on this machine; {} = [] "
                     "takes its cost model instead",
                     stated, text_of(*find_key(stated), e), joined(measured, " = [], "));
    }
}

constexpr std::string_view attention_key = "runtime.attention";

void add_lacks(const Experiment& e, Remarks& remarks) {
    if (!is_transformer(e)) return;
    const bool latent = is_latent(e.workload);
    const auto check = [&](std::string_view key, std::string_view value, const std::string& what) {
        const Lack* const lack = lack_of(e.cluster.gpu, key, value);
        if (!lack) return;
        add_line(remarks, "{} is not there on {}, whose compute capability is below {} ({}); {}",
                 what, e.cluster.gpu.name, lack->capability, lack->source,
                 (latent && key == attention_key) || lack->instead.empty()
                     ? "the forecast is of what cannot run"
                     : "expected " + lack->instead);
    };
    const auto kernel = to_string(attention_kernel(e)),
               dispatch = to_string(e.runtime.experts.dispatch);
    check(attention_key, kernel,
          latent ? "MLA (workload.mla)" : fmt::format("{} = {}", attention_key, kernel));
    check("runtime.experts.dispatch", dispatch,
          fmt::format("runtime.experts.dispatch = {}", dispatch));
}

// A device of a maker or a generation that its peaks do not tell (generation.h).
void add_unknown_device(const Experiment& e, Remarks& remarks) {
    const Cluster& c = e.cluster;
    const bool is_host = c.gpu.peaks[Dtype::fp16] == FlopsPerSecond(0) &&
                         c.gpu.peaks[Dtype::bf16] == FlopsPerSecond(0);
    if (!is_transformer(e) || is_host || c.overheads.context || capability(c.gpu) > 0) return;
    add_line(remarks,
             "cluster.overheads.context is not stated, and the peaks of {} tell no generation: its "
             "memory is without a context and without buffers of communication, and nothing is "
             "known of kernels that it lacks; of NVIDIA's devices cluster.gpu.peak.tf32, .fp8 and "
             ".fp4 tell it",
             c.gpu.name.empty() ? "the device" : c.gpu.name);
}

// The kernel that stands in for the framework's.
void add_replaced_attention(const Experiment& e, Remarks& remarks) {
    // plain on every device
    const bool written_out = runs_operations(e) || runs_script(e);
    const std::string* const usual = ruled_value(e.framework, attention_key);
    if (!is_transformer(e) || is_latent(e.workload) || written_out || !usual ||
        is_stated(e, attention_key))
        return;
    const Lack* const lack = lack_of(e.cluster.gpu, attention_key, *usual);
    const std::string_view plain = to_string(AttentionKind::plain);
    if (*usual != plain && !fuses_heads(e) && to_string(e.runtime.attention) == plain)
        add_line(
            remarks,
            "{} = plain: the fused kernels of {} take heads of a multiple of 8 elements, not of {}",
            attention_key, e.framework.name, head_dim(e.workload));
    else if (lack && to_string(e.runtime.attention) == lack->instead)
        add_line(remarks, "{} = {}: {} has no {} kernel below compute capability {} ({})",
                 attention_key, lack->instead, e.cluster.gpu.name, *usual, lack->capability,
                 lack->source);
}

// What a named framework decides of a step that is no transformer.
void add_framework(const Experiment& e, Remarks& remarks) {
    if (is_transformer(e) || e.framework.name.empty()) return;
    std::vector<std::string_view> keys;
    for (const Override& one : e.overlay.under) keys.push_back(one.key);
    const auto kind = to_string(e.workload.kind);
    remarks.push_back(
        keys.empty()
            ? fmt::format("framework {} changes nothing of a step of workload.kind {}",
                          e.framework.name, kind)
            : fmt::format("framework {} decides of this {}: {}; the rest of it is of transformers",
                          e.framework.name, kind, joined(keys, ", ")));
}

}  // namespace

bool framework_has_effect(const Experiment& e) {
    return is_transformer(e) || !e.overlay.under.empty() || e.runtime.reserved != 1;
}

std::vector<std::string> remarks_on(const Experiment& e) {
    Remarks remarks;
    add_framework(e, remarks);
    add_lacks(e, remarks);
    add_unknown_device(e, remarks);
    add_replaced_attention(e, remarks);
    add_odd_sizes(e, remarks);
    add_odd_machine(e, remarks);
    add_measured_rates(e, remarks);
    add_idle_keys(e, remarks);
    return remarks;
}

}  // namespace stepcast
