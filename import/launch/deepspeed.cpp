#include "import/launch/deepspeed.h"

#include <algorithm>

#include <fmt/format.h>

#include "import/launch/translation.h"
#include "model/base/lines.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

// Hugging Face's Trainer fills in "auto", so the file states no value.
const NamedValue* stated(Document& d, std::string_view name, Translation& t) {
    const auto* v = d.find(name);
    if (!v) return v;
    const bool of_template = has(v->value, "{{") || has(v->value, '$');
    if (v->value != "auto" && !of_template) return v;
    add_line(t.open, "{} ({}): \"{}\", {}", name, v->at, v->value,
             of_template ? "filled in by a template or a shell" : "set by the Trainer");
    return nullptr;
}

// train_batch_size = micro x accumulation x replicas. Two of them in a file give the third; all
// three may contradict each other.
void derive_micro_batch(const NamedValue& global, long pieces, long replicas, Translation& t) {
    const long all = count_in(global), parts = pieces * replicas;
    if (parts == 0)
        add_line(
            t.open,
            "train_micro_batch_size_per_gpu = {} / ({}replicas); set it with --set micro_batch=N",
            all, pieces > 0 ? fmt::format("{} x ", pieces) : "accumulation x ");
    else if (all % parts != 0)
        t.problem(global, fmt::format("{} is no multiple of accumulation {} x {} replicas", all,
                                      pieces, replicas));
    else
        t.set("parallelism.micro_batch", all / parts, global.at);
}

void check_batch(const NamedValue& global, long micro, long pieces, long replicas, Translation& t) {
    const long all = count_in(global), each = micro * pieces;
    if (replicas > 0 ? all != each * replicas : all % each != 0)
        t.problem(
            global,
            fmt::format("{} is not {} sequences x accumulation {} x {}; DeepSpeed stops there, the "
                        "forecast takes the {}",
                        all, micro, pieces,
                        replicas > 0 ? fmt::format("{} replicas", replicas) : "replicas", all));
}

void read_batch(Document& d, Translation& t, long replicas) {
    const auto* micro = stated(d, "train_micro_batch_size_per_gpu", t);
    const auto* global = stated(d, "train_batch_size", t);
    const auto* pieces = stated(d, "gradient_accumulation_steps", t);
    // 0 means that the Trainer determines it.
    const long each = micro ? count_in(*micro) : 0,
               steps = pieces                                    ? count_in(*pieces)
                       : d.states("gradient_accumulation_steps") ? 0
                                                                 : 1;
    const long step = each * std::max(steps, 1L);
    if (constexpr long most = 1'000'000'000; step > most / std::max(replicas, 1L))
        wrong(*micro, "a step of at most 10^9 sequences");
    if (micro) t.set("parallelism.micro_batch", each, micro->at);
    if (global) t.set("parallelism.global_batch", integer_in(*global), global->at);
    if (global && !micro) return derive_micro_batch(*global, steps, replicas, t);
    if (global && pieces) return check_batch(*global, each, steps, replicas, t);
    if (const long parts = each * std::max(1L, replicas);
        global && integer_in(*global) % parts != 0)
        t.problem(*global,
                  fmt::format("{} is no multiple of {} sequences{}; DeepSpeed stops there",
                              integer_in(*global), each,
                              replicas > 0 ? fmt::format(" x {} replicas", replicas) : ""));
    else if (global && replicas == 0)
        add_line(t.open, "accumulation x replicas = {}", integer_in(*global) / each);
    if (!micro || global) return;
    if (replicas > 0)
        t.set("parallelism.global_batch", step * replicas, pieces ? pieces->at : micro->at);
    else
        add_line(t.open, "train_batch_size = {} x replicas; set it with --set global_batch=N",
                 step);
}

void read_offload(Document& d, Translation& t) {
    if (const auto* v = stated(d, "zero_optimization.offload_optimizer.device", t);
        v && v->value != "none") {
        if (v->value != "cpu")
            t.problem(*v, v->value + " is not modelled; taken as the host's memory");
        t.set("run.offload_optimizer", "true", v->at);
    } else if (const auto* old = d.on("zero_optimization.cpu_offload")) {
        t.set("run.offload_optimizer", "true", old->at);
    }
}

// Weights go to the host with the optimizer that updates them.
void take_offloaded_weights(Document& d, long stage, Translation& t) {
    const auto* v = stated(d, "zero_optimization.offload_param.device", t);
    if (!v || v->value == "none") return;
    const auto* optimizer = t.find("run.offload_optimizer");
    if (stage < 3 || !optimizer || optimizer->value != "true")
        return t.problem(*v,
                         "weights go to the host under stage 3 and with the optimizer; the "
                         "forecast keeps them on the device");
    if (v->value != "cpu") t.problem(*v, v->value + " is not modelled; taken as the host's memory");
    t.set("run.offload_parameters", "true", v->at);
}

// Tensors that stage 3 holds for longer; all are in weights (runtime/zero/config.py).
void read_tensor_sizes(Document& d, long stage, Translation& t) {
    // 0 is full with any tensor, as 1 is (stage3.py: _create_fp16_sub_groups, reduce buckets)
    const auto weights = [](const NamedValue& v) {
        return fmt::format("{} weights", std::max(1L, integer_in(v)));
    };
    t.take(  // counted in elements, whatever their type
        "runtime.gradients.bucket", stated(d, "zero_optimization.reduce_bucket_size", t), weights,
        stage > 0 ? "500000000 weights" : "");
    if (const auto* v = d.find("zero_optimization.contiguous_gradients"); v && stage > 0)
        if (!flag_in(*v)) t.set("runtime.gradients.flat", "false", v->at);
    if (stage < 3) return;
    t.take("runtime.optimizer.part", stated(d, "zero_optimization.sub_group_size", t), weights, "");
    // either name is taken (config_utils.py: populate_by_name)
    const char* distance = d.states("zero_optimization.stage3_max_reuse_distance")
                               ? "zero_optimization.stage3_max_reuse_distance"
                               : "zero_optimization.max_reuse_distance";
    t.take("runtime.reuse_distance", stated(d, distance, t), integer_text, "");
}

void read_zero(Document& d, Translation& t) {
    if (const auto* bare = d.find("zero_optimization"))
        t.set("parallelism.zero", flag_in(*bare) ? 1L : 0L, bare->at);
    else
        t.take("parallelism.zero", stated(d, "zero_optimization.stage", t), integer_text, "0");
    const long stage = t.count("parallelism.zero", 0);
    t.take("runtime.exchanges.gradients", stated(d, "zero_optimization.overlap_comm", t),
           always_text, always(stage == 3));
    if (stage < 3) t.take_default("runtime.exchanges.parameters", "false");
    read_tensor_sizes(d, stage, t);
    if (const auto* v = stated(d, "zero_optimization.mics_shard_size", t);
        v && integer_in(*v) > 0 && stage == 3) {
        if (integer_in(*v) > 1)
            t.set("parallelism.shard", integer_in(*v), v->at);
        else
            t.set("parallelism.zero", 0, v->at);  // each rank holds its own copy
    }
    read_offload(d, t);
    take_offloaded_weights(d, stage, t);
    // ZeRO++ (arXiv 2306.10209) still shards all states over all ranks, but its backward gathers
    // from a weight copy in the node.
    if (const auto* v = stated(d, "zero_optimization.zero_hpz_partition_size", t);
        v && integer_in(*v) > 1 && stage == 3)
        add_line(t.problems,
                 "zero_hpz_partition_size ({}): read as plain ZeRO-3; the second copy of "
                 "the weights over {} ranks is "
                 "not in the memory, nor its cheaper gathers in the backward",
                 v->at, integer_in(*v));
}

// The switch that the Trainer sets.
const NamedValue* automatic(Document& d) {
    for (const char* name : {"bf16.enabled", "fp16.enabled"})
        if (const auto* v = d.find(name); v && v->value == "auto") return v;
    return nullptr;
}

void read_gradient_type(Document& d, Translation& t) {
    const auto *kept = d.find("data_types.grad_accum_dtype"),
               *sent = d.find("communication_data_type");
    const auto says = [](const NamedValue* v) { return v && v->value != "auto"; };
    if (const auto* v = says(kept) ? kept : sent; says(v))
        t.set("runtime.gradients.type", v->value, v->at);
    if (says(kept) && says(sent) && kept->value != sent->value)
        t.problem(*sent,
                  "gradients are kept in " + kept->value + "; the forecast also exchanges them so");
}

void read_precision(Document& d, Translation& t) {
    const auto on = [&](const char* name) {
        const auto* v = stated(d, name, t);
        return v && flag_in(*v) ? v : nullptr;
    };
    const auto *bf16 = on("bf16.enabled"), *half = on("fp16.enabled");
    if (bf16 || half)
        t.set("workload.dtype", bf16 ? "bf16" : "fp16", (bf16 ? bf16 : half)->at);
    else if (const auto* open = automatic(d))
        t.set("workload.dtype", "bf16", open->at);
    else
        t.take_default("workload.dtype", "fp32");
    if (bf16 && half)
        t.problem(*half, "bf16.enabled as well, which DeepSpeed refuses; taken as bf16");
    read_gradient_type(d, t);
    if (const auto* v = stated(d, "optimizer.type", t)) set_optimizer(t, *v);
}

// The section bf16 was called bfloat16, which counts where there is no bf16 (0.19.8,
// runtime/precision_config.py: get_bfloat16_config).
void take_old_section(Document& d) {
    constexpr std::string_view old = "bfloat16.";
    const auto is_new = [](const NamedValue& v) {
        return v.name == "bf16" || v.name.starts_with("bf16.");
    };
    if (std::ranges::any_of(d.values, is_new)) return;
    for (NamedValue& value : d.values)
        if (value.name.starts_with(old)) value.name.replace(0, old.size(), "bf16.");
}

}  // namespace

void take_deepspeed_training(Document& d, Translation& t, long replicas) {
    take_old_section(d);
    read_batch(d, t, replicas);
    read_zero(d, t);
    read_precision(d, t);
}

Translation translate_deepspeed(Document d, long replicas) {
    Translation t{
        .path = d.path,
        .format = "DeepSpeed",
        .framework = "deepspeed",
        .open = {"layers and widths: such a file never says them; name the model with --model"}};
    take_deepspeed_training(d, t, replicas);
    if (const auto* v = stated(d, "tensor_parallel.autotp_size", t); v && integer_in(*v) > 1)
        t.set("parallelism.tp", integer_in(*v), v->at);
    if (const auto* v = stated(d, "sequence_parallel_size", t); v && integer_in(*v) > 1) {
        t.set("parallelism.cp", integer_in(*v), v->at);
        t.problem(
            *v,
            "exchanges of heads (Ulysses) are not modelled; taken as a ring of keys and values");
    }
    if (d.states("activation_checkpointing.partition_activations"))
        t.open.push_back(
            "recompute: options are there, the switch is in the model's code; --set recompute=full "
            "if it is on, with cpu_checkpointing --set offload_activations=blocking too");
    // runtime/pipe/module.py, engine.py: nothing of the section makes stages
    if (std::ranges::any_of(d.values,
                            [](const NamedValue& v) { return v.name.starts_with("pipeline."); }))
        t.open.push_back(
            "pipeline: its stages are those of the program's PipelineModule, whatever the file "
            "says; --set pp=N, and --set recompute=full where activation_checkpoint_interval is "
            "above 0");
    t.open.push_back("how many GPUs; set it with --gpus");
    leave_rest(d, t);
    return t;
}

}  // namespace stepcast
