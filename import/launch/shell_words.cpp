#include "import/launch/shell_words.h"

#include <algorithm>
#include <sstream>

#include "import/launch/shell_parts.h"
#include "import/launch/shell_variables.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

constexpr std::size_t longest_script = 4 << 20;

bool is_one_of(char c, std::string_view these) { return has(these, c); }

class Splitter {
public:
    Splitter(const std::string& text, const std::string& path) : text_(text), path_(path) {}

    std::vector<ShellCommand> all() {
        while (at_ < text_.size()) step();
        end_command("\n");
        return std::move(commands_);
    }

private:
    [[nodiscard]] char here(std::size_t ahead = 0) const {
        return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
    }
    void copy() {
        if (word_.empty()) word_line_ = line_;
        if (here() == '\n') ++line_;
        word_ += text_[at_++];
        open_ = true;
    }
    void end_word() {
        if (word_ == "[[" || word_ == "]]") in_test_ = word_ == "[[";
        if (open_) command_.words.push_back({word_, word_line_});
        word_.clear();
        open_ = false;
    }
    void end_command(const std::string& then) {
        end_word();
        if (!command_.words.empty() || then == ";;") {
            command_.then = then;
            commands_.push_back(std::move(command_));
        }
        command_ = {};
        in_test_ = false;
    }
    [[noreturn]] void unclosed(const char* what, int line) const {
        refuse("{}:{}: {} is not closed", path_, line, what);
    }
    void quote(char mark) {
        const int began = line_;
        copy();
        while (here() != mark) {
            if (at_ >= text_.size())
                unclosed(mark == '"' ? "a \"" : mark == '`' ? "a `" : "a '", began);
            if (mark == '"' && here() == '\\' && at_ + 1 < text_.size()) copy();
            if (mark == '"' && here() == '$' && here(1) == '(') {
                copy();
                brackets();
                continue;
            }
            copy();
        }
        copy();
    }
    // Reads from an opening bracket to the one that closes it, and drops comments inside.
    void brackets() {
        constexpr int deepest = 32;
        if (++quoted_ > deepest)
            refuse("{}:{}: brackets in quotes in brackets, more than {} deep", path_, line_,
                   deepest);
        const char opens = here(), closes = opens == '(' ? ')' : '}';
        const int began = line_;
        int depth = 0;
        do {
            if (at_ >= text_.size()) unclosed(opens == '(' ? "a (" : "a {", began);
            if (is_one_of(here(), "\"'")) {
                quote(here());
            } else if (opens == '(' && depth == 1 && here() == '#' &&
                       is_one_of(text_[at_ - 1], " \n\t")) {
                skip_comment();
            } else if (take_continuation()) {
                word_ += ' ';
            } else {
                depth += here() == opens ? 1 : here() == closes ? -1 : 0;
                copy();
            }
        } while (depth > 0);
        --quoted_;
    }
    void skip_comment() {
        while (at_ < text_.size() && here() != '\n') ++at_;
    }
    // a line end behind a backslash
    bool take_continuation() {
        if (here() != '\\' || here(1) != '\n') return false;
        at_ += 2;
        ++line_;
        return true;
    }
    void skip_document() {
        at_ += 2;
        if (here() == '-') ++at_;
        while (here() == ' ') ++at_;
        std::string end;
        while (at_ < text_.size() && std::string(" \t\n;|&>").find(here()) == std::string::npos) {
            if (here() != '"' && here() != '\'' && here() != '\\') end += here();
            ++at_;
        }
        documents_.push_back(end);
    }
    // The bodies of here-documents follow the line that names them.
    void take_bodies() {
        for (const std::string& end : documents_) {
            ShellWord body{"", line_};
            while (at_ < text_.size()) {
                const auto stop = std::min(text_.find('\n', at_), text_.size());
                auto line = text_.substr(at_, stop - at_);
                at_ = std::min(stop + 1, text_.size());
                ++line_;
                line.erase(0, line.find_first_not_of('\t'));
                if (line == end) break;
                body.raw += line + "\n";
            }
            if (!commands_.empty()) commands_.back().documents.push_back(std::move(body));
        }
        documents_.clear();
    }
    void step();
    void separate(char sign);
    // at the & of 2>&1 and of &> file
    [[nodiscard]] bool redirects() const {
        return word_.ends_with('>') ? here(1) != '&' : here(1) == '>';
    }

    const std::string& text_;
    const std::string& path_;
    std::vector<ShellCommand> commands_;
    ShellCommand command_;
    std::vector<std::string> documents_;
    std::string word_;
    std::size_t at_ = 0;
    int line_ = 1, word_line_ = 1;
    int quoted_ = 0;  // nesting of brackets in quotes in brackets
    // inside a word; between [[ and ]], where && and brackets join tests, not commands
    bool open_ = false, in_test_ = false;
};

void Splitter::step() {
    const char c = here();
    if (take_continuation()) return;
    if (c == '\\') {
        copy();
        if (at_ < text_.size()) copy();
    } else if (c == '\n') {
        end_command("\n");
        ++at_;
        ++line_;
        take_bodies();
    } else if (is_one_of(c, " \t\r")) {
        end_word();
        ++at_;
    } else if (c == '#' && !open_) {
        skip_comment();
    } else if (is_one_of(c, "\"'`")) {
        quote(c);
    } else if (c == '$' && is_one_of(here(1), "{(")) {
        copy();
        brackets();
    } else if (c == '<' && here(1) == '<' && here(2) != '<') {
        end_word();
        skip_document();
    } else if (is_one_of(c, ";&|()")) {
        separate(c);
    } else {
        copy();
    }
}

// At a sign between commands, which inside a test or a word is none.
void Splitter::separate(char sign) {
    const bool bracket = is_one_of(sign, "()"), twice = !bracket && here(1) == sign;
    if (sign == '(' && open_ && word_.ends_with('=')) return brackets();
    if (in_test_ && !open_ && sign != ';') {
        copy();
        if (!bracket) copy();
        return end_word();
    }
    if ((sign == '&' && redirects()) || (sign == '(' && open_)) return copy();
    end_command(std::string(twice ? 2 : 1, sign));
    at_ += twice ? 2 : 1;
}

}  // namespace

std::vector<ShellCommand> shell_commands(const std::string& text, const std::string& path) {
    if (text.size() > longest_script)
        throw ConfigError(path + ": longer than 4 MiB; expected a launch script");
    return Splitter(text, path).all();
}

std::vector<ShellWord> without_redirections(const std::vector<ShellWord>& words) {
    std::vector<ShellWord> kept;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string_view rest = words[i].raw;
        rest.remove_prefix(std::min(rest.find_first_not_of("0123456789"), rest.size()));
        if (rest.starts_with("&>")) rest.remove_prefix(1);
        if (!rest.starts_with('>') && !rest.starts_with('<')) kept.push_back(words[i]);
        // the next word is the file
        else if (rest.find_first_not_of("<>&|") == std::string_view::npos)
            ++i;
    }
    return kept;
}

// ---- tests of [ .. ] and [[ .. ]]

std::optional<bool> decided(std::optional<bool> a, bool either, std::optional<bool> b) {
    if (a == std::optional(either) || b == std::optional(either)) return either;
    return a && b ? std::optional(!either) : std::nullopt;
}

namespace {

// "A = B" and "A -lt B"; nothing for another sign.
std::optional<bool> compared(const std::string& a, const std::string& sign, const std::string& b) {
    const long x = std::atol(a.c_str()), y = std::atol(b.c_str());
    const bool fits = fits_pattern(a, b);
    const std::map<std::string_view, bool> results{{"==", fits},    {"=", fits},     {"!=", !fits},
                                                   {"-eq", x == y}, {"-ne", x != y}, {"-gt", x > y},
                                                   {">", x > y},    {"-ge", x >= y}, {"-lt", x < y},
                                                   {"<", x < y},    {"-le", x <= y}};
    const auto found = value_in(results, sign);
    return found ? std::optional(*found) : std::nullopt;
}

// A test without !, && and ||.
std::optional<bool> single_test(std::span<const std::string> w) {
    if (w.size() == 1) return !w[0].empty();
    if (w.size() == 2 && w[0] == "-z") return w[1].empty();
    if (w.size() == 2 && w[0] == "-n") return !w[1].empty();
    return w.size() == 3 ? compared(w[0], w[1], w[2]) : std::nullopt;
}

}  // namespace

std::optional<bool> shell_test(std::span<const std::string> w) {
    for (const char* join : {"||", "&&"}) {
        auto end = std::ranges::find(w, join);
        if (end == w.end()) continue;
        auto holds = shell_test({w.begin(), end});
        while (end != w.end()) {
            const auto begin = end + 1;
            end = std::find(begin, w.end(), join);
            holds = decided(holds, join[0] == '|', shell_test({begin, end}));
        }
        return holds;
    }
    bool holds = true;
    for (; !w.empty() && w[0] == "!"; w = w.subspan(1)) holds = !holds;
    const auto result = single_test(w);
    return result ? std::optional(*result == holds) : std::nullopt;
}

// ---- what it asks Slurm for

namespace {

// Options of one line: "--nodes=4 -n 32 -G8  # in all".
void read_options(const std::string& line, std::map<std::string, std::string>& found) {
    static const std::map<std::string, std::string> longer{
        {"N", "nodes"}, {"n", "ntasks"}, {"G", "gpus"}};
    std::string key;
    const auto name = [&](const std::string& option) {
        const auto known = value_in(longer, option);
        key = known ? *known : option;
    };
    for (const std::string& word : words_of(line, " \t\r")) {
        if (word.starts_with('#')) return;
        const auto dashes = word.find_first_not_of('-'), equals = word.find('=');
        if (dashes == std::string::npos) continue;
        if (dashes == 0) {
            if (!key.empty()) found[key] = word;
            key.clear();
        } else if (dashes == 1 && word.size() > 2 && equals == std::string::npos) {
            name(word.substr(1, 1));
            found[key] = word.substr(2);
            key.clear();
        } else {
            name(word.substr(dashes, equals - dashes));
            if (equals == std::string::npos) continue;
            found[key] = word.substr(equals + 1);
            key.clear();
        }
    }
}

}  // namespace

std::map<std::string, std::string> slurm_directives(const std::string& text) {
    std::map<std::string, std::string> found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("#SBATCH")) read_options(line.substr(7), found);
    const long nodes = std::atol(found["nodes"].c_str()),
               tasks = std::atol(found["ntasks"].c_str());
    if (nodes > 0 && tasks > 0 && tasks % nodes == 0)
        found.try_emplace("ntasks-per-node", std::to_string(tasks / nodes));
    std::erase_if(found, [](const auto& directive) { return directive.second.empty(); });
    return found;
}

void add_slurm_variables(const std::map<std::string, std::string>& directives,
                         std::map<std::string, std::string>& variables) {
    for (const auto& [directive, variable] : {std::pair{"nodes", "SLURM_NNODES"},
                                              {"nodes", "SLURM_JOB_NUM_NODES"},
                                              {"ntasks", "SLURM_NTASKS"},
                                              {"ntasks-per-node", "SLURM_NTASKS_PER_NODE"},
                                              {"gpus-per-node", "SLURM_GPUS_PER_NODE"},
                                              {"gpus-per-node", "SLURM_GPUS_ON_NODE"}})
        if (const auto at = value_in(directives, directive)) variables.try_emplace(variable, *at);
    const auto gres = value_in(directives, "gres");  // gpu:8, gpu:h100:8
    if (gres && gres->starts_with("gpu"))
        variables.try_emplace("SLURM_GPUS_ON_NODE", gres->substr(gres->rfind(':') + 1));
}

}  // namespace stepcast
