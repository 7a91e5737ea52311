// Defaults and names: megatron/training/arguments.py, megatron/core/transformer/transformer_config.py of Megatron-LM
// d98e8a64, the launcher's YAML of NeMo 1 (26e42fa9), configuration classes of Megatron-Bridge (067f987d).
#include "translate/megatron.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "model/errors.h"
#include "translate/shell.h"

namespace stepcast {
namespace {

struct Direct {
    const char *theirs, *ours;
};
// The same number in both.
constexpr Direct direct[] = {{"num_layers", "workload.layers"},
                             {"hidden_size", "workload.hidden"},
                             {"num_attention_heads", "workload.heads"},
                             {"kv_channels", "workload.head_dim"},
                             {"max_position_embeddings", "workload.max_positions"},
                             {"vocab_size", "workload.vocab"},
                             {"padded_vocab_size", "workload.vocab"},
                             {"q_lora_rank", "workload.mla.q_rank"},
                             {"num_experts", "workload.moe.experts"},
                             {"num_moe_experts", "workload.moe.experts"},
                             {"moe_router_topk", "workload.moe.top_k"},
                             {"moe_ffn_hidden_size", "workload.moe.ffn"},
                             {"moe_router_num_groups", "workload.moe.groups"},
                             {"moe_router_group_topk", "workload.moe.top_groups"},
                             {"moe_shared_expert_intermediate_size", "workload.moe.shared_ffn"},
                             {"tensor_model_parallel_size", "parallelism.tp"},
                             {"pipeline_model_parallel_size", "parallelism.pp"},
                             {"context_parallel_size", "parallelism.cp"},
                             {"expert_model_parallel_size", "parallelism.ep"},
                             {"micro_batch_size", "parallelism.micro_batch"},
                             {"global_batch_size", "parallelism.global_batch"}};

class Megatron {
public:
    Megatron(Document& document, MegatronDialect dialect, long ranks)
        : d_(document), dialect_(dialect), ranks_(ranks) {
        t_.path = d_.path;
        t_.format = dialect == MegatronDialect::lm ? "Megatron-LM" : dialect == MegatronDialect::nemo ? "NeMo" : "Megatron-Bridge";
        t_.framework = dialect == MegatronDialect::lm     ? "megatron-lm"
                       : dialect == MegatronDialect::nemo ? "nemo"
                                                          : "megatron-bridge";
    }

    Translation translate() {
        for (const auto& [theirs, ours] : direct)
            if (const auto* v = d_.find(theirs)) t_.set(ours, integer_in(*v), v->at);
        model();
        experts();
        split();
        pipeline();
        data_parallel();
        precision();
        recompute();
        world();
        leave_rest();
        return std::move(t_);
    }

private:
    [[nodiscard]] bool lm() const { return dialect_ == MegatronDialect::lm; }
    // A flag of theirs, or of ours the opposite.
    void set_flag(const char* ours, const char* theirs, bool inverted, bool otherwise) {
        if (const auto* v = d_.find(theirs))
            t_.set(ours, flag_in(*v) != inverted ? "true" : "false", v->at);
        else if (sized_)
            t_.take_default(ours, otherwise ? "true" : "false");
    }
    void model();
    void experts();
    void split();
    void pipeline();
    void data_parallel();
    void precision();
    void recompute();
    void world();
    void leave_rest();
    void layout(const NamedValue& value);

    Document& d_;
    MegatronDialect dialect_;
    long ranks_;
    bool sized_ = true;  // the file describes the model, so its defaults count
    Translation t_;
};

std::string lower(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

void Megatron::model() {
    sized_ = t_.find("workload.layers") && t_.find("workload.hidden");
    if (const auto* v = d_.find_any({"seq_length", "encoder_seq_length", "dataset.seq_length", "data.seq_length"}))
        t_.set("workload.seq", integer_in(*v), v->at);
    if (!sized_)
        t_.open.push_back("layers and widths: the file leaves them to a recipe; name the model with --model");
    else
        t_.set("workload.kind", "transformer", t_.find("workload.layers")->at);

    const auto* activation = d_.find("activation");
    const auto* gate = d_.find_any({"swiglu", "quick_geglu", "gated_linear_unit"});
    const std::string named = activation ? lower(activation->value) : "";
    const bool gated = (gate && flag_in(*gate)) || named.find("glu") != std::string::npos;
    if (gate || activation)
        t_.set("workload.gated", gated ? "true" : "false", (gate ? gate : activation)->at);
    else if (sized_)
        t_.take_default("workload.gated", "false");
    if ((d_.find("squared_relu") && d_.flag("squared_relu")) || named == "squared-relu")
        t_.set("workload.activation", "relu", d_.find_any({"squared_relu", "activation"})->at);

    const long hidden = t_.count("workload.hidden", 0);
    if (const auto* v = d_.find("ffn_hidden_size"))
        t_.set("workload.ffn", integer_in(*v), v->at);
    else if (sized_)
        t_.take_default("workload.ffn", std::to_string(gated && lm() ? hidden * 4 * 2 / 3 / 64 * 64 : 4 * hidden));
    const bool grouped = !lm() || d_.flag("group_query_attention");
    if (const auto* v = d_.find("num_query_groups")) {
        if (grouped)
            t_.set("workload.kv_heads", integer_in(*v), v->at);
        else
            t_.ignored.push_back("num_query_groups (" + v->at + "): without group_query_attention");
    }
    if (const auto* v = d_.find("normalization"))
        t_.set("workload.norm", lower(v->value) == "rmsnorm" ? "rmsnorm" : "layernorm", v->at);
    else if (sized_)
        t_.take_default("workload.norm", "layernorm");
    if (const auto* v = d_.find("position_embedding_type")) {
        const auto kind = lower(v->value);
        t_.set("workload.positions",
               kind == "rope" || kind == "yarn" || kind == "mrope" ? "rotary"
               : kind == "learned_absolute"                        ? "learned"
               : kind == "relative"                                ? "relative"
                                                                   : "none",
               v->at);
    } else if (const auto* old = d_.find("use_rotary_position_embeddings"); old && flag_in(*old)) {
        t_.set("workload.positions", "rotary", old->at);
    } else if (sized_) {
        t_.take_default("workload.positions", "learned");
    }
    if (dialect_ == MegatronDialect::nemo)
        set_flag("workload.linear_bias", "bias", false, true);
    else if (dialect_ == MegatronDialect::bridge)
        set_flag("workload.linear_bias", "add_bias_linear", false, true);
    else
        set_flag("workload.linear_bias", "disable_bias_linear", true, true);
    if (const auto* v = d_.find("add_qkv_bias"); v && flag_in(*v))
        t_.set("workload.qkv_bias", "true", v->at);
    else if (const auto* bias = t_.find("workload.linear_bias"))
        t_.set("workload.qkv_bias", bias->value, std::string(bias->at));
    if (lm())
        set_flag("workload.tied", "untie_embeddings_and_output_weights", true, true);
    else
        set_flag("workload.tied", "share_embeddings_and_output_weights", false, true);
    const auto attention = d_.number("attention_dropout"), hidden_drop = d_.number("hidden_dropout");
    if (const auto* v = d_.find_any({"hidden_dropout", "attention_dropout"}))
        t_.set("workload.dropout", fmt::format("{}", std::max(attention.value_or(0), hidden_drop.value_or(0))), v->at);
    else if (sized_)
        t_.take_default("workload.dropout", "0.1");
    if (const auto* v = d_.find("multi_latent_attention"); v && flag_in(*v)) {
        t_.set("workload.attention", "mla", v->at);
        for (const auto& [theirs, ours, otherwise] :
             {std::tuple{"kv_lora_rank", "workload.mla.kv_rank", 32L}, {"qk_head_dim", "workload.mla.nope_dim", 128L},
              {"qk_pos_emb_head_dim", "workload.mla.rope_dim", 64L}, {"v_head_dim", "workload.mla.value_dim", 128L}})
            if (const auto* size = d_.find(theirs))
                t_.set(ours, integer_in(*size), size->at);
            else
                t_.take_default(ours, std::to_string(otherwise));
    } else if (sized_) {
        t_.take_default("workload.attention", "flash");
    }
    for (const char* name : {"hybrid_layer_pattern", "hybrid_override_pattern", "window_size"})
        if (const auto* v = d_.find(name))
            t_.problems.push_back(fmt::format("{} ({}): layers of several kinds; the forecast has attention in each",
                                              name, v->at));
    if (const auto* v = d_.find("mtp_num_layers"); v && integer_in(*v) > 0)
        t_.problems.push_back("mtp_num_layers (" + v->at + "): multi-token prediction is not in the forecast");
    if (sized_ && !t_.find("workload.vocab"))
        t_.open.push_back("vocab: from the tokenizer; say it with --set vocab=N");
    if (const auto* v = d_.find("optimizer"))
        t_.set("workload.optimizer", lower(v->value) == "sgd" ? "sgd" : "adam", v->at);
    else if (sized_)
        t_.take_default("workload.optimizer", "adam");
}

void Megatron::experts() {
    const auto* experts = t_.find("workload.moe.experts");
    if (!experts) return;
    if (!t_.find("workload.moe.top_k")) t_.take_default("workload.moe.top_k", "2");
    if (const auto* v = d_.find_any({"moe_expert_capacity_factor"}))
        t_.set("workload.moe.capacity_factor", v->value, v->at);
    if (const auto* all = t_.find("workload.moe.shared_ffn")) {
        const long each = t_.count("workload.moe.ffn", t_.count("workload.ffn", 1));
        t_.set("workload.moe.shared_experts", std::max(1L, std::stol(all->value) / std::max(1L, each)), std::string(all->at));
    }
    if (const auto* v = d_.find("moe_router_enable_expert_bias"))
        t_.set("workload.moe.router_bias", flag_in(*v) ? "true" : "false", v->at);
    if (const auto* v = d_.find("moe_layer_freq")) {
        if (v->value.find('[') == std::string::npos) {
            t_.set("workload.moe.interval", integer_in(*v), v->at);
        } else {  // ([0]*3+[1]*58): leading dense layers
            long zeros = 0;
            const char* text = v->value.c_str();
            if (std::sscanf(text, "([0]*%ld+[1]*%*d)", &zeros) != 1 && std::sscanf(text, "[0]*%ld+[1]*%*d", &zeros) != 1)
                wrong(*v, "an interval N or ([0]*DENSE+[1]*REST), the patterns that are modelled");
            t_.set("workload.moe.dense_layers", zeros, v->at);
        }
    }
    if (const auto* v = d_.find("moe_token_dispatcher_type"))
        t_.set("parallelism.dispatch_once", v->value == "flex" ? "true" : "false", v->at);
    if (const auto* v = d_.find("moe_enable_deepep"); v && flag_in(*v)) t_.set("parallelism.dispatch_once", "true", v->at);
    const long tp = t_.count("parallelism.tp", 1);
    if (const auto* v = d_.find("expert_tensor_parallel_size")) {
        const long etp = integer_in(*v);
        if (etp != 1 && etp != tp)
            t_.problems.push_back(fmt::format("expert_tensor_parallel_size ({}): {} is neither 1 nor tp; taken as {}",
                                              v->at, etp, tp));
        t_.set("parallelism.expert_tensor_parallel", etp == 1 && tp > 1 ? "false" : "true", v->at);
    }
}

void Megatron::split() {
    for (const char* key : {"parallelism.tp", "parallelism.pp", "parallelism.cp"})
        if (!t_.find(key)) t_.take_default(key, "1");
    const long tp = t_.count("parallelism.tp", 1);
    if (const auto* v = d_.find("sequence_parallel")) {
        if (tp > 1)
            t_.set("parallelism.sequence_parallel", flag_in(*v) ? "true" : "false", v->at);
        else if (flag_in(*v))
            t_.ignored.push_back("sequence_parallel (" + v->at + "): no effect with tp 1");
    }
    if (const auto* v = d_.find_any({"tp_comm_overlap", "ub_tp_comm_overlap", "comm_overlap.tp_comm_overlap"}))
        t_.set("parallelism.overlap_tp", flag_in(*v) && tp > 1 ? "true" : "false", v->at);
    if (const auto* v = d_.find("cp_comm_type"))
        t_.set("parallelism.context_exchange", v->value == "allgather" ? "all-gather" : "ring", v->at);
    if (const auto* v = d_.find("use_tp_pp_dp_mapping"); v && flag_in(*v))
        t_.set("parallelism.rank_order", "tp-cp-pp-dp", v->at);
}

// "Et*3|t*4|..|t*3L": pieces between bars, first to last.
void Megatron::layout(const NamedValue& value) {
    std::vector<long> pieces{0};
    const std::string& text = value.value;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '|') pieces.push_back(0);
        if (text[i] == '(') wrong(value, "a layout without brackets: write its pieces out");
        if (text[i] != 't') continue;
        long times = 1;
        if (i + 1 < text.size() && text[i + 1] == '*') times = std::atol(text.c_str() + i + 2);
        pieces.back() += times;
    }
    const long pp = t_.count("parallelism.pp", 1);
    if (static_cast<long>(pieces.size()) % pp != 0)
        wrong(value, fmt::format("a multiple of pp = {} pieces, found {}", pp, pieces.size()));
    t_.set("parallelism.vp", static_cast<long>(pieces.size()) / pp, value.at);
    t_.set("parallelism.stage_layers", fmt::format("[{}]", fmt::join(pieces, ", ")), value.at);
}

void Megatron::pipeline() {
    const long layers = t_.count("workload.layers", 0), pp = t_.count("parallelism.pp", 1);
    if (const auto* v = d_.find("pipeline_model_parallel_layout")) return layout(*v);
    if (const auto* v = d_.find_any({"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"})) {
        t_.set("parallelism.vp", pp > 1 ? integer_in(*v) : 1, v->at);
    } else if (const auto* each = d_.find("num_layers_per_virtual_pipeline_stage"); each && layers > 0) {
        const long n = integer_in(*each);
        if (n <= 0 || layers % (pp * n) != 0)
            t_.problems.push_back(fmt::format("num_layers_per_virtual_pipeline_stage ({}): {} layers do not divide over "
                                              "{} stages in pieces of {}", each->at, layers, pp, n));
        else
            t_.set("parallelism.vp", layers / pp / n, each->at);
    }
    const auto first = d_.integer("decoder_first_pipeline_num_layers"), last = d_.integer("decoder_last_pipeline_num_layers");
    if ((first || last) && pp > 1 && layers > 0) {
        std::vector<long> stages(static_cast<std::size_t>(pp));
        const long between = pp - (first ? 1 : 0) - (last ? 1 : 0);
        for (auto& stage : stages) stage = between > 0 ? (layers - first.value_or(0) - last.value_or(0)) / between : 0;
        if (first) stages.front() = *first;
        if (last) stages.back() = *last;
        if (std::accumulate(stages.begin(), stages.end(), 0L) != layers)
            t_.problems.push_back(fmt::format("{} layers do not divide over {} stages beside the first and the last",
                                              layers, pp));
        else
            t_.set("parallelism.stage_layers", fmt::format("[{}]", fmt::join(stages, ", ")),
                   d_.find_any({"decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers"})->at);
    }
    for (const auto& [name, negated] : {std::pair{"no_overlap_p2p_communication", true}, {"overlap_p2p_comm", false}})
        if (const auto* v = d_.find(name))
            t_.set("parallelism.overlap_p2p", flag_in(*v) != negated && t_.count("parallelism.vp", 1) > 1 ? "true" : "false",
                   v->at);
}

void Megatron::data_parallel() {
    const auto* distributed = d_.find("use_distributed_optimizer");
    const auto* optim = d_.find("optim.name");
    const auto* fsdp = d_.find_any({"use_megatron_fsdp", "dist.use_megatron_fsdp", "ddp.use_megatron_fsdp"});
    const auto* fsdp2 = d_.find_any({"use_torch_fsdp2", "dist.use_torch_fsdp2"});
    if (fsdp && flag_in(*fsdp)) {
        const auto how = d_.text("data_parallel_sharding_strategy", "optim_grads_params");
        t_.set("parallelism.zero", how == "no_shard" ? 0L : how == "optim" ? 1L : how == "optim_grads" ? 2L : 3L, fsdp->at);
    } else if (fsdp2 && flag_in(*fsdp2)) {
        t_.set("parallelism.zero", 3, fsdp2->at);
    } else if (distributed) {
        t_.set("parallelism.zero", flag_in(*distributed) ? 1L : 0L, distributed->at);
    } else if (optim) {
        const bool sharded = optim->value.find("distributed") != std::string::npos;
        t_.set("parallelism.zero", sharded ? 1L : 0L, optim->at);
    } else if (dialect_ == MegatronDialect::bridge) {
        t_.take_default("parallelism.zero", "1");
    } else {
        t_.take_default("parallelism.zero", "0");
    }
    const bool on = dialect_ == MegatronDialect::bridge;
    if (const auto* v = d_.find_any({"overlap_grad_reduce", "optim.overlap_grad_sync"}))
        t_.set("parallelism.overlap", flag_in(*v) ? "true" : "false", v->at);
    else
        t_.take_default("parallelism.overlap", on ? "true" : "false");
    if (const auto* v = d_.find_any({"overlap_param_gather", "optim.overlap_param_sync"}))
        t_.set("parallelism.overlap_params", flag_in(*v) ? "true" : "false", v->at);
    else
        t_.take_default("parallelism.overlap_params", on ? "true" : "false");
    const auto* low = d_.find_any({"grad_reduce_in_bf16"});
    const auto* fp32 = d_.find_any({"grad_reduce_in_fp32", "accumulate_allreduce_grads_in_fp32"});
    const auto* named = d_.find("optim.grad_sync_dtype");
    if (low)
        t_.set("parallelism.gradient_dtype", flag_in(*low) ? "bf16" : "fp32", low->at);
    else if (fp32)
        t_.set("parallelism.gradient_dtype", flag_in(*fp32) ? "fp32" : "bf16", fp32->at);
    else if (named)
        t_.set("parallelism.gradient_dtype", named->value, named->at);
    else
        t_.take_default("parallelism.gradient_dtype", "fp32");
    if (const auto* v = d_.find_any({"ddp_bucket_size", "ddp.bucket_size", "bucket_size"})) {
        const long each = t_.find("parallelism.gradient_dtype")->value == "fp32" ? 4 : 2;
        t_.set("parallelism.bucket", fmt::format("{} B", integer_in(*v) * each), v->at);
    } else if (const auto* mb = d_.find("optim.bucket_cap_mb")) {
        t_.set("parallelism.bucket", mb->value + " MB", mb->at);
    }
    const auto* instances = d_.find("num_distributed_optimizer_instances");
    if (instances && integer_in(*instances) > 1 && t_.count("parallelism.zero", 0) == 3 && ranks_ > 0)
        t_.set("parallelism.shard", ranks_ / (t_.count("parallelism.tp", 1) * t_.count("parallelism.pp", 1)) / integer_in(*instances),
               instances->at);
    else if (const auto* v = instances; v && integer_in(*v) > 1)
        t_.ignored.push_back("num_distributed_optimizer_instances (" + v->at + "): shards of part of the replicas are "
                             "modelled with zero 3 only");
    const auto* schedule = d_.find("step_batch_size_schedule");
    const auto* ramp = d_.find("rampup_batch_size");
    if (schedule && t_.find("parallelism.global_batch"))
        t_.problems.push_back("step_batch_size_schedule (" + schedule->at +
                              ") and global_batch_size exclude each other; global_batch_size is taken");
    else if (schedule) {
        const auto last = schedule->value.substr(schedule->value.find_last_of(':') + 1);
        t_.set("parallelism.global_batch", last, schedule->at);
    }
    if (ramp) t_.ignored.push_back("rampup_batch_size (" + ramp->at + "): the batch after it is taken");
}

void Megatron::precision() {
    const auto* fp8 = d_.find_any({"fp8_format", "fp8"});
    const auto *fp4 = d_.find("fp4_format"), *brain = d_.find("bf16");
    const auto* mixed = d_.find_any({"mixed_precision", "mixed_precision.name"});
    const bool switched = fp8 && (fp8->name == "fp8_format" || (lower(fp8->value) != "false" && !fp8->value.empty()));
    if (fp4)
        t_.set("workload.dtype", "fp4", fp4->at);
    else if (switched)
        t_.set("workload.dtype", "fp8", fp8->at);
    else if (mixed)
        t_.set("workload.dtype",
               mixed->value.find("nvfp4") != std::string::npos  ? "fp4"
               : mixed->value.find("fp8") != std::string::npos  ? "fp8"
               : mixed->value.find("fp16") != std::string::npos ? "fp16"
                                                                : "bf16",
               mixed->at);
    else if (const auto* v = brain; v && flag_in(*v))
        t_.set("workload.dtype", "bf16", v->at);
    else if (const auto* half = d_.find("fp16"); half && flag_in(*half))
        t_.set("workload.dtype", "fp16", half->at);
    else if (const auto* named = d_.find_any({"precision", "trainer.precision"}))
        t_.set("workload.dtype",
               named->value.find("bf16") != std::string::npos  ? "bf16"
               : named->value.find("16") != std::string::npos ? "fp16"
                                                              : "fp32",
               named->at);
    else if (sized_)
        t_.take_default("workload.dtype", lm() ? "fp32" : "bf16");
    if (const auto* v = d_.find_any({"cuda_graph_impl", "enable_cuda_graph", "cuda_graphs"}))
        t_.set("run.cuda_graph", v->value == "none" || lower(v->value) == "false" ? "false" : "true", v->at);
}

void Megatron::recompute() {
    const auto* how = d_.find_any({"recompute_granularity", "activations_checkpoint_granularity"});
    const auto* old = d_.find_any({"checkpoint_activations", "activations_checkpoint_method"});
    const auto* part = d_.find("recompute_activations");
    const auto* method = d_.find_any({"recompute_method", "activations_checkpoint_method"});
    const auto* layers = d_.find_any({"recompute_num_layers", "activations_checkpoint_num_layers"});
    if (how && !how->value.empty() && how->value != "none")
        t_.set("parallelism.recompute", how->value, how->at);
    else if (part && flag_in(*part))
        t_.set("parallelism.recompute", "selective", part->at);
    else if (old && old->name == "checkpoint_activations" && flag_in(*old))
        t_.set("parallelism.recompute", "full", old->at);
    else if (layers && !how && dialect_ == MegatronDialect::bridge && integer_in(*layers) > 0)
        t_.set("parallelism.recompute", "full", layers->at);
    else
        t_.take_default("parallelism.recompute", "none");
    const bool block = !method || method->value == "block";
    if (layers && block && t_.find("parallelism.recompute")->value == "full")
        t_.set("parallelism.recompute_layers", integer_in(*layers), layers->at);
}

// Replicas, and what of the split cannot run on so many ranks.
void Megatron::world() {
    const long tp = t_.count("parallelism.tp", 1), pp = t_.count("parallelism.pp", 1),
               cp = t_.count("parallelism.cp", 1), ep = t_.count("parallelism.ep", 1);
    const auto* apart = t_.find("parallelism.expert_tensor_parallel");
    const long etp = apart && apart->value == "false" ? 1 : tp;
    const long least = std::lcm(tp * pp * cp, etp * ep * pp);
    if (ranks_ > 0 && ranks_ % least == 0) {
        t_.set("parallelism.dp", ranks_ / (tp * pp * cp), t_.find("cluster.nodes") ? t_.find("cluster.nodes")->at : "launch");
    } else if (ranks_ > 0) {
        t_.problems.push_back(fmt::format("{} ranks cannot run tp {} x pp {} x cp {} x ep {}: expected a multiple of {}; "
                                          "say how many with --gpus",
                                          ranks_, tp, pp, cp, ep, least));
    } else {
        t_.open.push_back(fmt::format("how many GPUs: a multiple of {}; say it with --gpus", least));
    }
    if (!t_.find("parallelism.micro_batch") && sized_) t_.problems.push_back("micro_batch_size: missing; it is required");
}

// What only describes data, logs, checkpoints or learning has no effect on a step.
void Megatron::leave_rest() {
    for (const auto& value : d_.values)
        if (!value.used) t_.ignored.push_back(value.name);
}

}  // namespace

Translation translate_megatron(Document& document, MegatronDialect dialect, long ranks) {
    return Megatron(document, dialect, ranks).translate();
}

Document megatron_arguments(const std::vector<ShellArgument>& arguments, const std::string& path) {
    Document document{path, {}};
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto& [text, at] = arguments[i];
        if (!text.starts_with("--") || text.size() < 3) continue;
        const auto equals = text.find('=');
        auto name = text.substr(2, equals == std::string::npos ? equals : equals - 2);
        std::ranges::replace(name, '-', '_');
        std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
        if (equals == std::string::npos)
            while (i + 1 < arguments.size() && !arguments[i + 1].text.starts_with("--") &&
                   !arguments[i + 1].text.ends_with(".py"))
                value += (value.empty() ? "" : " ") + arguments[++i].text;
        document.add(name, value.empty() ? "true" : value, at);
    }
    return document;
}

}  // namespace stepcast
