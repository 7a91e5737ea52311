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
// articles have some 256 tokens in the mean, so a sequence of up to 512 is padded to 288. Full ones would be impossible: the
// 210 a second that its README states for one A100 would need 248 of 312 TFLOP/s.
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
