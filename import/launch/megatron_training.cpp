#include "import/launch/megatron_training.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "import/launch/megatron_source.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

// Adam alone can be there, and by a share of the weights (megatron-core 0.16.1,
// optimizer/cpu_offloading/hybrid_optimizer.py).
void take_offload(MegatronSource& s) {
    const auto* offload =
        s.d.find_any({"optimizer_cpu_offload", "optimizer.optimizer_cpu_offload"});
    if (!offload || !flag_in(*offload)) return;
    s.t.set("run.offload_optimizer", "true", offload->at);
    s.d.find_any({"use_precision_aware_optimizer", "optimizer.use_precision_aware_optimizer"});
    if (const auto* share = s.d.find("optimizer_offload_fraction"); share && number_in(*share) != 1)
        s.t.problem(*share, "the forecast has all states on the host");
}

void take_sharding(MegatronSource& s, const NamedValue& fsdp) {
    static const std::map<std::string, long> stages{
        {"no_shard", 0}, {"optim", 1}, {"optim_grads", 2}};
    const auto* how = s.d.find("data_parallel_sharding_strategy");
    const auto stage = how ? stages.find(how->value) : stages.end();
    s.t.set("parallelism.zero", stage == stages.end() ? 3 : stage->second, fsdp.at);
    if (fsdp.name == "use_custom_fsdp" && !how)
        s.t.open.push_back(
            "data_parallel_sharding_strategy: taken as the optim_grads_params of today, "
            "versions with use_custom_fsdp may differ");
}

void take_zero(MegatronSource& s) {
    const auto* distributed = s.d.find("use_distributed_optimizer");
    const auto* optim = s.d.find("optim.name");
    const auto* fsdp = s.d.find_any({"use_megatron_fsdp", "dist.use_megatron_fsdp",
                                     "ddp.use_megatron_fsdp", "use_custom_fsdp"});
    const auto* fsdp2 = s.d.find_any({"use_torch_fsdp2", "dist.use_torch_fsdp2"});
    const auto* stage = s.d.find("zero_stage");
    const auto* optimizer = s.d.find_any({"optimizer", "optimizer.optimizer"});
    if (stage) {  // stated by Megatron-DeepSpeed only
        s.t.set("parallelism.zero", integer_in(*stage), stage->at);
    } else if (optimizer && optimizer->value == "dist_muon") {
        // whole matrices are dealt out (optimizer/layer_wise_optimizer.py)
        s.t.set("parallelism.zero", 1, optimizer->at);
    } else if (fsdp && flag_in(*fsdp)) {
        take_sharding(s, *fsdp);
    } else if (fsdp2 && flag_in(*fsdp2)) {
        s.t.set("parallelism.zero", 3, fsdp2->at);
    } else if (const auto* torch = s.dialect == MegatronDialect::nemo ? s.d.on("fsdp") : nullptr) {
        // PyTorch's (nemo_toolkit 2.0.0, megatron_trainer_builder.py, nlp_overrides.py)
        const std::string how = s.d.text("fsdp_sharding_strategy", "full");
        s.t.set("parallelism.zero", how == "grad" ? 2 : 3, torch->at);
        if (how == "hybrid")
            s.t.problem(*torch, "hybrid; the forecast shards over all replicas, not within a node");
    } else {
        s.t.take(
            "parallelism.zero", distributed ? distributed : optim,
            [&](const NamedValue& v) {
                return (distributed ? flag_in(v) : has(v.value, "distributed")) ? "1" : "0";
            },
            s.dialect == MegatronDialect::bridge ? "1" : "0");
    }
}

void take_overlaps(MegatronSource& s) {
    const bool otherwise = s.dialect == MegatronDialect::bridge;
    // NeMo 1 leaves it to apex (DistributedFusedAdam: overlap_grad_sync=True, overlap_param_sync=
    // False; from knowledge, PyPI does not have it)
    const auto* optimizer = s.d.find("optim.name");
    const bool by_optimizer = optimizer && optimizer->value == "distributed_fused_adam";
    s.t.take("runtime.exchanges.gradients",
             s.d.find_any({"overlap_grad_reduce", "optim.overlap_grad_sync"}), always_text,
             always(otherwise || by_optimizer));
    s.t.take("runtime.exchanges.parameters",
             s.d.find_any({"overlap_param_gather", "optim.overlap_param_gather",
                           "optim.overlap_param_sync"}),
             flag_text, truth(otherwise));
}

// FSDP overlaps whatever the flags say: Megatron's own switches them on for what it shards
// (megatron-core 0.16.1, fsdp/src/megatron_fsdp/megatron_fsdp.py), PyTorch's knows none.
void take_overlaps_of_shards(MegatronSource& s) {
    const auto* by =
        s.d.on("use_torch_fsdp2") ? s.d.on("use_torch_fsdp2") : s.d.on("dist.use_torch_fsdp2");
    for (const char* name : {"use_megatron_fsdp", "dist.use_megatron_fsdp", "ddp.use_megatron_fsdp",
                             "use_custom_fsdp"})
        if (!by) by = s.d.on(name);
    const long zero = s.t.count("parallelism.zero", 0);
    if (!by || zero < 2) return;
    s.t.set("runtime.exchanges.gradients", "always", by->at);
    if (zero == 3) s.t.set("runtime.exchanges.parameters", "true", by->at);
}

void take_gradient_type(MegatronSource& s) {
    const auto* low = s.d.find_any({"grad_reduce_in_bf16"});
    const auto* fp32 = s.d.find_any({"grad_reduce_in_fp32", "accumulate_allreduce_grads_in_fp32"});
    const auto* named = s.d.find("optim.grad_sync_dtype");
    if (low)
        s.t.set("runtime.gradients.type", flag_in(*low) ? "bf16" : "fp32", low->at);
    else if (fp32)
        s.t.set("runtime.gradients.type",
                flag_in(*fp32)       ? "fp32"
                : s.d.states("fp16") ? "fp16"
                                     : "bf16",
                fp32->at);
    else if (named)
        s.t.set("runtime.gradients.type", named->value, named->at);
    else if (const auto* half = s.d.find("fp16"), *brain = s.d.find("bf16");
             s.lm() && half && flag_in(*half) && !(brain && flag_in(*brain)))
        // only --bf16 implies accumulation in fp32
        s.t.take_default("runtime.gradients.type", "fp16");
    else
        s.t.take_default("runtime.gradients.type", "fp32");
}

void take_buckets_and_shards(MegatronSource& s) {
    if (const auto* v = s.lm() ? s.d.on("no_gradient_accumulation_fusion") : nullptr)
        s.t.set("runtime.gradients.fused_accumulation", "false", v->at);
    if (const auto* v = s.d.find_any(
            {"ddp_bucket_size", "optim.ddp_bucket_size", "ddp.bucket_size", "bucket_size"})) {
        const long each = s.t.find("runtime.gradients.type")->value == "fp32" ? 4 : 2;
        constexpr long all = 1'000'000'000'000;  // more weights than a rank holds: one bucket
        s.t.set("runtime.gradients.bucket",
                integer_in(*v) < all ? fmt::format("{} B", integer_in(*v) * each) : "one", v->at);
    } else if (const auto* mb = s.d.find("optim.bucket_cap_mb")) {
        s.t.set("runtime.gradients.bucket", mb->value + " MB", mb->at);
    }
    const auto* instances = s.d.find("num_distributed_optimizer_instances");
    if (instances && integer_in(*instances) > 1 && s.t.count("parallelism.zero", 0) == 3 &&
        s.ranks > 0) {
        const long shard = s.ranks /
                           (s.t.count("parallelism.tp", 1) * s.t.count("parallelism.pp", 1)) /
                           count_in(*instances);
        // each rank holds a copy of its own
        if (shard == 1)
            s.t.set("parallelism.zero", 0, instances->at);
        else
            s.t.set("parallelism.shard", shard, instances->at);
    } else if (const auto* v = instances; v && integer_in(*v) > 1)
        s.t.ignored.push_back("num_distributed_optimizer_instances (" + v->at +
                              "): shards of part of the replicas are "
                              "modelled with zero 3 only");
}

void take_batch_schedule(MegatronSource& s) {
    const auto* schedule = s.d.find("step_batch_size_schedule");
    const auto* ramp = s.d.find("rampup_batch_size");
    if (schedule && s.t.find("parallelism.global_batch"))
        s.t.problems.push_back(
            "step_batch_size_schedule (" + schedule->at +
            ") and global_batch_size exclude each other; global_batch_size is taken");
    else if (schedule) {
        const auto last = schedule->value.substr(schedule->value.find_last_of(':') + 1);
        s.t.set("parallelism.global_batch", last, schedule->at);
    }
    if (ramp)
        s.t.ignored.push_back("rampup_batch_size (" + ramp->at + "): the batch after it is taken");
}

}  // namespace

void take_data_parallel(MegatronSource& s) {
    take_zero(s);
    take_offload(s);
    take_overlaps(s);
    take_overlaps_of_shards(s);
    take_gradient_type(s);
    take_buckets_and_shards(s);
    take_batch_schedule(s);
}

namespace {

// The option that switches FP8 on. In NeMo fp8_hybrid and fp8_e4m3 only choose the format; in old
// Megatron-LM they were the switch.
const NamedValue* fp8_switch(MegatronSource& s) {
    const auto* v = s.d.find_any({"fp8_format", "fp8"});
    for (const char* name : {"fp8_hybrid", "fp8_e4m3"}) {
        const auto* old = s.lm() ? s.d.find(name) : nullptr;
        if (old && !v && flag_in(*old)) return old;
    }
    return v && (v->name == "fp8_format" || (lower_case(v->value) != "false" && !v->value.empty()))
               ? v
               : nullptr;
}

const char* dtype_of_mixed(const NamedValue& mixed) {
    if (has(mixed.value, "nvfp4")) return "fp4";
    if (has(mixed.value, "fp8")) return "fp8";
    return has(mixed.value, "fp16") ? "fp16" : "bf16";
}

const char* dtype_of_precision(const NamedValue& precision) {
    if (has(precision.value, "bf16")) return "bf16";
    return has(precision.value, "16") ? "fp16" : "fp32";
}

}  // namespace

void take_precision(MegatronSource& s) {
    const auto* fp8 = fp8_switch(s);
    const auto *fp4 = s.d.find_any({"fp4_format", "fp4"}), *brain = s.d.find("bf16");
    const auto* mixed = s.d.find_any({"mixed_precision", "mixed_precision.name"});
    if (fp4)
        s.t.set("workload.dtype", "fp4", fp4->at);
    else if (fp8)
        s.t.set("workload.dtype", "fp8", fp8->at);
    else if (mixed)
        s.t.set("workload.dtype", dtype_of_mixed(*mixed), mixed->at);
    else if (brain && flag_in(*brain))
        s.t.set("workload.dtype", "bf16", brain->at);
    else if (const auto* half = s.d.on("fp16"))
        s.t.set("workload.dtype", "fp16", half->at);
    else
        s.take("workload.dtype", s.d.find_any({"precision", "trainer.precision"}),
               dtype_of_precision, s.lm() ? "fp32" : "bf16");
    if (const auto* kept = s.d.on("fp8_param_gather"); kept && fp8)
        s.t.set("runtime.narrow_weights", "true", kept->at);
    s.t.take("run.cuda_graph",
             s.d.find_any(
                 {"cuda_graph_impl", "enable_cuda_graph", "external_cuda_graph", "cuda_graphs"}),
             [](const NamedValue& v) {
                 return truth(v.value != "none" && lower_case(v.value) != "false");
             });
}

namespace {

// --moe-layer-recompute is selective recompute of the module moe beside the others
// (transformer_config.py of 0.12.1 and 0.16.1), which raises under full recompute.
void take_recomputed_modules(MegatronSource& s) {
    const auto* modules = s.d.find("recompute_modules");
    const auto* moe = s.d.on("moe_layer_recompute");
    if (!modules) modules = moe;
    if (!modules || s.t.find("parallelism.recompute")->value != "selective") return;
    auto named = modules == moe ? std::vector<std::string>{"core_attn"}
                                : words_of(modules->value, "[]'\", ");
    if (moe && !contains(named, "moe")) named.emplace_back("moe");
    constexpr auto& known = name_list<RecomputedModule>;
    const std::vector<std::string> unknown =
        where(named, [&](const std::string& word) { return !contains(known, word); });
    if (!unknown.empty())
        return s.t.problem(*modules, fmt::format("{}: no modules that can run again; expected some "
                                                 "of {}",
                                                 joined(unknown, ", "), joined(known, ", ")));
    if (named != std::vector<std::string>{"core_attn"})
        s.t.set("parallelism.recompute_modules", fmt::format("[\"{}\"]", joined(named, "\", \"")),
                modules->at);
}

// What is computed again, and the value that says so; nullptr: none does.
std::pair<const NamedValue*, std::string> recomputed(MegatronSource& s, const NamedValue* layers) {
    const auto* how = s.d.find_any({"recompute_granularity", "activations_checkpoint_granularity"});
    const auto* old = s.d.find("checkpoint_activations");
    // Megatron-LM 2.5 and 2.6: the switch itself (nemo-toolkit 1.6.1 has that transformer.py)
    const auto* of_2021 = s.lm() ? s.d.find("activations_checkpoint_method") : nullptr;
    const auto* part = s.d.find("recompute_activations");
    if (how && !how->value.empty() && how->value != "none") return {how, how->value};
    if (const auto* moe = s.d.on("moe_layer_recompute")) return {moe, "selective"};
    if (part && flag_in(*part)) return {part, "selective"};
    if (old && flag_in(*old)) return {old, "full"};
    if (of_2021 && lower_case(of_2021->value) != "none") return {of_2021, "full"};
    if (layers && !how && s.dialect == MegatronDialect::bridge && integer_in(*layers) > 0)
        return {layers, "full"};
    return {};
}

void name_layers_together(MegatronSource& s, const NamedValue* layers, long each) {
    if (each > 1)
        s.t.problem(
            *layers,
            fmt::format("{} layers are computed again together; the forecast of memory has one at "
                        "a time and each one's input: "
                        "too little by the activations of {} layers, too much by the inputs "
                        "between",
                        each, each - 1));
}

void take_recomputed_layers(MegatronSource& s, const NamedValue* layers) {
    const auto* method = s.d.find_any({"recompute_method", "activations_checkpoint_method"});
    const bool by_block = method && method->value == "block";
    if ((!layers && !(by_block && s.lm())) || s.t.find("parallelism.recompute")->value != "full")
        return;
    // the default until 2023 and of Megatron-DeepSpeed
    const long each = layers ? integer_in(*layers) : 1;
    if ((method && !by_block) || (layers && layers->name == "checkpoint_num_layers"))
        return name_layers_together(s, layers, each);
    // Megatron counts the layers per chunk, and may exceed the chunk's layers; our key counts them
    // per stage.
    const long all = s.t.layers() > 0 ? s.t.layers() : 1'000'000;
    s.t.set("parallelism.recompute_layers",
            std::min(all, std::min(all, layers ? count_in(*layers) : each) *
                              s.t.count("parallelism.vp", 1)),
            (layers ? layers : method)->at);
}

}  // namespace

void take_recompute(MegatronSource& s) {
    const auto* layers = s.d.find_any(
        {"recompute_num_layers", "activations_checkpoint_num_layers", "checkpoint_num_layers"});
    if (const auto& [by, what] = recomputed(s, layers); by)
        s.t.set("parallelism.recompute", what, by->at);
    else
        s.t.take_default("parallelism.recompute", "none");
    take_recomputed_modules(s);
    if (const auto* moe = s.d.on("moe_layer_recompute");
        moe && s.t.find("parallelism.recompute")->value == "full")
        s.t.problem(*moe, "Megatron-Core raises with it under full recompute; it is not counted");
    take_recomputed_layers(s, layers);
}

}  // namespace stepcast
