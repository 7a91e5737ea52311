#include "import/launch/emit_megatron.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "import/launch/emit.h"
#include "import/launch/megatron_source.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/input/keys.h"
#include "model/runtime_rules.h"
#include "model/transformer/chunks.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

constexpr const char* whole_file = "";  // the section of what stands in none

struct Line {
    std::string section, name, value;  // value "": a bare flag
};

class MegatronWriter {
public:
    MegatronWriter(const Experiment& e, EmitFormat format, Emission& emitter)
        : e_(e), format_(format), out_(emitter) {}

    std::string write() {
        check();
        model();
        experts();
        split();
        training();
        nemo() ? distributed_optimizer_of_nemo() : data_parallel();
        recompute();
        return lm() ? shell() : yaml();
    }

private:
    [[nodiscard]] bool lm() const { return format_ == EmitFormat::megatron; }
    [[nodiscard]] bool bridge() const { return format_ == EmitFormat::megatron_bridge; }
    [[nodiscard]] bool nemo() const { return format_ == EmitFormat::nemo; }
    void add(const std::string& name, const std::string& value,
             const std::string& section = "model") {
        lines_.push_back({section, name, value});
    }
    void add(const std::string& name, long value, const std::string& section = "model") {
        add(name, std::to_string(value), section);
    }
    // Writes keys of megatron_numbers; a key that is 0 is left out.
    void numbers(std::initializer_list<std::string_view> keys) {
        for (const auto key : keys) {
            const auto* row = std::ranges::find(megatron_numbers, key, &MegatronNumber::ours);
            const auto value = text_of(*find_key(key), e_);
            if (value != "0")
                add(std::string(lm() || row->of_others.empty() ? row->of_lm : row->of_others),
                    value);
        }
    }
    // A bare flag in Megatron-LM, a truth value in YAML.
    void flag(const std::string& name, bool on, const std::string& section = "model") {
        if (lm() && !on) return;
        add(name, lm() ? "" : truth(on), section);
    }
    // In Megatron-LM a bare flag with the opposite meaning.
    void flag_or_not(const std::string& opposite, const std::string& name, bool on) {
        lm() ? flag(opposite, !on) : flag(name, on);
    }
    void check() {
        const auto& p = e_.parallelism;
        const auto& w = e_.workload;
        out_.refuse_unless(
            p.schedule == Schedule::one_f_one_b || p.pp == 1,
            fmt::format("parallelism.schedule {}: it has 1f1b and its interleaved form",
                        to_string(p.schedule)));
        out_.refuse_unless(p.rank_order == "tp-cp-dp-pp" || (lm() && p.rank_order == "tp-cp-pp-dp"),
                           "parallelism.rank_order " + p.rank_order);
        const int etp = ranks_of_expert(e_);
        out_.refuse_unless(rank_count(e_.cluster) % (etp * p.ep * p.pp) == 0,
                           "ranks are no multiple of etp x ep x pp (expert_tensor_parallel)");
        out_.refuse_unless(!is_latent(w) || !nemo(), "workload.mla: MLA");
        out_.refuse_unless(p.zero < 2 || !nemo(), "zero 2 and 3");
        out_.refuse_unless(p.recompute != Recompute::alternate, "recompute alternate");
        out_.refuse_unless(!e_.runtime.row_scales, "runtime.row_scales");
        out_.refuse_unless(w.gated || w.activation != Activation::relu, "activation relu");
        // megatron/core/transformer/moe/moe_layer.py refuses to train so.
        out_.refuse_unless(w.moe.experts == 0 || !repeats_sequence(p),
                           "experts with tensor parallelism (tp) and without sequence_parallel");
        // core/transformer/transformer_config.py of 0.16.1
        out_.refuse_unless(
            w.moe.experts == 0 || !p.overlap_experts ||
                (p.ep > 1 && w.mtp_layers <= 1 && (w.mtp_layers == 0 || p.pp > 1)),
            "parallelism.overlap_experts: it needs ep above 1, and beside multi-token prediction "
            "one such layer and a pipeline");
        out_.refuse_unless(w.moe.experts == 0 || !w.linear_bias || etp == 1,
                           "experts with biases over tensor-parallel ranks "
                           "(runtime.experts.tensor_parallel)");
        // core/transformer/moe/shared_experts.py of 0.16.1
        out_.refuse_unless(w.moe.shared_experts == 0 || !w.linear_bias,
                           "shared experts with biases (workload.linear_bias)");
        out_.refuse_unless(e_.runtime.optimizer.master_weights,
                           "runtime.optimizer.master_weights = false");
        out_.refuse_unless(!shards_over_some(p) || p.zero == 3,
                           "parallelism.shard: shards of part of the replicas without zero 3");
        out_.refuse_unless(w.positions != Positions::relative,
                           "workload.positions relative: Transformer-XL's");
        out_.refuse_unless(w.norm == Norm::rmsnorm || w.norm == Norm::layernorm,
                           fmt::format("workload.norm {}", to_string(w.norm)));
        check_training();
    }

    void check_training() {
        const auto& p = e_.parallelism;
        const auto& w = e_.workload;
        out_.refuse_unless(gradient_type(e_) == Dtype::fp32 || gradient_type(e_) == Dtype::bf16 ||
                               (lm() && gradient_type(e_) == Dtype::fp16 && w.dtype == Dtype::fp16),
                           fmt::format("runtime.gradients.type {} of workload.dtype {}",
                                       to_string(gradient_type(e_)), to_string(w.dtype)));
        const bool muon = w.optimizer == Optimizer::muon;
        out_.refuse_unless(
            w.optimizer == Optimizer::adam || w.optimizer == Optimizer::sgd || (muon && lm()),
            fmt::format("workload.optimizer {}", to_string(w.optimizer)));
        // megatron-core 0.16.1, optimizer/muon.py and layer_wise_optimizer.py
        out_.refuse_unless(!muon || (p.zero <= 1 && w.dtype != Dtype::fp16),
                           "workload.optimizer muon with zero 2 or 3, or in fp16");
        // optimizer_cpu_offload wants the precision-aware optimizer, which is a distributed one
        out_.refuse_unless(!e_.run.offload_optimizer || (p.zero == 1 && !nemo()),
                           "run.offload_optimizer without zero 1");
        out_.refuse_unless(!e_.run.offload_parameters, "run.offload_parameters");
        out_.refuse_unless(e_.run.offload_activations == ActivationOffload::none,
                           "run.offload_activations: its cpu_offloading is of fewer layers "
                           "than there are");
    }

    // Experts in the layers where the forecast has them; a number N alone would begin with one in
    // the first layer.
    [[nodiscard]] std::string pattern_of_experts() const {
        const auto& w = e_.workload;
        int first = 0, last = 0;
        while (!has_experts(w, first)) ++first;
        for (int layer = first; layer < w.layers; ++layer)
            if (has_experts(w, layer)) last = layer;
        const int interval = w.moe.interval;
        const auto dense = [](int layers) {
            return layers > 0 ? fmt::format("[0]*{}+", layers) : "";
        };
        std::string text = fmt::format("{}({}[1])*{}", dense(first - interval + 1),
                                       dense(interval - 1), (last - first) / interval + 1);
        if (w.layers - 1 > last) text += fmt::format("+[0]*{}", w.layers - 1 - last);
        return fmt::format("\"({})\"", text);
    }

    [[nodiscard]] bool is_plain() const { return attention_kernel(e_) == AttentionKind::plain; }

    // What a layer sees, and the kernel of attention.
    void attention() {
        const auto& w = e_.workload;
        if (is_latent(w)) {
            flag("multi_latent_attention", true);
            numbers({"workload.mla.q_rank"});
            add("kv_lora_rank", w.mla.kv_rank);
            add("qk_head_dim", w.mla.nope_dim);
            add("qk_pos_emb_head_dim", w.mla.rope_dim);
            add("v_head_dim", w.mla.value_dim);
        }
        if (is_plain() && !nemo()) add("attention_backend", "unfused");
        if (w.window == 0 || nemo()) return;
        add("window_size",
            lm() ? fmt::format("{},0", w.window - 1) : fmt::format("[{}, 0]", w.window - 1));
        // every n-th layer sees all
        const int every = w.window_share < 1 ? as_int(std::lround(1 / (1 - w.window_share))) : 0;
        if (every > 1) add("window_attn_skip_freq", every);
    }

    void activation() {
        const auto& w = e_.workload;
        const bool squared = !w.gated && w.activation == Activation::squared_relu;
        if (nemo())
            add("activation", w.gated ? "fast-swiglu" : squared ? "squared-relu" : "gelu");
        else
            flag(lm() ? "swiglu" : "gated_linear_unit", w.gated);
        // in Bridge it is a function (activation_func), which YAML does not name
        if (lm() && squared) flag("squared_relu", true);
    }

    // Biases, norms and gates of a layer.
    void extras() {
        const auto& w = e_.workload;
        flag_or_not("disable_bias_linear", nemo() ? "bias" : "add_bias_linear", w.linear_bias);
        if (w.qkv_bias && !w.linear_bias) flag("add_qkv_bias", true);
        if (w.qk_norm) flag("qk_layernorm", true);
        if (w.attention_gate) flag("attention_output_gate", true);
    }

    void dropout() {
        const auto& w = e_.workload;
        add("hidden_dropout", fmt::format("{}", w.dropout));
        // off if it is not stated
        if (nemo()) add("use_flash_attention", truth(!is_plain()));
        add("attention_dropout", fmt::format("{}", w.score_dropout ? w.dropout : 0.0));
    }

    void model() {
        const auto& w = e_.workload;
        numbers({"workload.layers", "workload.hidden"});
        add("ffn_hidden_size", w.ffn);
        numbers({"workload.heads"});
        if (w.kv_heads > 0) {
            if (lm()) flag("group_query_attention", true);
            add("num_query_groups", w.kv_heads);
        }
        numbers({"workload.head_dim"});
        add(nemo() ? "encoder_seq_length" : "seq_length", w.seq);
        if (!bridge())  // whose models have as many positions as seq_length
            add("max_position_embeddings", position_rows(w));
        const std::string norm = w.norm == Norm::rmsnorm ? "RMSNorm" : "LayerNorm";
        add("normalization", nemo() ? lower_case(norm) : norm);
        add("position_embedding_type", w.positions == Positions::rotary    ? "rope"
                                       : w.positions == Positions::learned ? "learned_absolute"
                                                                           : "none");
        activation();
        extras();
        flag_or_not("untie_embeddings_and_output_weights", "share_embeddings_and_output_weights",
                    w.tied);
        dropout();
        numbers({"workload.vocab"});
        if (e_.runtime.vocab_multiple != 128)
            add("make_vocab_size_divisible_by", std::max(1, e_.runtime.vocab_multiple));
        attention();
        if (w.mtp_layers > 0 && !nemo()) add("mtp_num_layers", w.mtp_layers);
        if (e_.runtime.loss.fused) flag("cross_entropy_loss_fusion", true);
    }

    void experts() {
        const auto& m = e_.workload.moe;
        const auto& p = e_.parallelism;
        if (m.experts == 0) return;
        numbers({"workload.moe.experts", "workload.moe.top_k", "workload.moe.ffn"});
        if (m.shared_experts > 0) {
            const int each = m.ffn > 0 ? m.ffn : e_.workload.ffn;
            add("moe_shared_expert_intermediate_size",
                m.shared_ffn > 0 ? m.shared_ffn : m.shared_experts * each);
        }
        if (m.capacity_factor > 0)
            add("moe_expert_capacity_factor", fmt::format("{}", m.capacity_factor));
        if (m.dense_layers > 0 || m.interval > 1) add("moe_layer_freq", pattern_of_experts());
        if (m.groups > 1) numbers({"workload.moe.groups", "workload.moe.top_groups"});
        // Megatron-Core raises without (transformer_config.py of 0.16.1: __post_init__)
        if (m.router_bias) {
            flag("moe_router_enable_expert_bias", true);
            add("moe_router_score_function", "sigmoid");
        } else if (m.top_k == 1) {
            flag("moe_router_pre_softmax", true);
        }
        // without it Megatron-LM's experts run one by one (SequentialMLP)
        flag("moe_grouped_gemm", !lm() || e_.runtime.experts.products != ExpertProducts::each);
        // TEGroupedMLP asserts that these two are not both on (moe/experts.py of 0.16.1)
        if (e_.workload.linear_bias && !nemo())
            flag_or_not("no_bias_dropout_fusion", "bias_dropout_fusion", false);
        add("moe_token_dispatcher_type", sends_once(e_) ? "flex" : "alltoall");
        numbers({"parallelism.ep"});
        if (p.tp > 1) add("expert_tensor_parallel_size", ranks_of_expert(e_));
    }

    void stages() {
        const auto& p = e_.parallelism;
        const bool divides = e_.workload.layers % (p.pp * p.vp) == 0;
        if (!p.stage_layers.empty() ||
            (p.pp * p.vp > 1 && (p.layout != StageLayout::even || !divides))) {
            std::vector<std::string> stages;
            for (const int layers : chunk_layers(e_.workload, p))
                stages.push_back(layers > 0 ? fmt::format("t*{}", layers) : "");
            const std::string further(as_index(nemo() ? 0 : e_.workload.mtp_layers), 'm');
            add("pipeline_model_parallel_layout",
                fmt::format("\"E{}{}L\"", joined(stages, "|"), further));
        } else if (p.vp > 1) {
            add(lm() ? "num_virtual_stages_per_pipeline_rank"
                     : "virtual_pipeline_model_parallel_size",
                p.vp);
        }
    }

    void split() {
        const auto& p = e_.parallelism;
        numbers({"parallelism.tp", "parallelism.pp", "parallelism.cp"});
        stages();
        if (p.sequence_parallel) flag("sequence_parallel", true);
        const std::string overlap = bridge() ? "comm_overlap" : "model";
        if (p.tp > 1)  // also written if off, because recipes turn it on
            flag(nemo() ? "ub_tp_comm_overlap" : "tp_comm_overlap", overlaps_tensor(e_), overlap);
        if (p.cp > 1)
            add("cp_comm_type",
                e_.runtime.context_exchange == ContextExchange::ring ? "p2p" : "all_gather");
        if (e_.workload.moe.experts > 0 && p.overlap_experts && !nemo())
            flag("overlap_moe_expert_parallel_comm", true, overlap);
        if (!e_.runtime.gradients.fused_accumulation)
            flag_or_not("no_gradient_accumulation_fusion", "gradient_accumulation_fusion", false);
        if (p.rank_order != "tp-cp-dp-pp") flag("use_tp_pp_dp_mapping", true);
        if (p.vp > 1 && !e_.runtime.exchanges.sends && !bridge())
            flag_or_not("no_overlap_p2p_communication", "overlap_p2p_comm", false);
    }

    void training() {
        const auto& p = e_.parallelism;
        const std::string section = bridge() ? "train" : "model";
        add("micro_batch_size", p.micro_batch, section);
        add("global_batch_size", sequences_of_step(p), section);
        precision();
        optimizer();
        if (e_.run.cuda_graph && !nemo()) add("cuda_graph_impl", "local");
    }

    void precision() {
        const auto dtype = e_.workload.dtype;
        constexpr std::array known{Dtype::fp32, Dtype::fp16, Dtype::bf16, Dtype::fp8, Dtype::fp4};
        out_.refuse_unless(contains(known, dtype) && !(nemo() && dtype == Dtype::fp4),
                           fmt::format("workload.dtype {}", to_string(dtype)));
        if (lm()) {
            if (dtype != Dtype::fp32) flag(dtype == Dtype::fp16 ? "fp16" : "bf16", true);
            if (dtype == Dtype::fp8) {
                add("fp8_format", "hybrid");
                if (e_.runtime.narrow_weights) flag("fp8_param_gather", true);
            }
            if (dtype == Dtype::fp4) add("fp4_format", "e2m1");
        } else if (nemo()) {
            add("precision",
                dtype == Dtype::fp16   ? "16"
                : dtype == Dtype::fp32 ? "32"
                                       : "bf16",
                "trainer");
            if (dtype == Dtype::fp8) flag("fp8", true);
            out_.refuse_unless(!e_.runtime.narrow_weights, "runtime.narrow_weights");
        } else if (dtype != Dtype::fp32) {  // a recipe of training/mixed_precision.py by its name
            add("mixed_precision",
                dtype == Dtype::fp8   ? "bf16_with_fp8_current_scaling_mixed"
                : dtype == Dtype::fp4 ? "bf16_with_nvfp4_mixed"
                                      : fmt::format("{}_mixed", to_string(dtype)),
                whole_file);
        }
    }

    void optimizer() {
        const bool dealt = e_.workload.optimizer == Optimizer::muon && e_.parallelism.zero == 1;
        const std::string optimizer(dealt ? "dist_muon" : to_string(e_.workload.optimizer)),
            place = lm() ? "model" : "optimizer";
        if (!nemo()) add("optimizer", optimizer, place);
        if (e_.run.offload_optimizer) {
            flag("optimizer_cpu_offload", true, place);
            flag("use_precision_aware_optimizer", true, place);
        }
    }

    // Only its distributed optimizer has keys for exchanges: others get every key of `optim` as an
    // argument of their constructor (nemo/core/classes/modelPT.py). Its DDP gathers early by
    // overlap_param_gather (megatron_gpt_model.py: setup_mcore_distributed_parallel), chunks of
    // a pipeline by overlap_param_sync, and counts buckets in weights.
    void distributed_optimizer_of_nemo() {
        const auto& p = e_.parallelism;
        const bool sgd = e_.workload.optimizer == Optimizer::sgd;
        out_.refuse_unless(!sgd || p.zero == 0,
                           "workload.optimizer sgd with zero 1: its distributed optimizer is Adam");
        add("name", p.zero == 1 ? "mcore_distributed_optim" : sgd ? "sgd" : "fused_adam", "optim");
        if (p.zero == 0) return;
        flag("overlap_grad_sync", overlaps_gradients(e_), "optim");
        for (const char* key : {"overlap_param_gather", "overlap_param_sync"})
            flag(key, overlaps_parameters(e_), "optim");
        add("grad_sync_dtype", std::string(to_string(gradient_type(e_))), "optim");
        add("ddp_bucket_size", weights_of_bucket(), "optim");
    }

    void data_parallel() {
        const auto& p = e_.parallelism;
        const bool fsdp = p.zero >= 2;
        const std::string section = lm() ? "model" : "ddp";
        if (fsdp) {
            flag("use_megatron_fsdp", true, section);
            add("data_parallel_sharding_strategy",
                p.zero == 3 ? "optim_grads_params" : "optim_grads", section);
            if (shards_over_some(p))
                add("num_distributed_optimizer_instances", ranks_of_weights(p) / p.shard, section);
        } else {
            flag("use_distributed_optimizer",
                 p.zero == 1 && e_.workload.optimizer != Optimizer::muon, section);
        }
        const bool gathers = p.zero > 0 && overlaps_parameters(e_);
        out_.refuse_unless(
            !gathers || overlaps_gradients(e_),
            "runtime.exchanges.parameters without gradients: --overlap-param-gather needs "
            "--overlap-grad-reduce");
        flag("overlap_grad_reduce", overlaps_gradients(e_), section);
        flag("overlap_param_gather", gathers, section);
        const bool low = gradient_type(e_) == Dtype::bf16;
        if (lm()) {
            flag("grad_reduce_in_bf16", low);
            if (e_.workload.dtype == Dtype::fp16)
                flag("accumulate_allreduce_grads_in_fp32", gradient_type(e_) == Dtype::fp32);
        } else {
            flag("grad_reduce_in_fp32", !low, section);
        }
        add(lm() ? "ddp_bucket_size" : "bucket_size", weights_of_bucket(), section);
    }

    long weights_of_bucket() const {
        const double each = gradient_type(e_) == Dtype::fp32 ? 4 : 2;
        return static_cast<long>(bucket_bytes(e_).si() / each);
    }

    void recompute() {
        const auto& p = e_.parallelism;
        if (p.recompute == Recompute::none) return;
        const std::string prefix = nemo() ? "activations_checkpoint_" : "recompute_";
        add(prefix + "granularity", std::string(to_string(p.recompute)));
        if (p.recompute == Recompute::selective) return recomputed_modules();
        add(prefix + "method", p.recompute_layers > 0 ? "block" : "uniform");
        out_.refuse_unless(
            p.recompute_layers % p.vp == 0,
            fmt::format(
                "{} layers of a stage computed again: it takes as many of each of {} chunks",
                p.recompute_layers, p.vp));
        add(prefix + "num_layers", p.recompute_layers > 0 ? p.recompute_layers / p.vp : 1);
    }

    // Those that the model lacks are refused at the start.
    void recomputed_modules() {
        const auto modules = modules_of(e_.workload, e_.parallelism.recompute_modules);
        if (modules.empty()) return;
        std::vector<std::string_view> names;
        for (const RecomputedModule module : modules) names.push_back(to_string(module));
        out_.refuse_unless(!nemo(), "recompute_modules");
        add("recompute_modules",
            lm() ? joined(names, " ") : fmt::format("[{}]", joined(names, ", ")));
    }

    std::string shell() const {
        std::string text = "ARGS=(\n";
        for (const Line& line : lines_) {
            std::string name = line.name;
            std::ranges::replace(name, '_', '-');
            text += fmt::format("    --{}{}{}\n", name, line.value.empty() ? "" : " ", line.value);
        }
        text +=
            "    # before the first run:\n"
            "    # --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --lr-warmup-iters 2000\n"
            "    # --train-iters 100000 --weight-decay 0.1 --clip-grad 1.0\n"
            "    # --data-path PREFIX --split 99,1,0 --tokenizer-type HuggingFaceTokenizer "
            "--tokenizer-model PATH\n";
        return text + fmt::format(
                          ")\n# on several nodes: --rdzv_backend c10d --rdzv_endpoint HOST:29500\n"
                          "torchrun --nnodes {} --nproc_per_node {} {} \"${{ARGS[@]}}\" \"$@\"\n",
                          e_.cluster.nodes, e_.cluster.gpus_per_node,
                          e_.workload.causal ? "pretrain_gpt.py" : "pretrain_bert.py");
    }

    std::string yaml() const {
        std::string text;
        if (nemo())
            text += fmt::format("trainer:\n  num_nodes: {}\n  devices: {}\n", e_.cluster.nodes,
                                e_.cluster.gpus_per_node);
        for (const Line& line : lines_)
            if (nemo() && line.section == "trainer")
                text += fmt::format("  {}: {}\n", line.name, line.value);
        for (const Line& line : lines_)
            if (line.section == whole_file) text += fmt::format("{}: {}\n", line.name, line.value);
        for (const char* section :
             {"model", "train", "ddp", "comm_overlap", "optimizer", "optim"}) {
            std::string lines;
            // NeMo nests optim inside model
            const bool inside = nemo() && std::string_view(section) == "optim";
            for (const Line& line : lines_)
                if (line.section == section)
                    lines += fmt::format("{}  {}: {}\n", inside ? "  " : "", line.name, line.value);
            if (!lines.empty())
                text += fmt::format("{}{}:\n{}", inside ? "  " : "", section, lines);
        }
        // the recipe counts above ddp (megatron-bridge 0.6.2, training/mixed_precision.py: setup)
        if (!nemo() && gradient_type(e_) == Dtype::bf16)
            text +=
                "# the recipe of mixed_precision sets ddp.grad_reduce_in_fp32 to true as a run "
                "begins: in the program,\n"
                "# cfg.mixed_precision = get_mixed_precision_config(cfg.mixed_precision); "
                "cfg.mixed_precision.grad_reduce_in_fp32 = False\n";
        text += nemo() ? "# before the first run: model.optim.lr, model.data.data_prefix, "
                         "model.tokenizer, trainer.max_steps\n"
                       : "# before the first run: optimizer.lr, dataset, tokenizer, "
                         "train.train_iters\n";
        return text;
    }

    const Experiment& e_;
    EmitFormat format_;
    Emission& out_;
    std::vector<Line> lines_;
};

}  // namespace

std::string emit_megatron(const Experiment& experiment, EmitFormat format, Emission& emitter) {
    return MegatronWriter(experiment, format, emitter).write();
}

}  // namespace stepcast
