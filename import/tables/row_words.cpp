// Reads from a row's words what has no column of its own: work other than pretraining, and the
// element type.
#include "import/tables/row_parts.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "model/base/errors.h"

namespace stepcast {
namespace {

// LoRA rank of MLPerf's benchmark; NeMo's default rank costs the same
constexpr int usual_rank = 16;

bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

std::string letters_before(const std::string& text, std::size_t at) {
    std::size_t begin = at;
    while (begin > 0 && is_letter(text[begin - 1])) --begin;
    return text.substr(begin, at - begin);
}

// True if "lora" or "qlora" is a word by itself. The q_lora_rank and kv_lora_rank of latent
// attention are not adapters.
bool names_adapters(const std::string& text) {
    for (auto at = text.find("lora"); at != std::string::npos; at = text.find("lora", at + 1)) {
        if (at + 4 < text.size() && is_letter(text[at + 4])) continue;
        const std::string own = letters_before(text, at);
        if (own == "q") return true;
        const std::string before =
            letters_before(text, at == 0 ? 0 : text.find_last_not_of("_- ", at - 1) + 1);
        if (own.empty() && before != "q" && before != "kv") return true;
    }
    return contains(text, "peft");
}

// "LoRA rank 16" gives 16. "time of rank 0" and "8 GPUs per rank group" are not about adapters.
std::optional<int> stated_rank(const std::string& text) {
    constexpr std::string_view word = "rank ";
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
        const auto next = at + word.size();
        const bool digit = next < text.size() && text[next] >= '1' && text[next] <= '9';
        if (digit) return count_of(*number_after(text, next));
    }
    return std::nullopt;
}

// PEFT's word for target_modules, and how notes say it.
bool on_all_layers(const std::string& text) {
    return contains(text, "all linear") || contains(text, "all-linear");
}

void set_adapters(const std::string& text, Workload& workload,
                  std::vector<std::string>& assumptions) {
    workload.adapter_rank = stated_rank(text).value_or(usual_rank);
    if (on_all_layers(text)) workload.adapter_on = Adapted::linear;
    const auto* where =
        workload.adapter_on == Adapted::linear ? "all linear layers" : "the attention's";
    assumptions.push_back(
        fmt::format("LoRA: weights frozen, adapters of rank {} next to {}, packed sequences",
                    workload.adapter_rank, where));
}

}  // namespace

void set_other_work(const CaseRow& row, Workload& workload, std::vector<std::string>& assumptions) {
    const auto text =
        lower_case(row.cell("case_id") + " " + row.cell("model") + " " + row.cell("notes"));
    const auto names = [&](const char* word) { return contains(text, word); };
    for (const char* word : {"inference", "rlhf", "_dpo", "dpo ", "grpo"})
        if (names(word))
            throw ConfigError(fmt::format(
                "notes: \"{}\" is other work than the training step that is modelled", word));
    if (names_adapters(text)) {
        set_adapters(text, workload, assumptions);
    } else if (std::ranges::any_of(
                   std::array{"finetun", "fine-tun", "fine tun", "_sft", "sft ", "sft)"}, names)) {
        assumptions.push_back(
            "fine-tuning of all weights on packed sequences: the work of pretraining");
    }
}

Dtype dtype_in(const CaseRow& row) {
    // The narrowest type named counts: "bf16 with fp8 linears" runs its products in fp8.
    static constexpr struct {
        Dtype dtype;
        std::array<std::string_view, 6> words;
    } named[] = {{Dtype::fp4, {"fp4", "float4"}},
                 {Dtype::fp8, {"fp8", "float8", "e4m3"}},
                 {Dtype::bf16, {"bf16", "bfloat16"}},
                 {Dtype::fp16, {"fp16", "float16", "16-mixed", "half", "amp", "mixed"}},
                 {Dtype::tf32, {"tf32"}},
                 {Dtype::fp32, {"fp32", "float32", "single"}}};
    const auto text = lower_case(row.cell("precision"));
    // "fp32 (TF32 state unknown)": frameworks of 2020 and 2021 ran fp32 products as TF32 where the
    // device supports it.
    if (contains(text, "fp32") && contains(text, "tf32")) return Dtype::tf32;
    for (const auto& [dtype, words] : named)
        if (std::ranges::any_of(words, [&](std::string_view word) {
                return !word.empty() && contains(text, word);
            }))
            return dtype;
    throw ConfigError(
        "precision: \"" + row.cell("precision") +
        "\" names no dtype that is modelled; expected fp32, tf32, fp16, bf16, fp8 or fp4");
}

}  // namespace stepcast
