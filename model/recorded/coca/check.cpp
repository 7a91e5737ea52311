#include "model/recorded/coca/check.h"

#include "model/base/refuse.h"
#include "model/input/check_experiment.h"
#include "model/recorded/coca/tensors.h"

namespace stepcast {
namespace {

void check_tower(std::string_view name, const Tower& t) {
    for (const auto& [key, value] :
         {std::pair("layers", t.layers), std::pair("hidden", t.hidden), std::pair("heads", t.heads),
          std::pair("ffn", t.ffn), std::pair("seq", t.seq)})
        if (value < 1) refuse("workload.{}.{}: missing; workload.kind is coca", name, key);
    if (t.hidden % t.heads != 0)
        refuse(
            "workload.{0}.heads: {1} does not divide workload.{0}.hidden = {2}; expected a divisor",
            name, t.heads, t.hidden);
}

void check_towers(const Workload& w) {
    check_tower("vision", w.vision);
    check_tower("decoder", w.decoder);
    if (w.heads < 1) refuse("workload.heads: missing; expected attention heads of the text tower");
    if (w.hidden % w.heads != 0)
        refuse("workload.heads: {} does not divide workload.hidden = {}; expected a divisor",
               w.heads, w.hidden);
    if (w.vocab < 1) refuse("workload.vocab: missing; workload.kind is coca");
    if (w.vision.seq < 2)
        refuse("workload.vision.seq: {}; expected a class token and at least one patch",
               w.vision.seq);
    if (w.decoder.hidden != w.hidden)
        refuse("workload.decoder.hidden: {}, but the decoder reads a text of workload.hidden = {}",
               w.decoder.hidden, w.hidden);
    if (w.decoder.seq != w.seq)
        refuse("workload.decoder.seq: {}, but the decoder reads a text of workload.seq = {}",
               w.decoder.seq, w.seq);
}

// Keys that a transformer step uses but this step, which has data parallelism only, does not.
constexpr std::string_view keys_of_other_splits[] = {"parallelism.tp",
                                                     "parallelism.pp",
                                                     "parallelism.vp",
                                                     "parallelism.cp",
                                                     "parallelism.sequence_parallel",
                                                     "workload.kv_heads",
                                                     "workload.head_dim",
                                                     "workload.positions",
                                                     "workload.norm",
                                                     "workload.mla.kv_rank",
                                                     "runtime.attention",
                                                     "workload.linear_bias",
                                                     "workload.qkv_bias",
                                                     "workload.dropout",
                                                     "workload.activation",
                                                     "workload.head",
                                                     "workload.memory",
                                                     "workload.token_types",
                                                     "runtime.loss.pieces",
                                                     "runtime.loss.fused",
                                                     "runtime.loss.logits",
                                                     "runtime.kernels",
                                                     "runtime.kernels",
                                                     "parallelism.schedule",
                                                     "parallelism.stage_layers",
                                                     "parallelism.layout",
                                                     "runtime.exchanges.tensor",
                                                     "runtime.fused_gate",
                                                     "workload.qk_norm",
                                                     "workload.post_norms",
                                                     "runtime.composed",
                                                     "runtime.row_scales",
                                                     "runtime.gather_copies",
                                                     "parallelism.shard",
                                                     "parallelism.recompute_layers",
                                                     "parallelism.recompute_modules",
                                                     "parallelism.overlap_chunks",
                                                     "parallelism.overlap_experts"};

void check_unmodelled(const Experiment& e) {
    for (const auto path : keys_of_other_splits) check_default(e, path);
    if (e.runtime.exchanges.parameters)
        refuse(
            "runtime.exchanges.parameters: true, but workload.kind coca gathers parameters at the "
            "end of its step; "
            "expected false");
}

void check_split(const Parallelism& p) {
    if (p.zero != 1)
        refuse("parallelism.zero: {}, but workload.kind coca is modelled under ZeRO stage 1 alone",
               p.zero);
    if (p.recompute == Recompute::selective || p.recompute == Recompute::alternate)
        refuse(
            "parallelism.recompute: {}, but the blocks of workload.kind coca are computed again "
            "whole; "
            "expected none or full",
            to_string(p.recompute));
    if (micro_batches(p) != 1)
        refuse(
            "parallelism.global_batch: {} makes {} micro-batches, but workload.kind coca models "
            "one; expected 0 or "
            "dp x micro_batch = {}",
            p.global_batch, micro_batches(p), p.dp * p.micro_batch);
}

}  // namespace

void check_coca(const Experiment& e) {
    check_towers(e.workload);
    check_unmodelled(e);
    check_split(e.parallelism);
    (void)parameter_groups(e);
}

}  // namespace stepcast
