// What changes a step's work or memory and has no key: one table for the files of all tools, so that none of them hides it among
// the flags that say nothing of a step.
#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "model/files/plain_text.h"
#include "translate/readers.h"

namespace stepcast {
namespace {

struct Unmodelled {
    std::string_view name, instead;  // with whatever sections before it; what the forecast has in its place
};
constexpr std::string_view on_device = "memory of the host is not modelled; the forecast keeps all on the device";
constexpr std::string_view moments = "the forecast keeps the optimizer's states in fp32";
constexpr std::string_view of_kinds = "layers of several kinds; the forecast has attention in each";
constexpr std::string_view exact = "ZeRO++'s quantized messages are not modelled; the forecast sends whole elements";
constexpr Unmodelled unmodelled[] = {{"optimizer_cpu_offload", on_device},
                                     {"cpu_optimizer", on_device},
                                     {"cpu_offloading", on_device},
                                     {"cpu_offloading_num_layers", on_device},
                                     {"fine_grained_activation_offloading", on_device},
                                     {"enable_cpu_offload", on_device},
                                     {"cpu_offload", on_device},
                                     {"cpu_offload_params", on_device},
                                     {"offload_optimizer.device", on_device},
                                     {"offload_param.device", on_device},
                                     {"cpu_checkpointing", on_device},
                                     {"exp_avg_dtype", moments},
                                     {"exp_avg_sq_dtype", moments},
                                     {"main_params_dtype", moments},
                                     {"zero_quantized_weights", exact},
                                     {"zero_quantized_gradients", exact},
                                     {"hybrid_layer_pattern", of_kinds},
                                     {"hybrid_override_pattern", of_kinds},
                                     {"is_hybrid_model", of_kinds},
                                     {"hybrid_attention_ratio", of_kinds},
                                     {"experimental_attention_variant", "the forecast has the usual attention"},
                                     {"linear_attention_type", "the forecast has the usual attention"},
                                     {"heterogeneous_layers_config_path", "layers of several sizes; the forecast has all alike"},
                                     {"decoder_num_layers", "the forecast has no decoder beside the layers"},
                                     {"moe_latent_size", "the forecast has experts on vectors of the hidden size"}};

bool is_named(std::string_view whole, std::string_view name) {
    return whole.ends_with(name) && (whole.size() == name.size() || whole[whole.size() - name.size() - 1] == '.');
}

// Off, or as it is without the flag.
bool changes_nothing(const std::string& value) {
    static constexpr std::array plain{"", "false", "no", "off", "none", "null", "fp32", "float32", "torch.float32"};
    const auto number = as_number<double>(value);
    return number ? *number == 0 : std::ranges::find(plain, lower_case(value)) != plain.end();
}

}  // namespace

void name_unmodelled(Document& d, Translation& t) {
    std::set<std::string> seen;
    for (const auto& value : d.values)
        for (const auto& [name, instead] : unmodelled) {
            if (!is_named(value.name, name) || !seen.insert(value.name).second) continue;
            const auto* v = d.find(value.name);
            if (!v || changes_nothing(v->value)) continue;
            t.problems.push_back(fmt::format("{} ({}): {}{}", v->name, v->at, instead == moments ? v->value + "; " : "", instead));
        }
}

void leave_rest(Document& d, Translation& t) {
    name_unmodelled(d, t);
    for (const auto& value : d.values)
        if (!value.used) t.ignored.push_back(value.name);
}

void set_optimizer(Translation& t, const NamedValue& value) {
    static constexpr std::array adams{"adam", "adamw", "fusedadam", "distributedfusedadam", "megatronfusedadam", "mcoredistributedoptim"};
    std::string name = lower_case(value.value);
    std::erase(name, '_');
    const bool sgd = name == "sgd", lamb = name.ends_with("lamb");
    const std::string taken = sgd ? "sgd" : lamb ? "lamb" : "adam";
    if (!sgd && name != "lamb" && name != "fusedlamb" && std::ranges::find(adams, name) == adams.end())
        t.problems.push_back(fmt::format("{} ({}): {} is not modelled; taken as {}", value.name, value.at, value.value, taken));
    t.set("workload.optimizer", taken, value.at);
}

}  // namespace stepcast
