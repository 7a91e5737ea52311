#include "import/launch/module_pattern.h"

#include <algorithm>

namespace stepcast {
namespace {

using Names = std::vector<std::string>;
constexpr std::size_t most_names = 512, longest_pattern = 1000;
constexpr int deepest_group = 16;

// Reads one expression from left to right; `failed_` at the first form that it does not spell out.
class PatternReader {
public:
    explicit PatternReader(std::string_view text) : text_(text) {}

    std::optional<Names> read() {
        Names all = alternatives(0);
        if (failed_ || at_ != text_.size()) return std::nullopt;
        return all;
    }

private:
    [[nodiscard]] bool is_at(char c) const { return at_ < text_.size() && text_[at_] == c; }
    bool take(char c) {
        if (!is_at(c)) return false;
        ++at_;
        return true;
    }

    Names alternatives(int depth) {
        Names all;
        do {
            for (std::string& one : sequence(depth)) all.push_back(std::move(one));
            if (all.size() > most_names || depth > deepest_group) failed_ = true;
        } while (!failed_ && take('|'));
        return all;
    }

    Names sequence(int depth) {
        Names all{""};
        while (!failed_ && at_ < text_.size() && text_[at_] != '|' && text_[at_] != ')') {
            const Names next = quantified(item(depth));
            if (all.size() * next.size() > most_names) failed_ = true;
            if (failed_) break;
            Names longer;
            for (const std::string& begin : all)
                for (const std::string& end : next) longer.push_back(begin + end);
            all = std::move(longer);
        }
        return all;
    }

    Names item(int depth) {
        const char c = text_[at_++];
        if (c == '(') return group(depth);
        if (c == '[') return one_of();
        if (c == '^' || c == '$') return {""};
        if (c == '\\') {
            if (at_ == text_.size()) return failed();
            const char escaped = text_[at_++];
            const bool a_class = std::string_view("dwsDWS").find(escaped) != std::string_view::npos;
            return {std::string(1, a_class ? any_word : escaped)};
        }
        if (std::string_view("*+?{}]").find(c) != std::string_view::npos) return failed();
        return {std::string(1, c)};
    }

    Names group(int depth) {
        if (take('?') && !take(':')) return failed();
        Names inner = alternatives(depth + 1);
        if (!take(')')) return failed();
        return inner;
    }

    // "[12]" are two letters, "[\d]" and "[a-z]" any.
    Names one_of() {
        const auto end = text_.find(']', at_);
        if (end == std::string_view::npos) return failed();
        const std::string_view letters = text_.substr(at_, end - at_);
        at_ = end + 1;
        if (letters.empty() || letters.find_first_of("\\-^") != std::string_view::npos)
            return {std::string(1, any_word)};
        Names all;
        for (const char letter : letters) all.emplace_back(1, letter);
        return all;
    }

    // A dot that may be repeated is anything, alone it is taken for itself.
    Names quantified(Names names) {
        if (take('?')) {
            names.emplace_back();
            return names;
        }
        if (!take('*') && !take('+')) return names;
        take('?');
        const bool letter = names.size() == 1 && (names[0] == "." || names[0][0] == any_word);
        const bool letters = std::ranges::all_of(
            names, [](const std::string& one) { return one.size() == 1 && one != "."; });
        if (!letter && !letters) return failed();
        return {std::string(1, any_word)};
    }

    Names failed() {
        failed_ = true;
        return {};
    }

    std::string_view text_;
    std::size_t at_ = 0;
    bool failed_ = false;
};

}  // namespace

bool is_module_pattern(std::string_view text) {
    return !text.starts_with('[') && text.find_first_of("()|\\*^$?+") != std::string_view::npos;
}

std::optional<std::vector<std::string>> module_names(std::string_view pattern) {
    if (pattern.size() > longest_pattern) return std::nullopt;
    return PatternReader(pattern).read();
}

}  // namespace stepcast
