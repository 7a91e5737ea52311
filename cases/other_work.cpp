#include "cases/row_parts.h"

#include <fmt/format.h>

#include "cases/cells.h"
#include "model/errors.h"

namespace stepcast {
namespace {

constexpr int usual_rank = 16;  // MLPerf's LoRA benchmark; NeMo's default is of the same cost

bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

// "lora" or "qlora" as a word of its own: a latent attention's q_lora_rank and kv_lora_rank are no adapters.
bool names_adapters(const std::string& text) {
    for (auto at = text.find("lora"); at != std::string::npos; at = text.find("lora", at + 1)) {
        if (at + 4 < text.size() && is_letter(text[at + 4])) continue;
        std::size_t begin = at;
        while (begin > 0 && is_letter(text[begin - 1])) --begin;
        const auto word = text.substr(begin, at - begin);
        if (word == "q") return true;
        if (!word.empty()) continue;
        std::size_t end = begin;
        while (end > 0 && !is_letter(text[end - 1]) && (text[end - 1] == '_' || text[end - 1] == '-' || text[end - 1] == ' ')) --end;
        std::size_t first = end;
        while (first > 0 && is_letter(text[first - 1])) --first;
        const auto before = text.substr(first, end - first);
        if (before != "q" && before != "kv") return true;
    }
    return contains(text, "peft");
}

// Of "LoRA rank 16" the 16. "time of rank 0" and "8 GPUs per rank group" say nothing of adapters.
std::optional<int> stated_rank(const std::string& text) {
    constexpr std::string_view word = "rank ";
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
        const auto next = at + word.size();
        const bool digit = next < text.size() && text[next] >= '1' && text[next] <= '9';
        if (digit) return count_of(*number_after(text, next));
    }
    return std::nullopt;
}

bool names_one_of(const std::string& text, std::initializer_list<const char*> words) {
    for (const char* word : words)
        if (contains(text, word)) return true;
    return false;
}

}  // namespace

void set_other_work(const CaseRow& row, Workload& workload, std::vector<std::string>& assumptions) {
    const auto text = lower_case(row.cell("case_id") + " " + row.cell("model") + " " + row.cell("notes"));
    for (const char* word : {"inference", "rlhf", "_dpo", "dpo ", "grpo"})
        if (contains(text, word))
            throw ConfigError(fmt::format("notes: \"{}\" is other work than the training step that is modelled", word));
    if (names_adapters(text)) {
        workload.adapter_rank = stated_rank(text).value_or(usual_rank);
        assumptions.push_back(
            fmt::format("LoRA: weights frozen, adapters of rank {} next to the attention's, packed sequences",
                        workload.adapter_rank));
    } else if (names_one_of(text, {"finetun", "fine-tun", "fine tun", "_sft", "sft ", "sft)"})) {
        assumptions.push_back("fine-tuning of all weights on packed sequences: the work of pretraining");
    }
}

}  // namespace stepcast
