#include "import/launch/emit_torchtitan.h"

#include <algorithm>

#include <fmt/format.h>

#include "import/launch/emit.h"
#include "import/launch/torchtitan.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/runtime_rules.h"
#include "model/transformer/chunks.h"

namespace stepcast {
namespace {

// Empty if torchtitan has no such schedule.
std::string_view schedule_name(const Parallelism& p) {
    if (p.schedule == Schedule::one_f_one_b && p.vp > 1) return "Interleaved1F1B";
    for (const auto& [name, schedule] : titan_schedules)
        if (schedule == p.schedule) return name;
    return "";
}

void check_torchtitan(const Experiment& e, bool flags, Emission& out) {
    const auto& p = e.parallelism;
    out.refuse_unless(p.zero != 1, "zero 1: it has replicas, or shards of parameters too");
    out.refuse_unless(p.zero > 0 || p.cp == 1,
                      "zero 0 with context parallelism (cp): its ranks share the shards");
    out.refuse_unless(!schedule_name(p).empty() || p.pp == 1,
                      fmt::format("parallelism.schedule {}", to_string(p.schedule)));
    out.refuse_unless(!repeats_sequence(p), "tensor parallelism (tp) without sequence_parallel");
    out.refuse_unless(e.workload.moe.capacity_factor == 0,
                      "workload.moe.capacity_factor: its experts drop no tokens");
    out.refuse_unless(
        !flags || p.cp == 1 || e.runtime.context_exchange == ContextExchange::all_gather,
        "runtime.context_exchange ring (cp): 0.3 has no context_parallel_rotate_method; expected "
        "all-gather");
    // TrainingConfig.mixed_precision_reduce of 0.3.0 has float32 alone.
    out.refuse_unless(
        gradient_type(e) == Dtype::fp32 || (gradient_type(e) == Dtype::bf16 && !flags),
        fmt::format("runtime.gradients.type {}", to_string(gradient_type(e))));
    out.refuse_unless(e.workload.dtype == Dtype::bf16 || e.workload.dtype == Dtype::fp32 ||
                          e.workload.dtype == Dtype::fp8,
                      fmt::format("workload.dtype {}", to_string(e.workload.dtype)));
    out.refuse_unless(e.run.offload_optimizer == e.run.offload_parameters,
                      "run.offload_optimizer: its enable_cpu_offload moves the weights, too");
    out.refuse_unless(e.run.offload_activations == ActivationOffload::none,
                      "run.offload_activations");
    // torchtitan/components/optimizer.py of v0.2.2 knows Adam and AdamW.
    const auto optimizer = e.workload.optimizer;
    out.refuse_unless(optimizer == Optimizer::adam || optimizer == Optimizer::none,
                      fmt::format("workload.optimizer {}", to_string(optimizer)));
}

class TorchtitanWriter {
public:
    TorchtitanWriter(const Experiment& e, bool flags, Emission& out)
        : e_(e), flags_(flags), out_(out) {}

    std::string write() {
        check_torchtitan(e_, flags_, out_);
        model();
        training();
        split();
        if (e_.parallelism.pp > 1) pipeline();
        recompute();
        compile();
        // an optimizer is a part of the function from 0.3 on
        if (!flags_ && e_.workload.optimizer == Optimizer::adam)
            add("optimizer", "name", "\"AdamW\"");
        return flags_ ? shell() : toml();
    }

private:
    struct Line {
        std::string section, name, value;  // as in TOML
    };
    void add(const char* section, const char* name, const std::string& value) {
        lines_.push_back({section, name, value});
    }
    void add(const char* section, const char* name, long value) {
        add(section, name, std::to_string(value));
    }

    void model() {
        const bool fp8 = e_.workload.dtype == Dtype::fp8;
        if (flags_) return;  // of its function
        if (const auto known = titan_model_of(e_.workload)) {
            add("model", "name", fmt::format("\"{}\"", known->name));
            add("model", "flavor", fmt::format("\"{}\"", known->flavor));
        }
        if (fp8) add("model", "converters", "[\"quantize.linear.float8\"]");
        if (fp8 && e_.runtime.row_scales)
            add("quantize.linear.float8", "recipe_name", "\"rowwise\"");
    }

    void training() {
        const auto& p = e_.parallelism;
        add("training", "local_batch_size",
            p.pp > 1 ? p.micro_batch * micro_batches(p) : p.micro_batch);
        add("training", "global_batch_size", sequences_of_step(p));
        add("training", "seq_len", e_.workload.seq);
        if (e_.run.offload_parameters) add("training", "enable_cpu_offload", "true");
        add("training", "mixed_precision_param",
            e_.workload.dtype == Dtype::fp32 ? "\"float32\"" : "\"bfloat16\"");
        add("training", "mixed_precision_reduce",
            gradient_type(e_) == Dtype::bf16 ? "\"bfloat16\"" : "\"float32\"");
        if (!e_.runtime.optimizer.master_weights) add("training", "dtype", "\"bfloat16\"");
    }

    void experts() {
        const int tp = e_.parallelism.tp;
        // from 0.3 on expert parallelism takes the tensor-parallel ranks
        if (tp > 1 && e_.workload.moe.experts > 0)
            add("parallelism", "expert_tensor_parallel_degree", splits_experts(e_) ? tp : 1);
        if (sends_once(e_)) add("parallelism", "expert_parallel_comm_backend", "\"deepep\"");
    }

    void split() {
        const auto& p = e_.parallelism;
        // its shards lie over the parts of a sequence too
        const bool whole = p.shard % p.cp == 0;
        out_.refuse_unless(p.zero == 0 || whole,
                           fmt::format("shard {}, no multiple of cp {}", p.shard, p.cp));
        const int shard = p.zero == 0 ? 1 : p.shard > 0 && whole ? p.shard / p.cp : p.dp;
        // distributed/parallel_dims.py of 0.2.2 and 0.3.0: efsdp, which is 0 or too small otherwise
        const long sharding = long{shard} * p.cp * (splits_experts(e_) && !flags_ ? 1 : p.tp);
        out_.refuse_unless(p.ep == 1 || sharding % p.ep == 0,
                           fmt::format("ep {} over shards of {} ranks (zero {}, shard, dp x cp x "
                                       "tp, experts.tensor_parallel): its expert parallelism lies "
                                       "within them",
                                       p.ep, sharding, p.zero));
        for (const auto& [name, degree] :
             {std::pair{"data_parallel_replicate_degree", p.dp / shard},
              {"data_parallel_shard_degree", shard},
              {"tensor_parallel_degree", p.tp},
              {"pipeline_parallel_degree", p.pp},
              {"context_parallel_degree", p.cp},
              {"expert_parallel_degree", p.ep}})
            add("parallelism", name, degree);
        // it shuffles the shards of keys and values between the parts of attention, as a ring does
        // (config/job_config.py of 0.2.2)
        if (p.cp > 1 && e_.runtime.context_exchange == ContextExchange::ring)
            add("parallelism", "context_parallel_rotate_method", "\"alltoall\"");
        if (p.zero >= 2)
            add("parallelism", "fsdp_reshard_after_forward",
                p.zero == 3 ? "\"always\"" : "\"never\"");
        if (!flags_) experts();
        if (overlaps_tensor(e_) && p.tp > 1)
            add(flags_ ? "compile" : "parallelism", "enable_async_tensor_parallel", "true");
    }

    // The first and last stage chunk have one layer less than others unless that is switched off.
    // Chunks that its division does not make are listed by their modules.
    void pipeline() {
        const auto& p = e_.parallelism;
        add("parallelism", "pipeline_parallel_schedule", fmt::format("\"{}\"", schedule_name(p)));
        add("parallelism", "pipeline_parallel_microbatch_size", p.micro_batch);
        const std::vector<int> chunks = chunk_layers(e_.workload, p);
        const auto less = [&](StageLayout one_end) {
            return p.layout == one_end || p.layout == StageLayout::light_ends ? 1 : 0;
        };
        const int first = less(StageLayout::light_first), last = less(StageLayout::light_last),
                  count = as_int(chunks.size()), all = e_.workload.layers + first + last,
                  each = (all + count - 1) / count;
        const bool makes_count = p.vp == 1 || (all + each - 1) / each == count;
        if (!makes_count || chunks != light_layers(e_.workload.layers, count, first, last))
            return add("parallelism", "module_fqns_per_model_part", modules_of(chunks));
        add("parallelism", "pipeline_parallel_first_stage_less_layers", first);
        add("parallelism", "pipeline_parallel_last_stage_less_layers", last);
        if (p.vp > 1) add("parallelism", "pipeline_parallel_layers_per_stage", each);
    }

    // Lists in a list; as a flag, commas within a chunk and blanks between them.
    [[nodiscard]] std::string modules_of(const std::vector<int>& chunks) const {
        std::vector<std::string> parts;
        int layer = 0;
        for (const std::size_t chunk : indices_of(chunks)) {
            std::vector<std::string> modules;
            if (chunk == 0) modules.emplace_back("tok_embeddings");
            for (const int end = layer + chunks[chunk]; layer < end; ++layer)
                modules.push_back(fmt::format("layers.{}", layer));
            if (chunk + 1 == chunks.size()) {
                modules.emplace_back("norm");
                modules.emplace_back(flags_ ? "lm_head" : "output");
            }
            parts.push_back(flags_ ? joined(modules, ",")
                                   : fmt::format("[\"{}\"]", joined(modules, "\", \"")));
        }
        return flags_ ? joined(parts, " ") : fmt::format("[{}]", joined(parts, ", "));
    }

    void recompute() {
        const auto& p = e_.parallelism;
        const int stage = e_.workload.layers / p.pp;
        const auto mode = [&](const char* name) {
            add("activation_checkpoint", "mode", fmt::format("\"{}\"", name));
        };
        out_.refuse_unless(std::ranges::none_of(p.recompute_modules,
                                                [&](RecomputedModule module) {
                                                    return module != RecomputedModule::core_attn &&
                                                           runs_again(p, module);
                                                }),
                           "recompute_modules");
        // its attention keeps no scores, so selective recompute has nothing to leave out
        if (p.recompute == Recompute::none || p.recompute == Recompute::selective)
            return mode("none");
        const bool all = p.recompute_layers == 0 || p.recompute_layers >= stage;
        if (p.recompute == Recompute::full && all) return mode("full");
        mode("selective");
        if (p.recompute == Recompute::alternate) {
            if (!flags_) add("activation_checkpoint", "selective_ac_option", "\"op\"");
            return;
        }
        const bool every = !flags_ && stage % p.recompute_layers == 0;
        out_.refuse_unless(
            every, fmt::format("recompute_layers, {} of {} computed again: {}", p.recompute_layers,
                               stage, flags_ ? "it takes all" : "it takes every N-th"));
        if (every)
            add("activation_checkpoint", "selective_ac_option",
                fmt::format("\"{}\"", stage / p.recompute_layers));
    }

    // Layers and the loss are compiled each by itself.
    void compile() {
        const bool model = !is_eager(e_), loss = e_.runtime.loss.fused;
        add("compile", "enable", truth(model || loss));
        add("compile", "components",
            fmt::format("[{}]", model && !loss   ? "\"model\""
                                : loss && !model ? "\"loss\""
                                                 : "\"model\", \"loss\""));
    }

    [[nodiscard]] std::string toml() const {
        std::string text, section;
        for (const Line& line : lines_) {
            if (line.section != section)
                text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", line.section);
            section = line.section;
            text += fmt::format("{} = {}\n", line.name, line.value);
        }
        return text +
               "\n# before the first run: [optimizer] lr, [training] dataset, [model] "
               "hf_assets_path\n";
    }

    // A policy of recompute is a subcommand, behind all flags.
    [[nodiscard]] std::string shell() const {
        std::string text = "ARGS=(\n", policy;
        for (const Line& line : lines_) {
            std::string value = line.value;
            if (value.starts_with('[') || value.starts_with('"'))
                std::erase_if(value, [](char c) {
                    return std::string_view("\"[] ").find(c) != std::string_view::npos;
                });
            if (line.section == "activation_checkpoint")
                policy = value;
            else if (value == "true" || value == "false")
                text += fmt::format("    --{}.{}{}\n", line.section, value == "true" ? "" : "no_",
                                    line.name);
            else
                text += fmt::format("    --{}.{} {}\n", line.section, line.name, value);
        }
        const auto known = titan_model_of(e_.workload);
        const bool has = known && !known->config.empty();
        text +=
            "    # before the first run: --hf_assets_path PATH, --dataloader.dataset NAME; the "
            "learning rate is in the function\n)\n";
        if (!has)
            text +=
                "# the model: MODULE of torchtitan/models and CONFIG of its config_registry.py\n";
        return text +
               fmt::format(
                   "# on several nodes: --rdzv_backend c10d --rdzv_endpoint HOST:29500\n"
                   "torchrun --nnodes {} --nproc_per_node {} -m torchtitan.train --module {} "
                   "--config {} \"${{ARGS[@]}}\" activation-checkpoint:{}\n",
                   e_.cluster.nodes, e_.cluster.gpus_per_node, has ? known->name : "MODULE",
                   has ? known->config : "CONFIG", policy);
    }

    const Experiment& e_;
    bool flags_;
    Emission& out_;
    std::vector<Line> lines_;
};

}  // namespace

std::string emit_torchtitan(const Experiment& experiment, EmitFormat format, Emission& out) {
    return TorchtitanWriter(experiment, format == EmitFormat::torchtitan_flags, out).write();
}

}  // namespace stepcast
