#include "import/tables/row_words.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "import/tables/row_parts.h"
#include "model/base/characters.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

// "fp8 | float8" gives both.
std::vector<std::string> alternatives(const std::string& text) {
    constexpr std::string_view between = " | ";
    std::vector<std::string> found;
    for (std::size_t at = 0; at < text.size();) {
        const auto end = std::min(text.find(between, at), text.size());
        found.push_back(text.substr(at, end - at));
        at = end + between.size();
    }
    return found;
}

// A number or a version, "26.04.01"; "" for 0, which counts nothing.
std::string number_at(std::string_view text, std::size_t begin, std::size_t end) {
    while (end > begin && text[end - 1] == '.') --end;
    const auto number = text.substr(begin, end - begin);
    if (number.size() > 15)
        throw ConfigError(
            fmt::format("notes: {}.. is out of range; expected a number of at most "
                        "15 digits",
                        number.substr(0, 12)));
    const bool counts = !number.empty() && is_digit(number.front()) &&
                        number.find_first_not_of("0.") != number.npos;
    return counts ? std::string(number) : std::string();
}

// Whether the place is one that `at` asks for.
bool is_placed(const std::string& at, std::string_view text, std::size_t begin, std::size_t end) {
    const auto next = [&](auto ends) { return end == text.size() || ends(text[end]); };
    if (at == "word")
        return (begin == 0 || !is_letter(text[begin - 1])) &&
               next([](char c) { return !is_letter(c); });
    if (at == "start") return begin == 0;
    if (at == "first") return begin == 0 && next([](char c) { return has(" ;,(", c); });
    return at.empty() || (begin == 0 && end == text.size());
}

// "no CUDA graphs", "no_deepep", "not an inference run", "LoRA off", "DeepEP=false".
bool is_denied(std::string_view text, std::size_t begin, std::size_t end) {
    const auto before = text.substr(0, begin);
    for (const std::string_view no :
         {"no ", "no_", "no-", "not ", "not a ", "not an ", "without ", "without a ", "without_"})
        if (before.ends_with(no) &&
            (before.size() == no.size() || !is_letter(before[before.size() - no.size() - 1])))
            return true;
    while (end < text.size() && is_letter(text[end])) ++end;  // a plural
    const auto sign = std::min(text.find_first_not_of(" =:", end), text.size());
    const auto after = text.substr(sign);
    return sign > end &&
           std::ranges::any_of(std::array{"off", "disabled", "false"}, [&](std::string_view no) {
               return after.starts_with(no) &&
                      (after.size() == no.size() || !is_letter(after[no.size()]));
           });
}

// The place lies within one of these texts.
bool is_within(const std::vector<std::string>& texts, std::string_view text, std::size_t begin,
               std::size_t end) {
    return std::ranges::any_of(texts, [&](const std::string& longer) {
        for (auto at = text.find(longer); at != text.npos && at <= begin;
             at = text.find(longer, at + 1))
            if (at + longer.size() >= end) return true;
        return false;
    });
}

// Columns that are text, or that no table leaves open in words.
bool is_free_text(const std::string& column) {
    static const std::set<std::string> columns{"source", "case_id", "model",  "gpu", "interconnect",
                                               "metric", "unit",    "step_s", "ref", "notes"};
    return columns.contains(column);
}

}  // namespace

const std::vector<std::string>& cells_of_words() {
    static const std::vector<std::string> cells{"adapter_on",
                                                "adapter_rank",
                                                "attention",
                                                "by",
                                                "calls_again",
                                                "capacity_factor",
                                                "container",
                                                "dense_ffn",
                                                "dense_layers",
                                                "dispatcher",
                                                "evidence",
                                                "experts_one_by_one",
                                                "foreach",
                                                "form",
                                                "frozen",
                                                "fused_accumulation",
                                                "gpus_per_node",
                                                "gradient_bucket",
                                                "graphs",
                                                "head_dim",
                                                "issue",
                                                "local_experts",
                                                "masked",
                                                "moe_interval",
                                                "network",
                                                "offload",
                                                "optimizer",
                                                "overlap_gradients",
                                                "overlap_parameters",
                                                "paged",
                                                "parameters",
                                                "peak_gib",
                                                "reserved_gib",
                                                "precision",
                                                "recompute",
                                                "recompute_layers",
                                                "row_scales",
                                                "seq",
                                                "shard",
                                                "shared_experts",
                                                "shared_ffn",
                                                "single_layer",
                                                "sp",
                                                "states",
                                                "tied",
                                                "usual_precision",
                                                "work",
                                                "zero"};
    return cells;
}

Phrase::Phrase(std::string_view text) : text_(text), literals_(1) {
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '{') {
            literals_.back() += text[at];
            any_case_ &= !(text[at] >= 'A' && text[at] <= 'Z');
            continue;
        }
        const auto close = std::min(text.find('}', at), text.size());
        cells_.emplace_back(text.substr(at + 1, close - at - 1));
        literals_.emplace_back();
        at = close;
    }
    if (anchor().empty())
        throw ConfigError(fmt::format("\"{}\": expected words beside the number", text));
}

Phrase::Span Phrase::match(std::string_view text, std::size_t anchor_at, Cells& found) const {
    Span span{anchor_at, anchor_at};
    std::size_t cell = 0;
    const auto take = [&](std::size_t begin, std::size_t end) {
        auto number = number_at(text, begin, end);
        if (number.empty()) return false;
        found[cells_[cell++]] = std::move(number);
        return true;
    };
    if (literals_.front().empty()) {
        while (span.begin > 0 && is_number_character(text[span.begin - 1])) --span.begin;
        if (!take(span.begin, anchor_at)) return {0, 0};
    }
    for (std::size_t next = cell; next < literals_.size(); ++next) {
        if (next > cell) {
            auto end = span.end;
            while (end < text.size() && is_number_character(text[end])) ++end;
            if (!take(span.end, end)) return {0, 0};
            span.end = end;
        }
        if (!text.substr(span.end).starts_with(literals_[next])) return {0, 0};
        span.end += literals_[next].size();
    }
    return span;
}

RowWords::Word RowWords::word_of(const SourceRow& table) {
    Word word;
    word.in = words_of(table.at("in"), " ");
    for (const std::string& text : alternatives(table.at("phrase")))
        word.phrases.emplace_back(text);
    if (word.in.empty() || word.phrases.empty())
        throw ConfigError("[[word]]: expected both `in` and `phrase`");
    word.but_not = alternatives(table.at("but_not"));
    word.at = table.at("at");
    word.with = table.at("with");
    word.said = table.at("said");
    word.refuse = table.at("refuse");
    static const std::set<std::string> others{"in",   "phrase", "but_not", "at",
                                              "with", "said",   "refuse",  "source"};
    for (const auto& [cell, value] : table)
        if (!others.contains(cell) && !value.empty()) word.cells[cell] = value;
    return word;
}

RowWords::RowWords(const std::vector<SourceRow>& words, const std::vector<SourceRow>& unstated,
                   const std::vector<SourceRow>& assumed) {
    for (const SourceRow& table : words) words_.push_back(word_of(table));
    for (const SourceRow& table : unstated) unstated_.push_back(table.at("phrase"));
    for (const SourceRow& table : assumed) assumed_.push_back(table.at("phrase"));
}

const Phrase* RowWords::phrase_in(const Word& word, const CaseRow& row, Cells& found) {
    std::string written;
    for (const std::string& column : word.in)
        written += (written.empty() ? "" : " ") + row.cell(column);
    const std::string small = lower_case(written);
    if (!has(small, word.with)) return nullptr;
    for (const Phrase& phrase : word.phrases) {
        const std::string& text = phrase.any_case() ? small : written;
        const auto counts = [&](std::size_t begin, std::size_t end) {
            return is_placed(word.at, text, begin, end) && !is_denied(small, begin, end) &&
                   !is_within(word.but_not, text, begin, end);
        };
        if (phrase.find(text, found, counts)) return &phrase;
    }
    return nullptr;
}

// What is said of a word that was read, with the cells that it names in braces.
static std::string said_of(const std::string& text, const std::vector<std::string>& columns,
                           const CaseRow& row) {
    std::string said = text;
    for (const std::string& column : columns) {
        const auto braced = "{" + column + "}";
        if (const auto at = said.find(braced); at != std::string::npos)
            said.replace(at, braced.size(), row.cell(column));
    }
    return said;
}

// The row without cells that begin with one of these phrases: they say that nothing is stated.
static CaseRow without(const std::vector<std::string>& phrases, CaseRow row) {
    for (auto& [column, text] : row.cells)
        if (!is_free_text(column) &&
            std::ranges::any_of(phrases, [&](const auto& one) { return text.starts_with(one); }))
            text.clear();
    return row;
}

CaseRow RowWords::plain(const CaseRow& row, std::vector<std::string>& assumptions) const {
    const CaseRow stated = without(unstated_, row);
    CaseRow plain = stated;
    std::set<std::string> filled;  // by the first word that has the cell
    for (const Word& word : words_) {
        const auto is_own = [&](const std::string& cell) { return contains(word.in, cell); };
        Cells found = word.cells;
        const Phrase* const phrase = phrase_in(word, stated, found);
        if (!phrase) continue;
        if (!word.refuse.empty())
            throw ConfigError(
                fmt::format("{}: \"{}\" {}", word.in.back(), phrase->text(), word.refuse));
        std::erase_if(found, [&](const auto& one) {
            const std::string& cell = one.first;
            return (!is_own(cell) && !stated.cell(cell).empty()) || !filled.insert(cell).second;
        });
        for (const auto& [cell, value] : found) {
            if (is_own(cell)) plain.cells["stated_" + cell] = stated.cell(cell);
            plain.cells[cell] = value;
        }
        if (!found.empty() && !word.said.empty())
            assumptions.push_back(said_of(word.said, word.in, stated));
    }
    for (const auto& [column, text] : row.cells)
        if (column != "notes" &&
            std::ranges::any_of(assumed_, [&](const auto& w) { return has(text, w); }))
            assumptions.push_back(column + ": " + text);
    return plain;
}

}  // namespace stepcast
