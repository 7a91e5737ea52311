#include <algorithm>
#include <array>
#include <sstream>

#include "translate/readers.h"

namespace stepcast {
namespace {

// Flags that say something of a step, as argparse stores them: with megatron_numbers what a beginning is held against.
constexpr std::array others{"ffn_hidden_size", "num_query_groups", "seq_length", "normalization", "position_embedding_type",
                            "disable_bias_linear", "add_qkv_bias", "untie_embeddings_and_output_weights", "hidden_dropout",
                            "attention_dropout", "make_vocab_size_divisible_by", "multi_latent_attention", "moe_layer_freq",
                            "moe_expert_capacity_factor", "mtp_num_layers", "expert_tensor_parallel_size", "sequence_parallel",
                            "num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank",
                            "pipeline_model_parallel_layout", "rampup_batch_size", "use_distributed_optimizer", "overlap_grad_reduce",
                            "overlap_param_gather", "ddp_bucket_size", "recompute_granularity", "recompute_method",
                            "recompute_num_layers", "recompute_activations", "recompute_modules", "fp8_format", "grad_reduce_in_bf16"};

std::vector<std::string_view> known_flags() {
    std::vector<std::string_view> known(others.begin(), others.end());
    for (const MegatronNumber& number : megatron_numbers) known.push_back(number.of_lm);
    return known;
}

// "tensor_model_parallel" -> "tensor_model_parallel_size"; unchanged where none or several begin so.
std::string completed(const std::string& name, const std::vector<std::string_view>& known) {
    const auto begins = [&](std::string_view flag) { return flag.starts_with(name); };
    if (name.size() < 6 || std::ranges::count_if(known, begins) != 1) return name;
    return std::string(*std::ranges::find_if(known, begins));
}

// "model.tensor_model_parallel_size=4", also with the + of Hydra before it: where its name ends; 0 = no such word.
std::size_t dotted_name(const std::string& text) {
    const auto equals = text.find('='), dot = text.find('.');
    if (equals == std::string::npos || dot == std::string::npos || dot > equals || text.starts_with('-')) return 0;
    const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '+'; };
    return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(equals), plain) ? equals : 0;
}

std::string without_quotes(std::string text) {
    if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front())
        text = text.substr(1, text.size() - 2);
    return text;
}

}  // namespace

Document megatron_arguments(const std::vector<ShellArgument>& arguments, const std::string& path) {
    Document document{path, {}};
    const auto known = known_flags();
    const auto is_flag = [](const std::string& text) { return text.starts_with("--") && text.size() > 2; };
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto& [text, at] = arguments[i];
        if (const auto end = dotted_name(text)) {
            const auto first = text.find_first_not_of('+');
            document.add(text.substr(first, end - first), without_quotes(text.substr(end + 1)), at);
            continue;
        }
        if (!is_flag(text)) continue;
        const auto equals = text.find('=');
        auto name = text.substr(2, equals == std::string::npos ? equals : equals - 2);
        std::ranges::replace(name, '-', '_');
        name = completed(name, known);
        std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
        if (equals == std::string::npos)
            while (i + 1 < arguments.size() && !is_flag(arguments[i + 1].text) && !arguments[i + 1].text.ends_with(".py") &&
                   dotted_name(arguments[i + 1].text) == 0)
                value += (value.empty() ? "" : " ") + arguments[++i].text;
        // Booleans that are true by default are switched off by --no-X; those that Megatron names so itself stay.
        if (value.empty() && name.starts_with("no_") && std::ranges::find(known, name.substr(3)) != known.end())
            document.add(name.substr(3), "false", at);
        else
            document.add(name, value.empty() ? "true" : value, at);
    }
    return document;
}

bool is_argument_dump(const std::string& text) {
    const auto begin = text.find("--- arguments ---");
    return begin != std::string::npos && text.find("num_layers ...", begin) != std::string::npos;
}

// "[default0]:  hidden_size ..................... 4096", with whatever a launcher puts before it.
Document dumped_arguments(const std::string& text, const std::string& path) {
    Document document{path, {}};
    std::istringstream lines(text.substr(text.find("--- arguments ---")));
    long number = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("--- arguments ---")), '\n');
    for (std::string line; std::getline(lines, line); ++number) {
        if (line.find("end of arguments") != std::string::npos) break;
        const auto dots = line.find(" ...");
        if (dots == std::string::npos) continue;
        const auto begin = line.find_last_of(" :", dots - 1) + 1;
        const auto behind = line.find_first_not_of('.', dots + 1);
        auto value = behind == std::string::npos ? "" : line.substr(std::min(line.size(), behind + 1));
        while (!value.empty() && (value.back() == ' ' || value.back() == '\r')) value.pop_back();
        const bool null = value == "None" || value.empty();
        document.values.push_back({line.substr(begin, dots - begin), null ? "" : value, path + ":" + std::to_string(number), null});
    }
    return document;
}

}  // namespace stepcast
