#include "import/launch/torchtitan.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "import/launch/translation.h"
#include "measured/read.h"
#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/text_search.h"
#include "model/transformer/chunks.h"

namespace stepcast {
namespace {

// From 0.3 on config_registry.py of each model has functions, not flavors.
constexpr std::array<TitanModel, 8> models{
    {{"llama3", "8B", "llama3-8b", "llama3_8b"},
     {"llama3", "70B", "llama3-70b", "llama3_70b"},
     {"llama3", "405B", "llama3-405b", "llama3_405b"},
     {"deepseek_v3", "671B", "deepseek-v3", "deepseek_v3_671b"},
     {"qwen3", "32B", "qwen3-32b", "qwen3_32b"},
     {"qwen3", "30B-A3B", "qwen3-30b-a3b", "qwen3_30b_a3b"},
     {"qwen3", "235B-A22B", "qwen3-235b-a22b", ""},
     {"deepseek_v3", "16B", "deepseek-v2-lite", "deepseek_v3_16b"}}};

// Renames the keys of v0.1, which had degrees under [training] and [experimental] and a switch for
// float8.
void rename_old_keys(Document& d) {
    for (NamedValue& value : d.values) {
        const auto key = value.name.substr(value.name.find('.') + 1);
        const bool old_table =
            value.name.starts_with("training.") || value.name.starts_with("experimental.");
        if (key == "data_parallel_degree" && old_table)
            value.name = "parallelism.data_parallel_shard_degree";
        else if (old_table && (has(key, "parallel_") || key.ends_with("tensor_parallel")))
            value.name = "parallelism." + key;
        else if (value.name == "float8.enable_float8_linear" && flag_in(value))
            value = {"model.converters", "[float8]", value.at};
        else if (value.name == "compile.enable_async_tensor_parallel")  // from 0.3 on
            value.name = "parallelism.enable_async_tensor_parallel";
    }
}

void read_model(Document& d, Translation& t) {
    const auto* name = d.find("model.name");
    const auto* flavor = d.find("model.flavor");
    if (!name || !flavor) {
        t.open.push_back(
            "model.name and model.flavor: not both there; name the model with --model");
        return;
    }
    for (const TitanModel& known : models)
        if (known.name == name->value &&
            (known.flavor == flavor->value || known.config == flavor->value))
            return t.set("workload.preset", std::string(known.preset), flavor->at);
    add_line(t.open,
             "{} {}: its sizes are a table of torchtitan's source; name the model with --model",
             name->value, flavor->value);
}

// Layers of each stage chunk where the file lists its modules: "[[tok_embeddings, layers.0],
// [layers.1, norm, output]]", as a flag of 0.3 "tok_embeddings,layers.0 layers.1,norm,lm_head".
std::vector<int> listed_layers(const NamedValue& modules) {
    const bool lists = has(modules.value, '[');
    std::vector<int> chunks;
    for (const std::string& part : words_of(modules.value, lists ? "[]" : " ")) {
        const auto names = words_of(part, "\"', ");
        if (names.empty()) continue;  // the comma between two lists
        chunks.push_back(as_int(std::ranges::count_if(
            names, [](const std::string& name) { return name.starts_with("layers."); })));
    }
    return chunks;
}

// How many layers fewer the first and the last stage have.
struct LighterEnds {
    long first = 1, last = 1;
    std::string at;
};
LighterEnds lighter_ends(Document& d) {
    const auto *first = d.find("parallelism.pipeline_parallel_first_stage_less_layers"),
               *last = d.find("parallelism.pipeline_parallel_last_stage_less_layers");
    const auto less = [](const NamedValue* v) {
        constexpr long most = 1'000'000;
        return v ? std::clamp(integer_in(*v), 0L, most) : 1;
    };
    return {less(first), less(last), first ? first->at : last ? last->at : "default of torchtitan"};
}

// Chunks of a stage: of the modules that the file lists, or of the layers that each has.
void take_chunks(const NamedValue* modules, const NamedValue* each, const LighterEnds& ends,
                 long pp, Translation& t) {
    const long layers = t.layers();
    const auto chunks = [&](long all, const NamedValue& by) {
        if (all % pp != 0)
            t.problem(by, fmt::format("{} chunks of layers cannot be dealt to {} stages alike; "
                                      "torchtitan stops there",
                                      all, pp));
        t.set("parallelism.vp", std::max(1L, all / pp), by.at);
    };
    if (modules)
        chunks(std::ssize(listed_layers(*modules)), *modules);
    else if (!each)
        t.take_default("parallelism.vp", "2");
    else if (layers > 0)
        chunks((layers + ends.first + ends.last + count_in(*each) - 1) / count_in(*each), *each);
    else
        t.open.push_back("pipeline_parallel_layers_per_stage (" + each->at +
                         "): set the chunks with --set vp=N");
}

void read_stages(Document& d, Translation& t, long pp, long vp) {
    const LighterEnds ends = lighter_ends(d);
    const auto* modules = d.find("parallelism.module_fqns_per_model_part");
    const auto* each = d.find("parallelism.pipeline_parallel_layers_per_stage");
    const long layers = t.layers();
    // others have two chunks, by their form
    if (vp > 1 && d.text("parallelism.pipeline_parallel_schedule").starts_with("Interleaved")) {
        take_chunks(modules, each, ends, pp, t);
        vp = t.count("parallelism.vp", vp);
    }
    if (layers == 0 && !modules && ends.first + ends.last > 0)
        return t.open.push_back(
            "layers of each stage: the first and the last have fewer; name the model with --model");
    const std::string at = modules ? modules->at : ends.at;
    // Embedding and head count as layers (distributed/pipeline_parallel.py:
    // generate_llm_fqn_per_model_part).
    const std::vector<int> chunks = modules ? listed_layers(*modules)
                                            : light_layers(as_int(layers), as_int(pp * vp),
                                                           as_int(ends.first), as_int(ends.last));
    if (std::ranges::any_of(chunks, [](int n) { return n < 0; }) ||
        (layers > 0 && std::reduce(chunks.begin(), chunks.end()) != layers))
        add_line(t.problems,
                 "stages ({}): {} layers do not make chunks of {}; the forecast has even ones", at,
                 layers, joined(chunks, ", "));
    else if ((layers > 0 || modules) &&
             std::ranges::adjacent_find(chunks, std::not_equal_to{}) != chunks.end())
        t.set("parallelism.stage_layers", fmt::format("[{}]", joined(chunks, ", ")), at);
}

void read_pipeline(Document& d, Translation& t, long pp) {
    const auto* schedule = d.find("parallelism.pipeline_parallel_schedule");
    if (pp == 1) {
        if (schedule)
            t.ignored.push_back("pipeline_parallel_schedule (" + schedule->at + "): pp is 1");
        return;
    }
    const std::string name = schedule ? schedule->value : "1F1B";
    const std::string at = schedule ? schedule->at : "default of torchtitan";
    if (const auto* known =
            std::ranges::find(titan_schedules, name, [](const auto& row) { return row.first; });
        known != std::end(titan_schedules))
        t.set("parallelism.schedule", std::string(to_string(known->second)), at);
    else
        add_line(t.problems, "pipeline_parallel_schedule ({}): {} is not modelled; taken as 1F1B",
                 at, name);
    // Schedules of several chunks have two on each rank (torch.distributed.pipelining's
    // PipelineScheduleMulti).
    read_stages(d, t, pp, name == "1F1B" || name == "GPipe" ? 1 : 2);
    const auto* overlap = d.find("parallelism.pipeline_parallel_expert_parallel_overlap");
    if (name == "DualPipeV" && t.count("parallelism.ep", 1) > 1)
        t.take("parallelism.overlap_experts", overlap, flag_text, "true");
}

// `dp`: 0 = unknown. With a pipeline, micro-batches are parts of the local batch; otherwise the
// local batch is one micro-batch.
void read_batch(Document& d, Translation& t, long pp, long dp) {
    const auto* local = d.find_any({"training.local_batch_size", "training.batch_size"});
    const auto* micro = d.find("parallelism.pipeline_parallel_microbatch_size");
    const long batch = local ? count_in(*local) : 8;
    if (pp > 1)
        t.set("parallelism.micro_batch", micro ? integer_in(*micro) : 1,
              micro ? micro->at : "default of torchtitan");
    else
        t.set("parallelism.micro_batch", batch, local ? local->at : "default of torchtitan");
    const auto* global = d.find("training.global_batch_size");
    if (global && integer_in(*global) > 0)
        t.set("parallelism.global_batch", integer_in(*global), global->at);
    else if (pp > 1 && dp > 0)
        t.set("parallelism.global_batch", batch * dp, local ? local->at : "default of torchtitan");
    else if (pp > 1)
        add_line(t.open,
                 "global batch: {} x data-parallel replicas; set it with --set global_batch=N",
                 batch);
}

bool compiles(Document& d, std::string_view part) {
    const auto* compile = d.find_any({"compile.enable", "training.compile"});
    const std::string parts = d.text("compile.components", "[model, loss]");
    return compile && flag_in(*compile) && has(parts, part);
}

void read_tensor_parallel(Document& d, Translation& t, long tp) {
    if (const auto* v = d.on("parallelism.enable_async_tensor_parallel"); v && tp > 1) {
        t.set("runtime.exchanges.tensor", "always", v->at);
        if (!compiles(d, "model"))
            t.problem(
                *v, "torchtitan stops without compile.enable and \"model\" in compile.components");
    }
    if (const auto* v = d.on("parallelism.disable_loss_parallel"); v && tp > 1)
        t.problem(*v,
                  "logits are gathered over the tensor-parallel ranks; the forecast has a loss "
                  "over their parts");
}

// `shards`: ranks per replica, below 0 if unknown.
void read_replicas_of_shards(Translation& t, long replicate, long shards, const std::string& at) {
    const long zero = t.count("parallelism.zero", 0);
    if (zero == 2)
        add_line(t.problems,
                 "{} replicas of shards ({}): the forecast keeps gathered weights (zero 2) "
                 "with shards over all "
                 "replicas only, and takes those",
                 replicate, at);
    else if (shards > 1)
        t.set("parallelism.shard", shards, at);
    else if (shards < 0)
        add_line(t.open, "{} replicas of shards over the rest: use --set shard=RANKS", replicate);
}

// Data parallelism by the file's degrees, beside the replicas that the GPUs make (0 = unknown).
struct DataDegrees {
    long replicate = 1, shards = -1;  // -1: all remaining ranks
    long replicas = 0;                // by the degrees; 0 = not said, or not those of the GPUs
    std::string at;
};
DataDegrees read_degrees(Document& d, Translation& t, long filling) {
    const auto* replicas = d.find("parallelism.data_parallel_replicate_degree");
    const auto* shard = d.find("parallelism.data_parallel_shard_degree");
    const long stated = shard && integer_in(*shard) != -1 ? count_in(*shard) : 0;
    DataDegrees found{.replicate = replicas ? count_in(*replicas) : 1,
                      .at = shard ? shard->at : "default of torchtitan"};
    const long degrees = found.replicate * stated;
    const bool told = stated > 0 && (filling == 0 || filling == degrees);
    if (told || stated == 1)
        found.shards = stated;
    else if (found.replicate > 1 && filling > 0 && filling % found.replicate == 0)
        found.shards = filling / found.replicate;
    if (told) {
        found.replicas = degrees;
        t.set("parallelism.dp", degrees, found.at);
    } else if (stated > 0) {
        add_line(t.problems,
                 "{} data-parallel replicas by its degrees ({}), but {} on as many GPUs as "
                 "asked; the forecast has those, and "
                 "the batch of as many",
                 degrees, found.at, filling);
    }
    return found;
}

// Context-parallel ranks share the shards.
void read_shards(Document& d, Translation& t, const DataDegrees& data, long pp, long cp) {
    t.set("parallelism.zero", data.shards == 1 && cp == 1 ? 0L : 3L, data.at);
    const auto* reshard = d.find("parallelism.fsdp_reshard_after_forward");
    const std::string when = reshard ? reshard->value : "default";
    const bool gathered = when == "never" || (when == "default" && pp > 1);
    if (gathered && t.count("parallelism.zero", 0) == 3)
        t.set("parallelism.zero", 2, reshard ? reshard->at : "default of torchtitan");
    if (data.replicate > 1) read_replicas_of_shards(t, data.replicate, data.shards * cp, data.at);
}

void read_split(Document& d, Translation& t, long filling) {
    const auto degree = [&](const char* name, const char* key) {
        t.take(key, d.find(std::string("parallelism.") + name), integer_text, "1");
        return t.count(key, 1);
    };
    const long tp = degree("tensor_parallel_degree", "parallelism.tp"),
               pp = degree("pipeline_parallel_degree", "parallelism.pp"),
               cp = degree("context_parallel_degree", "parallelism.cp"),
               ep = degree("expert_parallel_degree", "parallelism.ep");
    const DataDegrees data = read_degrees(d, t, filling);
    read_shards(d, t, data, pp, cp);
    if (tp > 1) t.take_default("parallelism.sequence_parallel", "true");
    read_tensor_parallel(d, t, tp);
    if (cp > 1)
        t.take_default("runtime.context_exchange",
                       d.text("parallelism.context_parallel_rotate_method") == "alltoall"
                           ? "ring"
                           : "all-gather");
    // It has no effect without expert parallelism: tensor parallelism then splits each expert.
    if (const auto* v = d.find("parallelism.expert_tensor_parallel_degree"); tp > 1 && ep > 1)
        t.take(
            "runtime.experts.tensor_parallel", v,
            [](const NamedValue& of) { return std::string(integer_in(of) != 1 ? "all" : "none"); },
            "none");
    t.take("runtime.experts.dispatch", d.find("parallelism.expert_parallel_comm_backend"),
           [](const NamedValue& v) { return dispatch_by(v.value == "deepep"); });
    read_pipeline(d, t, pp);
    read_batch(d, t, pp, data.replicas > 0 ? data.replicas : filling);
    const long split = t.ranks_of_split();
    t.open.push_back(
        data.replicas > 0
            ? fmt::format("{} GPUs by its degrees", split * t.count("parallelism.dp", 1))
            : fmt::format("how many GPUs: a multiple of {}; set it with --gpus",
                          std::max(split, pp * ep)));
}

// Converters that narrow the products: "float8", "quantize.linear.float8" and "quantize.linear.mx".
// Each has its own table, which has no effect unless the converter is listed.
void read_converters(Document& d, Translation& t) {
    const auto* stated = d.find("model.converters");
    const auto* scales = d.find_any({"quantize.linear.float8.recipe_name", "float8.recipe_name"});
    const auto* blocks = d.find_any({"quantize.linear.mx.recipe_name", "mx.recipe_name"});
    for (const std::string& name : words_of(stated ? stated->value : "", "[], ")) {
        const bool mx = name == "mx" || name.ends_with(".mx");
        if (mx)
            t.set("workload.dtype", blocks && has(blocks->value, "fp4") ? "fp4" : "fp8",
                  stated->at);
        else if (name.ends_with("float8"))
            t.set("workload.dtype", "fp8", stated->at);
        else
            add_line(t.problems, "model.converters ({}): {} is not modelled", stated->at, name);
        if (!mx && name.ends_with("float8") && scales && has(scales->value, "rowwise"))
            t.set("runtime.row_scales", "true", scales->at);
    }
    for (const auto* table : {scales, blocks})
        if (table && !t.find("workload.dtype"))
            add_line(t.ignored, "{} ({}): no converter in model.converters reads it", table->name,
                     table->at);
}

void read_recompute(Document& d, Translation& t) {
    const auto* mode = d.find("activation_checkpoint.mode");
    const auto how = mode ? mode->value : "selective";
    const auto* option = d.find("activation_checkpoint.selective_ac_option");
    const std::string at = mode ? mode->at : "default of torchtitan";
    t.set("parallelism.recompute", how == "memory_budget" || how == "selective" ? "alternate" : how,
          at);
    if (how == "memory_budget")
        t.problem(*mode,
                  "the compiler chooses what runs again; the forecast has selective_ac_option = "
                  "\"op\" in its place");
    if (how == "selective" && (!option || option->value != "op")) {
        const long every = option ? count_in(*option) : 2;
        const long layers = t.layers(), pp = t.count("parallelism.pp", 1);
        t.set("parallelism.recompute", "full", option ? option->at : at);
        if (layers > 0)
            t.set("parallelism.recompute_layers", std::max(1L, layers / pp / every),
                  option ? option->at : at);
        else if (every > 1)
            add_line(t.open,
                     "every {}. layer is computed again: use --set recompute_layers=N of a stage",
                     every);
    }
}

void read_training(Document& d, Translation& t) {
    t.take("workload.seq", d.find("training.seq_len"), integer_text, "2048");
    read_converters(d, t);
    const auto dtype = [](const NamedValue& v) {
        return std::string(v.value == "float32" ? "fp32" : "bf16");
    };
    const auto* weights = d.find("training.mixed_precision_param");
    // a converter's type applies to the products only
    if (!t.find("workload.dtype")) t.take("workload.dtype", weights, dtype, "bf16");
    t.take(
        "runtime.gradients.type", d.find("training.mixed_precision_reduce"),
        [](const NamedValue& v) { return std::string(v.value == "bfloat16" ? "bf16" : "fp32"); },
        "fp32");
    // The type of all parameters, gradients and optimizer states; without it fp32 beside
    // mixed_precision_param.
    t.take("runtime.optimizer.master_weights", d.find("training.dtype"), [](const NamedValue& v) {
        return std::string(v.value == "bfloat16" ? "false" : "true");
    });
    if (const auto* host = d.on("training.enable_cpu_offload"))
        keep_on_host(*host, t);  // CPUOffloadPolicy, distributed/parallelize of 0.2.2
    read_recompute(d, t);
    const auto* compile = d.find_any({"compile.enable", "training.compile"});
    const std::string said = compile ? compile->at : "default of torchtitan";
    if (!compiles(d, "model")) t.framework = "torchtitan-eager";
    t.set("runtime.kernels", compiles(d, "model") ? "fused" : "eager", said);
    // components/loss.py: compiled by itself, else PyTorch's cross entropy in fp32
    t.set("runtime.loss.fused", truth(compiles(d, "loss")), said);
    if (const auto* v = d.find("optimizer.name"))
        set_optimizer(t, *v);
    else
        t.take_default("workload.optimizer", "adam");
    // 0.2.2, config/job_config.py: Optimizer.implementation
    if (const auto* v = d.find("optimizer.implementation"); v && v->value != "fused") {
        t.set("runtime.optimizer.fused", "false", v->at);
        if (v->value != "foreach")
            t.problem(*v, v->value + "; the forecast updates lists of weights, as foreach does");
    }
}

}  // namespace

const TitanModel* titan_model_of(const Workload& w) {
    const auto sizes = [](const Workload& of) {
        return std::array{of.layers, of.hidden,      of.ffn,       of.heads,   of.kv_heads,
                          of.vocab,  of.moe.experts, of.moe.top_k, of.moe.ffn, of.mla.kv_rank};
    };
    static const auto known = [&] {
        std::array<Workload, models.size()> all;
        for (const std::size_t i : indices_of(models)) {
            Experiment named;
            set_key(named, {"workload.preset", std::string(models[i].preset)});
            all[i] = named.workload;
        }
        return all;
    }();
    const auto found =
        std::ranges::find_if(known, [&](const Workload& one) { return sizes(one) == sizes(w); });
    return found == known.end() ? nullptr : &models[as_index(found - known.begin())];
}

Translation translate_torchtitan(Document d, const std::string& model, long replicas) {
    Translation t{.path = d.path, .format = "torchtitan", .framework = "torchtitan"};
    rename_old_keys(d);
    if (model.empty())
        read_model(d, t);
    else
        t.set("workload.preset", model, "--model");
    read_split(d, t, replicas);
    read_training(d, t);
    leave_rest(d, t);
    return t;
}

}  // namespace stepcast
