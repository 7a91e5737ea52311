#include "import/launch/lost_keys.h"

#include <algorithm>
#include <functional>
#include <initializer_list>

#include <fmt/format.h>

#include "import/launch/translate.h"
#include "measured/read.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/text_search.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "model/runtime_rules.h"
#include "model/transformer/chunks.h"
#include "model/transformer/counts.h"
#include "model/transformer/schedule.h"

namespace stepcast {
namespace {

// ---- which keys count

// Costs of a framework's own code, which no script states.
bool is_of_framework(std::string_view key) {
    return key.starts_with("cluster.") && may_be_ruled(key);
}

struct Feature {
    std::initializer_list<std::string_view> keys;  // beginnings
    bool (*is_there)(const Experiment&);
};

bool with_experts(const Experiment& e) { return e.workload.moe.experts > 0; }
bool has_stages(const Experiment& e) { return e.parallelism.pp > 1; }

const Feature features[] = {
    {{"workload.moe.top_k", "workload.moe.capacity_factor", "workload.moe.shared_",
      "workload.moe.ffn", "workload.moe.dense_layers", "workload.moe.interval",
      "workload.moe.groups", "workload.moe.top_groups", "workload.moe.router_bias",
      "parallelism.ep", "runtime.experts.", "parallelism.overlap_experts",
      "parallelism.overlap_chunks", "parallelism.moe_system", "routing."},
     with_experts},
    {{"runtime.experts.tensor_parallel"}, [](const Experiment& e) { return e.parallelism.tp > 1; }},
    {{"workload.moe.top_groups"}, [](const Experiment& e) { return e.workload.moe.groups > 1; }},
    {{"routing.skew", "routing.seed", "routing.draws"},
     [](const Experiment& e) { return e.routing.kind != RoutingSpec::Kind::uniform; }},
    {{"routing.file"},
     [](const Experiment& e) { return e.routing.kind == RoutingSpec::Kind::file; }},
    {{"workload.mla.q_rank", "workload.mla.nope_dim", "workload.mla.rope_dim",
      "workload.mla.value_dim"},
     [](const Experiment& e) { return is_latent(e.workload); }},
    {{"runtime.attention"}, [](const Experiment& e) { return !is_latent(e.workload); }},
    {{"workload.mamba.head_dim", "workload.mamba.state", "workload.mamba.groups",
      "workload.mamba.attention"},
     [](const Experiment& e) { return e.workload.mamba.heads > 0; }},
    {{"workload.delta.key_", "workload.delta.value_dim", "workload.delta.conv",
      "workload.delta.interval"},
     [](const Experiment& e) { return e.workload.delta.value_heads > 0; }},
    {{"workload.indexer.head_dim", "workload.indexer.top_k"},
     [](const Experiment& e) { return e.workload.indexer.heads > 0; }},
    {{"workload.vision.", "workload.decoder.", "workload.patch", "workload.pool_queries"},
     [](const Experiment& e) { return e.workload.kind == Workload::Kind::coca; }},
    {{"workload.max_positions"},
     [](const Experiment& e) { return e.workload.positions == Positions::learned; }},
    {{"workload.memory"},
     [](const Experiment& e) { return e.workload.positions == Positions::relative; }},
    {{"workload.window_share"}, [](const Experiment& e) { return e.workload.window > 0; }},
    {{"workload.inner_dropout", "workload.score_dropout"},
     [](const Experiment& e) { return e.workload.dropout > 0; }},
    {{"parallelism.layout"},
     [](const Experiment& e) { return e.parallelism.pp * chunks_per_stage(e.parallelism) > 1; }},
    {{"workload.activation"}, [](const Experiment& e) { return !e.workload.gated; }},
    {{"workload.adapter_on", "workload.adapter_modules", "workload.frozen"},
     [](const Experiment& e) { return e.workload.adapter_rank > 0; }},
    {{"workload.reference_forwards"},
     [](const Experiment& e) { return e.workload.reference != Reference::none; }},
    {{"runtime.host_lead"}, [](const Experiment& e) { return e.parallelism.tp > 1; }},
    {{"runtime.optimizer.flat_gathers"},
     [](const Experiment& e) { return e.parallelism.zero == 1; }},
    {{"runtime.fused_gate"},
     [](const Experiment& e) { return e.workload.gated && !e.runtime.fused_projections; }},
    {{"runtime.eager_traffic"}, [](const Experiment& e) { return is_eager(e); }},
    {{"runtime.context_exchange"}, [](const Experiment& e) { return e.parallelism.cp > 1; }},
    {{"parallelism.stage_layers", "parallelism.cut", "parallelism.head_apart",
      "runtime.exchanges.sends", "runtime.exchanges.scatter_sends", "runtime.pipeline.",
      "runtime.gradients.join_tied"},
     has_stages},
    {{"parallelism.sequence_parallel", "runtime.exchanges.tensor", "runtime.gather_copies",
      "runtime.exchanges.weight_gradient"},
     [](const Experiment& e) { return e.parallelism.tp > 1; }},
    {{"parallelism.shard", "runtime.module_hooks", "runtime.optimizer.part",
      "runtime.reuse_distance", "runtime.root_unit"},
     [](const Experiment& e) { return e.parallelism.zero == 3; }},
    {{"runtime.weight_shards"},
     [](const Experiment& e) { return e.parallelism.zero == 3 || e.parallelism.tp > 1; }},
    {{"runtime.exchanges.parameters"},
     [](const Experiment& e) { return e.parallelism.zero == 1 || e.parallelism.zero == 2; }},
    {{"parallelism.recompute_modules"},
     [](const Experiment& e) { return e.parallelism.recompute == Recompute::selective; }},
    {{"parallelism.recompute_layers", "runtime.recompute_stops_early"},
     [](const Experiment& e) { return recomputes_layers(e.parallelism); }},
    {{"runtime.optimizer.host_gradients"},
     [](const Experiment& e) { return e.run.offload_optimizer; }},
    {{"runtime.optimizer.muon"},
     [](const Experiment& e) { return e.workload.optimizer == Optimizer::muon; }},
    {{"runtime.optimizer.wide_norm", "runtime.gradients.flat"},
     [](const Experiment& e) { return e.parallelism.zero > 0; }},
};

// ---- the two experiments

// Other numbers of dense layers and intervals may put experts in the same layers.
bool have_same_expert_layers(const Workload& a, const Workload& b) {
    if (a.layers != b.layers) return false;
    for (int layer = 0; layer < a.layers; ++layer)
        if (has_experts(a, layer) != has_experts(b, layer)) return false;
    return true;
}

// ---- words

using Formats = std::initializer_list<EmitFormat>;
struct LossReason {
    Formats formats;                               // empty: all
    std::initializer_list<std::string_view> keys;  // beginnings
    std::string_view why;
};

const LossReason loss_reasons[] = {
    {{EmitFormat::deepspeed},
     {"parallelism.pp", "parallelism.stage_layers", "parallelism.layout"},
     "stages are given in code, PipelineModule(num_stages=..)"},
    {{EmitFormat::deepspeed}, {"parallelism.ep"}, "experts are spread in code, MoE(ep_size=..)"},
    {{EmitFormat::deepspeed}, {"parallelism.recompute"}, "the switch is in the model's code"},
    {{EmitFormat::torchtitan_flags},
     {"workload.dtype", "workload.optimizer", "runtime.experts.dispatch"},
     "chosen by its config function"},
    {{}, {"parallelism.dp", "cluster.nodes", "cluster.gpus_per_node"}, "said where it is launched"},
    {{},
     {"cluster.launch_blocking", "runtime.blocking_layers"},
     "CUDA_LAUNCH_BLOCKING=1 in the environment"},
    {{},
     {"workload.adapter_", "workload.frozen", "runtime.kernels", "runtime.composed"},
     "in the model's code"},
    {{}, {"workload.reference"}, "its training has another loss, which reads no reference"},
    {{}, {"routing."}, "where tokens go follows from router and data"},
    {{}, {"workload.head_share", "workload.head"}, "in the model's code and its data"},
    {{EmitFormat::megatron, EmitFormat::megatron_bridge, EmitFormat::nemo},
     {"workload.post_norms"},
     "it has no norms behind blocks"},
};

std::string_view why_of(std::string_view key, EmitFormat format) {
    for (const LossReason& row : loss_reasons) {
        const bool here = row.formats.size() == 0 || contains(row.formats, format);
        if (here && begins_with_any(key, row.keys)) return row.why;
    }
    return "";
}

// torchtitan's and DeepSpeed's files leave the model to code; of it these lines always say what the
// forecast is of.
bool leaves_model_to_code(EmitFormat format) {
    return format == EmitFormat::torchtitan || format == EmitFormat::torchtitan_flags ||
           format == EmitFormat::deepspeed;
}

bool shapes_model(std::string_view key) {
    const bool how =
        begins_with_any(key, {"workload.dtype", "workload.optimizer", "workload.fp32_loss",
                              "workload.head_share", "workload.adapter_", "workload.reference"});
    return key == "runtime.attention" || (key.starts_with("workload.") && !how);
}

bool always_said(std::string_view key) {
    return begins_with_any(
        key, {"workload.gated", "workload.tied", "workload.positions", "workload.norm",
              "runtime.attention", "workload.causal", "workload.linear_bias", "workload.qkv_bias",
              "workload.kv_heads", "workload.head_dim"});
}

// Lines of at most about 100 letters, each with `begin`.
void say_list(const std::string& begin, const std::vector<std::string>& items, Emission& out) {
    std::string line;
    for (const std::string& item : items) {
        if (line.size() + item.size() > 100) {
            out.without.push_back(begin + line);
            line.clear();
        }
        line += (line.empty() ? "" : ", ") + item;
    }
    if (!line.empty()) out.without.push_back(begin + line);
}

ForeignFormat foreign(EmitFormat format) {
    switch (format) {
        case EmitFormat::megatron: return ForeignFormat::megatron;
        case EmitFormat::megatron_bridge: return ForeignFormat::megatron_bridge;
        case EmitFormat::nemo: return ForeignFormat::nemo;
        case EmitFormat::torchtitan: return ForeignFormat::torchtitan;
        case EmitFormat::torchtitan_flags: return ForeignFormat::megatron;  // a launch script
        case EmitFormat::deepspeed: return ForeignFormat::deepspeed;
    }
    return ForeignFormat::none;
}

// What rules make of keys of [runtime] in this step.
void write_out_runtime(Experiment& e) {
    Runtime& r = e.runtime;
    if (r.gradients.bucket != BucketSize::one()) r.gradients.bucket = BucketSize(bucket_bytes(e));
    r.gradients.type = parse_name<GradientType>(to_string(gradient_type(e)));
    r.exchanges.gradients =
        overlaps_gradients(e) ? GradientOverlap::always : GradientOverlap::never;
    r.exchanges.tensor = overlaps_tensor(e) ? TensorOverlap::always : TensorOverlap::never;
    r.experts.tensor_parallel = splits_experts(e) ? ExpertSplit::all : ExpertSplit::none;
    r.experts.dispatch = sends_once(e) ? TokenDispatch::once : TokenDispatch::all_to_all;
    r.optimizer.groups = optimizer_groups(e);
}

// A layout and the layers that it gives are the same, as are even chunks and none stated.
void write_out_stages(const Workload& w, Parallelism& p) {
    if (!p.stage_layers.empty() || p.cut != StageCut::layers || p.pp * p.vp == 1) return;
    p.stage_layers = chunk_layers(w, p);
    p.layout = StageLayout::even;
    if (std::ranges::adjacent_find(p.stage_layers, std::not_equal_to{}) == p.stage_layers.end())
        p.stage_layers.clear();
}

}  // namespace

bool may_change_step(std::string_view key) {
    if (key.starts_with("cluster."))
        return key == "cluster.nodes" || key == "cluster.gpus_per_node" ||
               key == "cluster.launch_blocking" || is_of_framework(key);
    if (key.starts_with("run.")) return key == "run.cuda_graph" || key.starts_with("run.offload_");
    return key != "workload.name" && !key.starts_with("recorded.") &&
           !key.starts_with("framework.");
}

bool acts(std::string_view key, const Experiment& e) {
    return std::ranges::all_of(
        features, [&](const Feature& f) { return !begins_with_any(key, f.keys) || f.is_there(e); });
}

Experiment with_values_written_out(Experiment e) {
    Workload& w = e.workload;
    Parallelism& p = e.parallelism;
    if (w.kv_heads == 0) w.kv_heads = w.heads;
    if (w.head_dim == 0 && w.heads > 0) w.head_dim = w.hidden / w.heads;
    w.max_positions = position_rows(w);
    if (w.moe.ffn == 0) w.moe.ffn = w.ffn;
    if (w.moe.shared_experts > 0) {
        w.moe.shared_ffn = shared_ffn(w);
        w.moe.shared_experts = 1;
    }
    p.global_batch = sequences_of_step(p);
    if (!shards_over_some(p)) p.shard = 0;
    write_out_runtime(e);
    return e;
}

Experiment experiment_of_script(const Experiment& asked, const Translation& script) {
    Experiment back = asked;
    back.workload = {.name = asked.workload.name, .kind = Workload::Kind::transformer};
    back.parallelism = {};
    back.runtime = {};
    back.routing = {};
    back.run = {};
    back.cluster.launch_blocking = false;
    const auto of_split = [](std::string_view key) { return !key.starts_with("cluster."); };
    std::erase_if(back.overlay.stated, of_split);
    std::erase_if(back.overlay.under, [&](const Override& one) { return of_split(one.key); });
    if (!script.framework.empty()) set_key(back, {"framework.preset", script.framework});
    // a preset lies below every key that is stated
    const auto set_those = [&](bool presets) {
        for (const Setting& setting : script.settings)
            if (setting.key.ends_with(".preset") == presets)
                set_key(back, {setting.key, setting.value});
    };
    set_those(true);
    set_those(false);
    if (!script.find("parallelism.dp")) back.parallelism.dp = asked.parallelism.dp;
    apply_framework(back);
    return back;
}

namespace {

// The keys in which the script's experiment differs from the one asked for. Keys that are found are
// set there, because a framework may decide others by them: the model's first, which some files
// leave to code.
class KeyComparison {
public:
    KeyComparison(const Experiment& asked, const Translation& script, EmitFormat format)
        : asked_(with_values_written_out(asked)), back_(experiment_of_script(asked, script)) {
        if (!back_.parallelism.stage_layers.empty())
            write_out_stages(asked_.workload, asked_.parallelism);
        if (leaves_model_to_code(format))
            find([](std::string_view key) { return shapes_model(key); });
        while (find([](std::string_view) { return true; })) {
        }
    }
    struct Lost {
        const Key* key;
        std::string ours, theirs;
    };
    [[nodiscard]] const std::vector<Lost>& lost() const { return lost_; }

private:
    bool find(bool (*wanted)(std::string_view)) {
        if (have_same_expert_layers(asked_.workload, back_.workload)) {
            back_.workload.moe.interval = asked_.workload.moe.interval;
            back_.workload.moe.dense_layers = asked_.workload.moe.dense_layers;
        }
        const Experiment back = with_values_written_out(back_);
        std::vector<Lost> found;
        for (const Key& key : all_keys()) {
            if (is_preset(key) || !may_change_step(key.path) || !acts(key.path, asked_) ||
                !wanted(key.path))
                continue;
            if (contains(lost_, &key, &Lost::key)) continue;
            Lost one{&key, text_of(key, asked_), text_of(key, back)};
            if (one.ours != one.theirs) found.push_back(std::move(one));
        }
        for (const Lost& one : found)
            if (!is_of_framework(one.key->path))
                set_key(back_, {std::string(one.key->path), one.ours});
        append(lost_, found);
        return !found.empty();
    }

    Experiment asked_, back_;
    std::vector<Lost> lost_;
};

std::string shown(const std::string& text) { return text.empty() ? "\"\"" : text; }

bool is_lost(std::string_view key, const Emission& out) { return contains(out.lost, key); }

// What a script leaves to the code of its model and to its framework, each as "KEY = VALUE".
struct LeftOpen {
    std::vector<std::string> model, framework;
};

LeftOpen add_lost_keys(const KeyComparison& comparison, EmitFormat format, Emission& out) {
    LeftOpen open;
    for (const auto& [key, ours, theirs] : comparison.lost()) {
        out.lost.emplace_back(key->path);
        const std::string said = fmt::format("{} = {}", key->path, shown(ours));
        const auto why = why_of(key->path, format);
        if (leaves_model_to_code(format) && shapes_model(key->path))
            open.model.push_back(said);
        else if (is_of_framework(key->path))
            open.framework.push_back(said);
        else if (!why.empty())
            add_line(out.without, "{}: {}", said, why);
        else
            add_line(out.without, "{}: the script is read as {}", said, shown(theirs));
    }
    return open;
}

}  // namespace

void name_lost_keys(const Experiment& asked, EmitFormat format, Emission& out) {
    TranslateOptions options;
    if (format == EmitFormat::deepspeed) options.replicas = asked.parallelism.dp;
    const Translation script = translate_text(out.text, "emitted", foreign(format), options);
    const Experiment experiment = with_values_written_out(asked);
    LeftOpen open = add_lost_keys(KeyComparison(asked, script, format), format, out);
    const bool by_code = leaves_model_to_code(format) && !script.find("workload.preset");
    for (const Key& key : all_keys())
        if (by_code && always_said(key.path) && acts(key.path, asked) && !is_lost(key.path, out))
            open.model.push_back(fmt::format("{} = {}", key.path, shown(text_of(key, experiment))));
    for (const char* key : {"parallelism.dp", "cluster.nodes", "cluster.gpus_per_node"})
        if (!script.find(key) && !is_lost(key, out))
            add_line(out.without, "{} = {}: {}", key, text_of(*find_key(key), asked),
                     why_of(key, format));
    say_list("the model, in its code: ", open.model, out);
    say_list(fmt::format("the forecast is of framework {}, not {}: ", asked.framework.name,
                         script.framework),
             open.framework, out);
}

}  // namespace stepcast
