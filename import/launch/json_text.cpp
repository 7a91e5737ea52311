#include "import/launch/json_text.h"

#include "import/launch/document.h"

namespace stepcast {
namespace {

// Copies the text and keeps its lines. Blanks comments, adds commas that the end of a line stands
// for, and begins a new document between a closing and an opening brace.
class Tidy {
public:
    explicit Tidy(const std::string& text) : text_(text) {}

    std::string all() {
        for (at_ = 0; at_ < text_.size(); ++at_) {
            const char c = text_[at_];
            if (c == '"' || (c == '\'' && open_or_apart()))
                pass_string(c);
            else if (c == '#' || text_.compare(at_, 2, "//") == 0)
                blank_until("\n");
            else if (text_.compare(at_, 2, "/*") == 0)
                blank_until("*/");
            else if (c == '\n' || c == ' ' || c == '\t' || c == '\r')
                pass_blank(c);
            else
                take(c);
        }
        return std::move(out_);
    }

private:
    [[nodiscard]] char last() const { return last_ == 0 ? '{' : out_[last_ - 1]; }
    // Where a value can begin; elsewhere an apostrophe is part of a word.
    [[nodiscard]] bool open_or_apart() const {
        return std::string_view("{[,:").find(last()) != std::string_view::npos;
    }

    void pass_blank(char c) {
        out_ += c;
        line_ended_ = line_ended_ || c == '\n';
    }

    void pass_string(char quote) {
        separate();
        out_ += quote;
        for (++at_; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
            out_ += text_[at_];
            if (text_[at_] == quote) break;
            if (text_[at_] == '\\' && at_ + 1 < text_.size()) out_ += text_[++at_];
        }
        last_ = out_.size();
        if (at_ < text_.size() && text_[at_] == '\n') --at_;  // no closing quote
    }

    void blank_until(std::string_view end) {
        const auto found = text_.find(end, at_ + 1);
        const auto stop = found == std::string::npos ? text_.size()
                          : end == "\n"              ? found
                                                     : found + end.size();
        for (; at_ < stop; ++at_) pass_blank(text_[at_] == '\n' ? '\n' : ' ');
        --at_;
    }

    void take(char c) {
        if (c != '}' && c != ']' && c != ',' && c != ':') separate();
        if (c == '{' || c == '[') ++depth_;
        if (c == '}' || c == ']') --depth_;
        out_ += c;
        last_ = out_.size();
        line_ended_ = false;
    }

    // Before what begins on a new line.
    void separate() {
        if (!line_ended_ || last_ == 0) return;
        line_ended_ = false;
        if (depth_ > 0 && !open_or_apart()) out_.insert(last_, ",");
        if (depth_ == 0 && last() == '}') out_.insert(out_.rfind('\n') + 1, "--- ");
    }

    const std::string& text_;
    std::string out_;
    // last_: in what is written, behind the last character that says something
    std::size_t at_ = 0, last_ = 0;
    long depth_ = 0;
    bool line_ended_ = false;
};

}  // namespace

Document read_json(const std::string& text, const std::string& path) {
    return read_yaml(Tidy(text).all(), path);
}

bool is_yaml_name(const std::string& path) {
    return path.ends_with(".yaml") || path.ends_with(".yml");
}

bool is_json(const std::string& text) {
    std::size_t at = 0;
    for (;;) {
        at = text.find_first_not_of(" \t\r\n", at);
        if (at == std::string::npos) return false;
        if (text[at] != '#' && text.compare(at, 2, "//") != 0 && text.compare(at, 2, "/*") != 0)
            return text[at] == '{';
        const bool block = text[at + 1] == '*' && text[at] == '/';
        at = text.find(block ? "*/" : "\n", at);
        if (block && at != std::string::npos) at += 2;
    }
}

Document read_json_or_yaml(const std::string& text, const std::string& path) {
    return is_json(text) ? read_json(text, path) : read_yaml(text, path);
}

}  // namespace stepcast
