#include "import/launch/megatron_deepspeed.h"

#include <algorithm>

#include <fmt/format.h>

#include "import/launch/launch_flags.h"
#include "import/launch/megatron_source.h"
#include "model/base/plain_text.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

// "--num-experts 64 64 128" is of each layer with experts, and "[1]" is how a dump writes one
// number. One expert is a dense layer.
void take_number_of_experts(MegatronSource& s) {
    for (NamedValue& value : s.d.values) {
        if (value.name != "num_experts" || value.null) continue;
        NamedValue largest = value;
        const auto numbers = words_of(value.value, "[], ");
        bool alike = true;
        for (const std::string& number : numbers) {
            NamedValue one = value;
            one.value = number;
            alike = alike && number == numbers.front();
            if (number == numbers.front() || integer_in(one) > integer_in(largest))
                largest.value = number;
        }
        if (!alike)
            s.t.problem(value,
                        fmt::format("{}; the forecast has as many in each layer with experts: {}",
                                    value.value, largest.value));
        value.value = largest.value;
        if (largest.value != "1") continue;
        s.t.ignored.push_back("num_experts (" + value.at +
                              "): one expert is a layer without experts");
        value.null = value.used = true;
    }
}

}  // namespace

bool is_of_deepspeed(Document& d) {
    const auto* switched = d.find("deepspeed");
    if (switched && flag_in(*switched)) return true;
    return std::ranges::any_of(d.values, [](const NamedValue& v) {
        return launch_flags().of_deepspeed.contains(v.name) && !v.null;
    });
}

void take_deepspeed_experts(MegatronSource& s) {
    take_number_of_experts(s);
    if (!s.d.states("num_experts")) return;
    s.t.take("workload.moe.top_k", s.d.find("topk"), integer_text, "1");
    s.t.take("workload.moe.interval", s.d.find("expert_interval"), integer_text, "2");
    s.t.take("parallelism.ep", s.d.find("moe_expert_parallel_size"), integer_text, "1");
    const auto* keeps_all = s.d.on("disable_moe_token_dropping");
    const auto* capacity = s.d.find("moe_train_capacity_factor");
    if (keeps_all)
        s.t.set("workload.moe.capacity_factor", "0", keeps_all->at);
    else
        s.t.take("workload.moe.capacity_factor", capacity, stated_text, "1.0");
    if (const auto* type = s.d.find("mlp_type"); type && lower_case(type->value) == "residual") {
        s.t.set("workload.moe.shared_experts", 1, type->at);
        s.t.problem(*type,
                    "residual; a dense layer beside the experts is forecast as a shared expert, "
                    "without the two coefficients of a token");
    }
    const auto* sliced = s.d.find("enable_expert_tensor_parallelism");
    const auto* tp = s.d.find("tensor_model_parallel_size");
    if (tp && integer_in(*tp) > 1 && !(sliced && flag_in(*sliced)))
        s.t.problem(*tp, fmt::format("each tensor-parallel rank holds whole experts without "
                                     "--enable-expert-tensor-parallelism; the forecast has a "
                                     "part of {} of each",
                                     integer_in(*tp)));
}

void take_deepspeed_split(MegatronSource& s) {
    if (const auto* v = s.d.find("ds_sequence_parallel_size"); v && integer_in(*v) > 1) {
        s.t.set("parallelism.cp", integer_in(*v), v->at);
        s.t.problem(*v,
                    "exchanges of heads (Ulysses) are not modelled; taken as a ring of keys and "
                    "values over as many ranks");
    }
    const long pp = s.t.count("parallelism.pp", 1);
    if (const auto* v = s.d.on("enable_zbh1_pipeline"); v && pp > 1)
        s.t.set("parallelism.schedule", "zb-h1", v->at);
    else if (v)
        s.t.ignored.push_back("enable_zbh1_pipeline (" + v->at + "): pp is 1");
    if (const auto* v = s.d.on("no_pipeline_parallel"); v && pp > 1)
        s.t.problem(*v, fmt::format("and pipeline_model_parallel_size is {}, which "
                                    "Megatron-DeepSpeed then does not run; the forecast does",
                                    pp));
}

bool counts_embedding_as_layer(MegatronSource& s) {
    const auto* how = s.d.find("pp_partition_method");
    if (!how || s.t.count("parallelism.pp", 1) < 2) return false;
    const std::string said = lower_case(how->value);
    const bool layers = said.starts_with("type:") && has(said, "transformer");
    const bool ends = layers && has(said, "embedding");
    if (!layers)
        s.t.problem(*how, how->value + "; the forecast cuts between equal numbers of layers");
    return ends;
}

}  // namespace stepcast
