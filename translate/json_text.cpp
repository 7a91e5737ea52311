// JSON as people write it: DeepSpeed reads its files with hjson (runtime/config.py), others join several files in braces.
#include <algorithm>

#include "translate/document.h"

namespace stepcast {
namespace {

// Walks through the text and keeps its lines. Blanks comments, adds commas that the end of a line stands for, and begins a new document
// between a closing and an opening brace.
class Tidy {
public:
    explicit Tidy(std::string text) : text_(std::move(text)) {}

    std::string all() {
        for (at_ = 0; at_ < text_.size(); ++at_) {
            const char c = text_[at_];
            if (c == '"' || (c == '\'' && opens())) pass_string(c);
            else if (c == '#' || text_.compare(at_, 2, "//") == 0) blank_until("\n");
            else if (text_.compare(at_, 2, "/*") == 0) blank_until("*/");
            else if (std::string_view(" \t\r").find(c) != std::string_view::npos) continue;
            else if (c == '\n') line_ended_ = true;
            else take(c);
        }
        return std::move(text_);
    }

private:
    // Where a value can begin; elsewhere an apostrophe is part of a word.
    [[nodiscard]] bool opens() const { return last_ == 0 || std::string_view("{[,:").find(text_[last_ - 1]) != std::string_view::npos; }

    void pass_string(char quote) {
        separate();
        for (++at_; at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n'; ++at_)
            if (text_[at_] == '\\') ++at_;
        last_ = std::min(at_ + 1, text_.size());
    }

    void blank_until(std::string_view end) {
        const auto found = text_.find(end, at_ + 1);
        const auto stop = found == std::string::npos ? text_.size() : end == "\n" ? found : found + end.size();
        for (auto i = at_; i < stop; ++i)
            if (text_[i] != '\n') text_[i] = ' ';
        at_ = stop - 1;
    }

    void take(char c) {
        if (c != '}' && c != ']' && c != ',' && c != ':') separate();
        if (c == '{' || c == '[') ++depth_;
        if (c == '}' || c == ']') --depth_;
        last_ = at_ + 1;
        line_ended_ = false;
    }

    // Before what begins on a new line.
    void separate() {
        if (!line_ended_ || last_ == 0) return;
        line_ended_ = false;
        if (depth_ > 0 && std::string_view("{[,:").find(text_[last_ - 1]) == std::string_view::npos) insert(last_, ",");
        if (depth_ == 0 && text_[last_ - 1] == '}') insert(text_.rfind('\n', at_) + 1, "--- ");
    }
    void insert(std::size_t where, std::string_view what) {
        text_.insert(where, what);
        at_ += what.size();
    }

    std::string text_;
    std::size_t at_ = 0, last_ = 0;  // last_: behind the last character that says something
    long depth_ = 0;
    bool line_ended_ = false;
};

}  // namespace

Document read_json(const std::string& text, const std::string& path) { return read_yaml(Tidy(text).all(), path); }

bool is_json(const std::string& text) {
    std::size_t at = 0;
    for (;;) {
        at = text.find_first_not_of(" \t\r\n", at);
        if (at == std::string::npos) return false;
        if (text[at] != '#' && text.compare(at, 2, "//") != 0 && text.compare(at, 2, "/*") != 0) return text[at] == '{';
        const bool block = text[at + 1] == '*' && text[at] == '/';
        at = text.find(block ? "*/" : "\n", at);
        if (block && at != std::string::npos) at += 2;
    }
}

Document read_json_or_yaml(const std::string& text, const std::string& path) { return is_json(text) ? read_json(text, path) : read_yaml(text, path); }

}  // namespace stepcast
