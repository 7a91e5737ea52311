#include "model/cases/conventions.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "model/errors.h"

namespace stepcast {
namespace {

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
    return out;
}

// Radford et al. 2019: the defaults of a Workload.
Workload gpt() {
    Workload w;
    w.kind = Workload::Kind::transformer;
    return w;
}

Workload bert() {
    Workload w = gpt();
    w.causal = false;
    return w;
}

// arXiv 2302.13971; Mistral, Mixtral, Qwen and DeepSeek differ in attention and experts only.
Workload llama() {
    Workload w = gpt();
    w.gated = true;
    w.norm = Norm::rmsnorm;
    w.positions = Positions::rotary;
    w.tied = w.linear_bias = w.qkv_bias = false;
    return w;
}

// The released code multiplies by the transposed embedding (xai-org/grok-1, model.py).
Workload grok() {
    Workload w = llama();
    w.tied = true;
    return w;
}

// arXiv 2402.16819, section 2: squared ReLU without gate, rotary, no biases, untied.
Workload nemotron() {
    Workload w = gpt();
    w.positions = Positions::rotary;
    w.tied = w.linear_bias = w.qkv_bias = false;
    return w;
}

// arXiv 2505.09388: heads of 128 whatever the width.
Workload qwen3() {
    Workload w = llama();
    w.head_dim = 128;
    return w;
}

// Model card of gpt-oss: heads of 64, biases everywhere.
Workload gpt_oss() {
    Workload w = llama();
    w.head_dim = 64;
    w.linear_bias = w.qkv_bias = true;
    return w;
}

Workload deepseek(int q_rank, int dense_ffn, int dense_layers, int shared_experts, bool router_bias) {
    Workload w = llama();
    w.attention = AttentionKind::mla;
    w.mla = {q_rank, 512, 128, 64, 128};
    w.ffn = dense_ffn;
    w.moe.dense_layers = dense_layers;
    w.moe.shared_experts = shared_experts;
    w.moe.router_bias = router_bias;
    return w;
}
// arXiv 2412.19437, section 4.2: a token's experts are in four of eight groups.
Workload deepseek_v3() {
    Workload w = deepseek(1536, 18432, 3, 1, true);
    w.moe.groups = 8;
    w.moe.top_groups = 4;
    return w;
}
// arXiv 2405.04434, section 3.1: in three of eight.
Workload deepseek_v2() {
    Workload w = deepseek(1536, 12288, 1, 2, false);
    w.moe.groups = 8;
    w.moe.top_groups = 3;
    return w;
}
Workload deepseek_v2_lite() { return deepseek(0, 10944, 1, 2, false); }  // the same, appendix B
Workload moonlight() { return deepseek(0, 11264, 1, 2, true); }          // arXiv 2502.16982

// Released configuration of Kimi K2: DeepSeek-V3's layers with one dense one.
Workload kimi() { return deepseek(1536, 18432, 1, 1, true); }

// Released configurations of Llama 4: experts of 8192 and a shared one of the same width, one expert a token; Maverick's
// are in every second layer, beside dense ones of 16384. Full attention up to 8192 tokens (longer ones in pieces).
Workload llama4(int interval) {
    Workload w = llama();
    w.ffn = 16384;
    w.moe.ffn = 8192;
    w.moe.shared_experts = 1;
    w.moe.top_k = 1;
    w.moe.interval = interval;
    w.moe.experts = 1;  // how many says the row
    return w;
}
Workload maverick() { return llama4(2); }
Workload scout() { return llama4(1); }

// arXiv 1901.02860. Adaptive softmax (cutoffs 19997, 39997, 199997 of 267735 symbols): the frequent words and three clusters
// for all positions, the rarer ones for those that have them: about 3.5, 4 and 0.5 % of WikiText-103's tokens. That makes a
// tenth of the whole table.
Workload transformer_xl() {
    Workload w = gpt();
    w.positions = Positions::relative;
    w.qkv_bias = false;
    w.activation = Activation::relu;
    w.inner_dropout = true;
    w.head_share = 0.1;
    return w;
}

// The large model's table is narrower for rarer symbols (div_val 4): 37 million weights, as many as 36100 symbols of full
// width; logits amount to 0.57 of those.
Workload transformer_xl_large() {
    Workload w = transformer_xl();
    w.vocab = 36100;
    w.head_share = 0.57;
    return w;
}

// Nemotron-H 56B (arXiv 2504.03624, table 1): 118 blocks, of them 54 Mamba-2, 54 feed-forward and 10 attention.
Workload nemotron_h() {
    Workload w = nemotron();
    w.norm = Norm::rmsnorm;
    w.positions = Positions::none;
    w.mamba = {256, 64, 256, 8, 10.0 / 54};
    return w;
}

// Nemotron 3 Nano (technical report, table 1): 52 blocks, of them 23 Mamba-2, 23 of experts (two shared ones as wide as 3712)
// and 6 attention with heads of 128.
Workload nemotron_3_nano() {
    Workload w = nemotron_h();
    w.head_dim = 128;
    w.mamba = {64, 64, 128, 8, 6.0 / 23};
    w.moe.shared_experts = 2;
    w.moe.router_bias = true;
    return w;
}

// Qwen2 and 2.5 have biases in the projections of queries, keys and values alone.
Workload qwen2() {
    Workload w = llama();
    w.qkv_bias = true;
    return w;
}

struct FamilyRule {
    std::string_view prefix;
    Workload (*architecture)();  // null: not modelled
    std::string_view words;      // or why it is not
    double blocks_a_layer = 1;
};
constexpr std::string_view llama_words = "gated feed-forward, rmsnorm, rotary positions, untied, no biases";
constexpr std::string_view gpt_words = "two-matrix feed-forward, layernorm, learned positions, tied, biases";
// The first that a name begins with: longer ones before shorter ones.
constexpr auto families = std::to_array<FamilyRule>({
    {"gpt-oss", gpt_oss, "gated feed-forward, rmsnorm, rotary positions, untied, biases, heads of 64, full attention"},
    {"gpt", gpt, gpt_words},
    {"megatron", gpt, gpt_words},
    {"mt-nlg", gpt, gpt_words},
    {"mpt", gpt, gpt_words},
    {"bert", bert,
     "two-matrix feed-forward, layernorm, learned positions, tied, biases, not causal, logits of every token"},
    {"llama4-maverick", maverick,
     "gated feed-forward, rmsnorm, rotary positions, untied, no biases; every second layer with experts of 8192, one "
     "of "
     "them and a shared one a token, the others dense with 16384"},
    {"llama4", scout,
     "gated feed-forward, rmsnorm, rotary positions, untied, no biases; experts of 8192, one of them and a shared one "
     "a "
     "token"},
    {"llama", llama, llama_words},
    {"mistral", llama, llama_words},
    {"mixtral", llama, llama_words},
    {"codellama", llama, llama_words},
    {"olmo", llama, llama_words},
    {"qwen3-next", nullptr, "a hybrid of linear and full attention"},
    {"qwen2", qwen2, "gated feed-forward, rmsnorm, rotary positions, untied, biases of queries, keys and values"},
    {"qwen3", qwen3, "gated feed-forward, rmsnorm, rotary positions, untied, no biases, heads of 128"},
    {"grok", grok, "gated feed-forward, rmsnorm, rotary positions, tied, no biases"},
    {"nemotron-h", nemotron_h, "layers of Mamba-2 and feed-forward with 10 attention blocks over 54 of them",
     118.0 / 54},
    {"nemotron_3_nano", nemotron_3_nano, "layers of Mamba-2 and experts with 6 attention blocks over 23 of them",
     52.0 / 23},
    {"nemotron-3-nano", nemotron_3_nano, "layers of Mamba-2 and experts with 6 attention blocks over 23 of them",
     52.0 / 23},
    {"nemotron_3", nullptr, "a hybrid of Mamba and attention layers"},
    {"nemotron", nemotron, "two-matrix feed-forward, layernorm, rotary positions, untied, no biases"},
    {"deepseek-v3", deepseek_v3,
     "latent attention (1536, 512; 128 + 64, 128), 3 dense layers of 18432, one shared expert, router with biases"},
    {"deepseek-v2-lite", deepseek_v2_lite,
     "latent attention (none, 512; 128 + 64, 128), one dense layer of 10944, two shared experts"},
    {"deepseek-v2", deepseek_v2,
     "latent attention (1536, 512; 128 + 64, 128), one dense layer of 12288, two shared experts"},
    {"kimi", kimi, "latent attention (1536, 512; 128 + 64, 128), one dense layer of 18432, one shared expert"},
    {"opt", gpt, gpt_words},
    {"moonlight", moonlight,
     "latent attention (none, 512; 128 + 64, 128), one dense layer of 11264, two shared experts"},
    {"transformer-xl-large", transformer_xl_large,
     "two-matrix feed-forward, relative positions, a memory as long as the sequence, a table of 36100 symbols of full "
     "width"},
    {"transformer-xl", transformer_xl,
     "two-matrix feed-forward, relative positions, a memory as long as the sequence, logits of a tenth of the symbols"},
    {"nemotron3", nullptr, "a hybrid of Mamba and attention layers"},
});

Framework megatron_before_2022() {
    return {.attention = AttentionKind::plain,
            .dropout = 0.1,
            .overlap = false,
            .overlap_params = false,
            .overlap_weight_gradient = false,
            .fused_accumulation = false,
            .fused_loss = false,
            .words =
                "plain attention, dropout 0.1, 16-bit gradients exchanged after the last backward in one bucket, "
                "tensor-parallel exchanges exposed, no fused accumulation or loss"};
}

// With arXiv 2205.05198 came exchanges beside the weight gradients, and GEMMs that accumulate.
Framework megatron_2022() {
    Framework f = megatron_before_2022();
    f.overlap_weight_gradient = f.fused_accumulation = true;
    f.words =
        "plain attention, dropout 0.1, gradients exchanged after the last backward in one bucket, tensor-parallel "
        "exchanges of the backward beside weight gradients, fused accumulation";
    return f;
}

// Megatron-Core's DDP: buckets of max(40 million, 1 million x dp) weights (distributed_data_parallel_config.py).
Framework megatron_core() {
    return {.tied_gpt = false,
            .gradients = Dtype::fp32,
            .overlap_tp = true,
            .interleaves = true,
            .bucket_weights = 40e6,
            .words =
                "flash attention, untied, fp32 gradients in buckets of 40 million beside backward, parameters gathered "
                "beside "
                "forward, tensor-parallel exchanges beside GEMMs"};
}

// NeMo's recipes on top of it: grad_reduce_in_fp32 off.
Framework nemo() {
    Framework f = megatron_core();
    f.tied_gpt = true;
    f.interleaves = false;
    f.gradients.reset();
    f.words =
        "flash attention, 16-bit gradients in buckets of 40 million beside backward, parameters gathered beside "
        "forward, "
        "tensor-parallel exchanges beside GEMMs";
    return f;
}

// Its second generation (from 25.04 on) runs every expert whole (expert_tensor_parallel_size 1).
Framework nemo2() {
    Framework f = nemo();
    f.split_experts = false;
    f.words += ", experts whole";
    return f;
}

// Dropless recipes dispatch with DeepEP or HybridEP; those that drop tokens with NCCL's all-to-all.
Framework bridge() {
    Framework f = nemo2();
    f.dropless_once = f.recipe_graphs = true;
    return f;
}

Framework simumax() {
    return {.gradients = Dtype::fp32,
            .overlap = false,
            .overlap_params = false,
            .overlap_p2p = false,
            .overlap_weight_gradient = false,
            .words = "flash attention, fp32 gradients, nothing overlaps"};
}

Framework fsdp(std::optional<Dtype> gradients, std::string words) {
    return {.attention = AttentionKind::flash2,
            .gradients = gradients,
            .fused_accumulation = false,
            .words = std::move(words)};
}
Framework fsdp_fp32() { return fsdp(Dtype::fp32, "compiled, FlashAttention-2, gradients reduced in fp32"); }
Framework fsdp_16bit() { return fsdp(std::nullopt, "compiled, FlashAttention-2, gradients reduced in 16 bit"); }
Framework eager(Framework f, std::string words) {
    f.eager = true;
    f.words = std::move(words);
    return f;
}
Framework eager_fp32() { return eager(fsdp_fp32(), "eager passes, FlashAttention-2, gradients reduced in fp32"); }
Framework eager_16bit() { return eager(fsdp_16bit(), "eager passes, FlashAttention-2, gradients reduced in 16 bit"); }
// Under autocast its checkpoints are not reentrant: they stop with the last tensor that the backward needs.
Framework eager_autocast() {
    Framework f =
        eager(fsdp_fp32(), "eager passes, FlashAttention-2, gradients reduced in fp32, recompute stops early");
    f.recompute_stops_early = true;
    return f;
}

// JAX calls the vendor's attention kernels.
Framework jax() {
    Framework f = fsdp_16bit();
    f.attention = AttentionKind::flash;
    f.words = "compiled, flash attention, gradients reduced in 16 bit";
    return f;
}

// Its attention was written in XLA's operations: scores go through memory.
Framework paxml() {
    Framework f = jax();
    f.attention = AttentionKind::plain;
    f.words = "compiled, plain attention, gradients reduced in 16 bit";
    return f;
}

// Its minimal policies keep the results of matrix products, on the host where they do not fit (MaxText, base.yml:
// remat_policy).
Framework maxtext() {
    Framework f = jax();
    f.recompute = Recompute::none;
    return f;
}

Framework small_ddp() {
    return {.gradients = Dtype::fp32,
            .fused_accumulation = false,
            .bucket_weights = 6.5536e6,  // 25 MiB of fp32, DDP's default
            .words = "compiled, flash attention, no dropout, fp32 gradients in buckets of 25 MiB beside backward"};
}

// Its README's figure is of December 2022, before the script called a fused kernel for attention.
Framework nano_gpt() {
    Framework f = small_ddp();
    f.attention = AttentionKind::plain;
    f.words = "compiled, plain attention, no dropout, fp32 gradients in buckets of 25 MiB beside backward";
    return f;
}

// LAMB, gradients exchanged once after accumulation, in 16 bit (allreduce_post_accumulation_fp16). Logits are made of the
// masked 15 % alone (sequence_output_is_dense); batches are made of sequences whose lengths lie within 64 tokens (LDDL):
// articles have some 256 tokens in the mean, so a sequence of up to 512 is padded to 288.
Framework bert_examples() {
    Framework f = megatron_before_2022();
    f.optimizer = Optimizer::lamb;
    f.predicted = 0.15;
    f.mean_sequence = 288;
    f.words =
        "plain attention, dropout 0.1, LAMB, 16-bit gradients exchanged once after accumulation, logits of the masked "
        "15 %, "
        "batches of like lengths";
    return f;
}

// Its layers and its LAMB are written operation by operation.
Framework transformer_xl_examples() {
    Framework f = megatron_before_2022();
    f.optimizer = Optimizer::lamb;
    f.unfused = true;
    f.fused_loss = false;
    f.reads_loss = true;
    f.overlap = true;
    f.bucket_weights = 6.5536e6;
    f.optimizer_groups_a_layer = 11;
    f.optimizer_calls = 12;
    f.words =
        "unfused layers, dropout 0.1, LAMB parameter by parameter, gradients in buckets of 25 MiB beside backward";
    return f;
}

struct FrameworkRule {
    std::string_view source;  // what the source begins with
    std::string_view named;   // what case or notes must name besides; "" = nothing
    std::string_view name;
    Framework (*framework)();
};
constexpr auto frameworks = std::to_array<FrameworkRule>({
    {"dgxc", "maxtext", "MaxText", maxtext},
    {"dgxc", "paxml", "Paxml", paxml},
    {"dgxc", "dgxc_24", "NeMo", nemo},
    {"dgxc", "dgxc_25.02", "NeMo", nemo},
    {"dgxc", "", "NeMo 2", nemo2},
    {"mlperf", "", "NeMo", nemo},
    {"nemo", "", "NeMo", nemo},
    {"megatron_bridge", "", "Megatron-Bridge", bridge},
    {"mbridge", "", "Megatron-Bridge", bridge},
    {"megatron_moe", "", "Megatron-Core", bridge},
    {"megatron_core", "", "Megatron-Core", megatron_core},
    {"megatron", "", "Megatron-LM before 2022", megatron_before_2022},
    {"mt_nlg", "", "Megatron-DeepSpeed", megatron_before_2022},
    {"mtnlg", "", "Megatron-DeepSpeed", megatron_before_2022},
    {"korthikanti", "", "Megatron-LM of 2022", megatron_2022},
    {"vtrain", "", "Megatron-DeepSpeed", megatron_before_2022},
    {"simumax", "", "Megatron-Core without overlap", simumax},
    {"mosaic", "mode pure", "PyTorch FSDP", eager_16bit},
    {"mosaic", "", "PyTorch FSDP", eager_autocast},
    {"torchtitan", "compile", "PyTorch FSDP2", fsdp_fp32},
    {"torchtitan", "", "PyTorch FSDP2", eager_fp32},
    {"fms_fsdp", "", "PyTorch FSDP", fsdp_16bit},
    {"jax_toolbox_maxtext", "", "MaxText", maxtext},
    {"jax_toolbox_pax", "", "Paxml", paxml},
    {"jax", "pax", "Paxml", paxml},
    {"jax", "", "JAX", jax},
    {"flash_attention", "", "PyTorch DDP", small_ddp},
    {"nanogpt", "", "PyTorch DDP", nano_gpt},
    {"llm", "", "llm.c", small_ddp},
    {"deeplearningexamples_bert", "", "the BERT examples", bert_examples},
    {"deeplearningexamples_t", "", "the Transformer-XL examples", transformer_xl_examples},
});

}  // namespace

ModelFamily family_of(std::string_view model) {
    const auto name = lower(model);
    std::string known;
    for (const auto& rule : families) {
        if (name.starts_with(rule.prefix)) {
            if (!rule.architecture)
                throw ConfigError("model: \"" + std::string(model) + "\" is not modelled: " + std::string(rule.words));
            return {rule.architecture(), rule.blocks_a_layer,
                    std::string(rule.prefix) + ": " + std::string(rule.words)};
        }
        if (rule.architecture) known += (known.empty() ? "" : ", ") + std::string(rule.prefix);
    }
    throw ConfigError("model: \"" + std::string(model) +
                      "\" is of no known family and no preset experiment; expected a name that begins with one of " +
                      known);
}

Framework framework_of(std::string_view source, std::string_view case_and_notes) {
    const auto from = lower(source), named = lower(case_and_notes);
    for (const auto& rule : frameworks) {
        if (!from.starts_with(rule.source) || named.find(rule.named) == std::string::npos) continue;
        Framework framework = rule.framework();
        framework.words = std::string(rule.name) + ": " + framework.words;
        return framework;
    }
    Framework framework = nemo();
    framework.words =
        "framework not known from source \"" + std::string(source) + "\", taken as Megatron-Core's: " + framework.words;
    return framework;
}

}  // namespace stepcast
