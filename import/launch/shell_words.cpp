#include "import/launch/shell_words.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "import/launch/shell_parts.h"
#include "import/launch/shell_variables.h"
#include "model/base/errors.h"
#include "model/base/plain_text.h"

namespace stepcast {
namespace {

constexpr std::size_t longest_script = 4 << 20;

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
        throw ConfigError(fmt::format("{}:{}: {} is not closed", path_, line, what));
    }
    void quote(char mark) {
        const int began = line_;
        copy();
        while (here() != mark) {
            if (at_ >= text_.size()) unclosed(mark == '"' ? "a \"" : "a '", began);
            if (mark == '"' && here() == '\\' && at_ + 1 < text_.size()) copy();
            if (mark == '"' && here() == '$' && here(1) == '(') {
                copy();
                brackets('(', ')');
                continue;
            }
            copy();
        }
        copy();
    }
    // Reads from an opening bracket to the one that closes it, and drops comments inside.
    void brackets(char opens, char closes) {
        constexpr int deepest = 32;
        if (++quoted_ > deepest)
            throw ConfigError(fmt::format(
                "{}:{}: brackets in quotes in brackets, more than {} deep", path_, line_, deepest));
        const int began = line_;
        int depth = 0;
        do {
            if (at_ >= text_.size()) unclosed(opens == '(' ? "a (" : "a {", began);
            if (here() == '"' || here() == '\'') {
                quote(here());
                continue;
            }
            if (here() == '#' && opens == '(' && depth == 1 &&
                (text_[at_ - 1] == ' ' || text_[at_ - 1] == '\n' || text_[at_ - 1] == '\t')) {
                while (at_ < text_.size() && here() != '\n') ++at_;
                continue;
            }
            if (here() == '\\' && here(1) == '\n') {
                at_ += 2;
                ++line_;
                word_ += ' ';
                continue;
            }
            if (here() == opens) ++depth;
            if (here() == closes) --depth;
            copy();
        } while (depth > 0);
        --quoted_;
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
    if (c == '\\' && here(1) == '\n') {
        at_ += 2;
        ++line_;
    } else if (c == '\\') {
        copy();
        if (at_ < text_.size()) copy();
    } else if (c == '\n') {
        end_command("\n");
        ++at_;
        ++line_;
        take_bodies();
    } else if (c == ' ' || c == '\t' || c == '\r') {
        end_word();
        ++at_;
    } else if (c == '#' && !open_) {
        while (at_ < text_.size() && here() != '\n') ++at_;
    } else if (c == '"' || c == '\'') {
        quote(c);
    } else if (c == '$' && here(1) == '{') {
        copy();
        brackets('{', '}');
    } else if (c == '$' && here(1) == '(') {
        copy();
        brackets('(', ')');
    } else if (c == '(' && open_ && word_.ends_with('=')) {
        brackets('(', ')');
    } else if (c == '<' && here(1) == '<' && here(2) != '<') {
        end_word();
        skip_document();
    } else if (!open_ && in_test_ && (c == '&' || c == '|' || c == '(' || c == ')')) {
        copy();
        if (c == '&' || c == '|') copy();
        end_word();
    } else if (c == ';' || c == '&' || c == '|') {
        const bool twice = here(1) == c;
        // 2>&1, &> file
        if (c == '&' && !twice && (word_.ends_with('>') || here(1) == '>')) return copy();
        end_command(twice ? std::string(2, c) : std::string(1, c));
        at_ += twice ? 2 : 1;
    } else if (c == '(' || c == ')') {
        if (open_ && c == '(') return copy();
        end_command(std::string(1, c));
        ++at_;
    } else {
        copy();
    }
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
    bool negated = false;
    for (; !w.empty() && w[0] == "!"; w = w.subspan(1)) negated = !negated;
    std::optional<bool> result;
    if (w.size() == 1) result = !w[0].empty();
    if (w.size() == 2 && w[0] == "-z") result = w[1].empty();
    if (w.size() == 2 && w[0] == "-n") result = !w[1].empty();
    if (w.size() == 3) {
        const long a = std::atol(w[0].c_str()), b = std::atol(w[2].c_str());
        if (w[1] == "==" || w[1] == "=") result = fits_pattern(w[0], w[2]);
        if (w[1] == "!=") result = !fits_pattern(w[0], w[2]);
        if (w[1] == "-eq") result = a == b;
        if (w[1] == "-ne") result = a != b;
        if (w[1] == "-gt" || w[1] == ">") result = a > b;
        if (w[1] == "-ge") result = a >= b;
        if (w[1] == "-lt" || w[1] == "<") result = a < b;
        if (w[1] == "-le") result = a <= b;
    }
    return result ? std::optional(*result != negated) : std::nullopt;
}

// ---- what it asks Slurm for

namespace {

// Options of one line: "--nodes=4 -n 32 -G8  # in all".
void read_options(const std::string& line, std::map<std::string, std::string>& found) {
    static const std::map<std::string, std::string> longer{
        {"N", "nodes"}, {"n", "ntasks"}, {"G", "gpus"}};
    std::string key;
    const auto name = [&](const std::string& option) {
        const auto known = longer.find(option);
        key = known != longer.end() ? known->second : option;
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
        if (const auto at = directives.find(directive); at != directives.end())
            variables.try_emplace(variable, at->second);
    const auto gres = directives.find("gres");  // gpu:8, gpu:h100:8
    if (gres != directives.end() && gres->second.starts_with("gpu"))
        variables.try_emplace("SLURM_GPUS_ON_NODE",
                              gres->second.substr(gres->second.rfind(':') + 1));
}

}  // namespace stepcast
