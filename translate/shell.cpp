#include "translate/readers.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/files/whole_files.h"
#include "translate/shell_parts.h"

namespace stepcast {
namespace {

// Pieces at blanks, as an unquoted variable is.
ShellPieces cut(const ShellPieces& pieces) {
    ShellPieces all;
    for (const auto& piece : pieces)
        for (std::size_t at = 0; at < piece.text.size();) {
            const auto from = piece.text.find_first_not_of(" \t\n\\", at);
            if (from == std::string::npos) break;
            const auto to = std::min(piece.text.find_first_of(" \t\n", from), piece.text.size());
            all.push_back({piece.text.substr(from, to - from), piece.at});
            at = to;
        }
    return all;
}

class Reader {
public:
    Reader(std::string path, const std::map<std::string, std::string>& given) : path_(std::move(path)), variables_(given) {}
    void read(const std::string& text, const std::string& path, int depth);
    [[nodiscard]] const std::vector<std::string>& unknown() const { return variables_.unknown(); }
    ShellLaunch launch;

private:
    struct Branch {
        bool taken = false, done = false, outer = true;  // done: an earlier branch was taken
        bool is_case = false, fits = false;
        std::string word;
    };
    [[nodiscard]] bool active() const { return branches_.empty() || (branches_.back().taken && branches_.back().outer); }

    std::optional<bool> test(const std::vector<ShellWord>& words);
    void keyword(const std::string& first, const std::vector<ShellWord>& words);
    std::optional<bool> simple(const std::vector<ShellWord>& words);
    void take_branch(int line);
    bool leading_word(const ShellCommand& command, std::vector<ShellWord>& words);
    void condition(const ShellCommand& command, const std::vector<ShellWord>& words);
    using Commands = std::vector<ShellCommand>;
    static constexpr std::size_t no_block = static_cast<std::size_t>(-1);
    void count_command();
    void run_all(const Commands& commands, int depth);
    std::size_t end_of_block(const Commands& commands, std::size_t at, const std::set<std::string>& opens, std::string_view closes);
    static Commands body_of(const Commands& commands, std::size_t from, std::size_t to, std::size_t words);
    std::size_t define(const Commands& commands, std::size_t at);
    std::size_t loop(const Commands& commands, std::size_t at, int depth);
    void call(const Commands& body, const std::vector<ShellWord>& words, int depth);
    void run(const ShellCommand& command, int depth);
    std::optional<bool> effect(const std::vector<ShellWord>& words, int depth);
    void keep_launch(const std::vector<ShellWord>& words);
    ShellPieces split(const ShellWord& word) {
        return word.raw.find('"') == std::string::npos ? cut(variables_.expand(word)) : variables_.expand(word);
    }
    void case_pattern(const std::string& raw);

    std::string path_;
    ShellVariables variables_;
    std::vector<Branch> branches_;
    std::optional<bool> condition_;
    std::string joined_by_;  // what stood between the last two tests of a condition
    bool in_condition_ = false, skip_next_ = false, pattern_next_ = false;
    std::size_t best_ = 0, read_ = 0, commands_ = 0;
    int nesting_ = 0;
    std::map<std::string, Commands> functions_;
    std::set<std::string> called_;
};

std::optional<bool> Reader::test(const std::vector<ShellWord>& words) {
    std::vector<std::string> texts;
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::string& raw = words[i].raw;
        if (raw == "]]" || raw == "]") break;
        if (raw == "(" || raw == ")") return std::nullopt;
        texts.push_back(variables_.text_of(words[i]));
    }
    return shell_test(std::move(texts));
}

// A word that is matched against the patterns of `case`.
void Reader::case_pattern(const std::string& raw) {
    Branch& b = branches_.back();
    std::string pattern;
    for (const char c : raw)
        if (c != '"' && c != '\'' && c != '(') pattern += c;
    b.fits = b.fits || fits_pattern(b.word, pattern);
}

void Reader::keyword(const std::string& first, const std::vector<ShellWord>& words) {
    const bool was_active = active();
    if (first == "if") {
        branches_.emplace_back().outer = was_active;
        in_condition_ = true;
        joined_by_.clear();
    } else if (first == "elif") {
        in_condition_ = true;
        joined_by_.clear();
        if (!branches_.empty()) branches_.back().taken = false;
    } else if (first == "else") {
        if (!branches_.empty()) branches_.back().taken = !branches_.back().done;
    } else if (first == "case") {
        Branch& branch = branches_.emplace_back();
        branch.outer = was_active;
        branch.is_case = true;
        branch.word = words.size() > 1 ? variables_.text_of(words[1]) : "";
        pattern_next_ = true;
    } else if (!branches_.empty()) {
        branches_.pop_back();  // fi, esac
        pattern_next_ = false;
    }
}

// The status of a command that can be told.
std::optional<bool> Reader::simple(const std::vector<ShellWord>& words) {
    const std::string first = words[0].raw;
    if (first == "!" && words.size() > 1) {
        const auto status = simple({words.begin() + 1, words.end()});
        return status ? std::optional(!*status) : std::nullopt;
    }
    if (first == "[[" || first == "[" || first == "test") return test(words);
    if (first == "true" || first == ":") return true;
    if (first == "false") return false;
    return std::nullopt;
}

void Reader::keep_launch(const std::vector<ShellWord>& words) {
    ShellPieces all;
    for (const ShellWord& word : words)
        for (auto& piece : cut(variables_.expand(word))) all.push_back(std::move(piece));
    const auto flags = static_cast<std::size_t>(
        std::ranges::count_if(all, [](const ShellArgument& a) { return a.text.starts_with("--"); }));
    const bool trains = std::ranges::any_of(all, [](const ShellArgument& a) {
        return a.text.ends_with(".py") || a.text.find("torchrun") != std::string::npos || a.text == "deepspeed" ||
               a.text == "srun";
    });
    if (!trains || flags < best_ || flags == 0) return;
    best_ = flags;
    launch.arguments = std::move(all);
}

// `then`: whether what follows runs.
void Reader::take_branch(int line) {
    if (!branches_.empty()) {
        Branch& b = branches_.back();
        if (b.outer && !condition_)
            launch.notes.push_back(fmt::format("the branch at {} is not taken: its condition is not known", variables_.place(line)));
        b.taken = condition_.value_or(false) && !b.done;
        b.done = b.done || b.taken;
    }
    in_condition_ = false;
}

// Takes away a word that opens, continues or ends a block, or stands before a command; false when the command ends with it.
bool Reader::leading_word(const ShellCommand& command, std::vector<ShellWord>& words) {
    static const std::set<std::string> leading{"then", "do", "{", "time", "exec", "nohup", "export", "local",
                                               "readonly", "declare", "eval", "command"};
    static const std::set<std::string> blocks{"if", "elif", "else", "fi", "case", "esac"};
    const std::string first = words[0].raw;
    if (first == "then") take_branch(words[0].line);
    if (pattern_next_ && first != "esac" && (command.then == ")" || command.then == "|")) {
        Branch& b = branches_.back();
        case_pattern(first);
        words.clear();
        if (command.then == "|") return false;
        b.taken = b.fits && !b.done;
        b.done = b.done || b.fits;
        b.fits = pattern_next_ = false;
        return false;
    }
    if (blocks.contains(first)) {
        keyword(first, words);
        words.erase(words.begin(), first == "case" ? words.end() : words.begin() + 1);
        return first != "case";
    }
    if (first == "while" || first == "until" || first == "for") {
        if (active())
            launch.notes.push_back(fmt::format("the loop at {} is read once, not run", variables_.place(words[0].line)));
        words.clear();
        return false;
    }
    if (first == "done" || first == "}") {
        words.clear();
        return false;
    }
    if (!leading.contains(first) && !(first.starts_with('-') && first.size() == 2)) return false;
    words.erase(words.begin());
    return true;
}

// One test of the condition of an `if`, joined with those before.
void Reader::condition(const ShellCommand& command, const std::vector<ShellWord>& words) {
    const auto status = simple(words);
    const bool either = joined_by_ == "||";
    condition_ = either || joined_by_ == "&&" ? decided(condition_, either, status) : status;
    joined_by_ = command.then;
}

// What a command does to what is known: another file read, a launch kept. Its status, where it can be told.
std::optional<bool> Reader::effect(const std::vector<ShellWord>& words, int depth) {
    if ((words[0].raw == "source" || words[0].raw == ".") && words.size() > 1 && depth < 5) {
        const auto named = std::filesystem::path(path_).parent_path() / variables_.text_of(words[1]);
        if (std::error_code none; std::filesystem::is_regular_file(named, none))
            read(plain_utf8(read_text(named.string(), "a script")), named.string(), depth + 1);
        else
            launch.notes.push_back(fmt::format("{} is not there: what it sets is not known", named.string()));
        return true;
    }
    if (const auto function = functions_.find(words[0].raw); function != functions_.end() && depth < 20) {
        called_.insert(function->first);
        call(Commands(function->second), words, depth + 1);
        return std::nullopt;
    }
    if (words[0].raw == ":")
        for (const ShellWord& word : words) (void)variables_.expand(word);  // : ${TP:=4}
    if (words[0].raw == "shift" && variables_.knows("@")) {
        auto rest = variables_.expand({"$@", words[0].line});
        rest.erase(rest.begin(), rest.begin() + std::min<std::ptrdiff_t>(std::ssize(rest), words.size() > 1 ? std::max(0, std::atoi(words[1].raw.c_str())) : 1));
        variables_.replace_arguments(ShellVariables::arguments_of(rest));
    }
    if (const auto status = simple(words)) return status;
    keep_launch(words);
    static const std::set<std::string> may_fail{"[", "[[", "test", "grep", "egrep", "which", "diff", "cmp", "nvidia-smi"};
    return may_fail.contains(words[0].raw) ? std::nullopt : std::optional(true);
}

void Reader::run(const ShellCommand& command, int depth) {
    std::vector<ShellWord> words = command.words;
    while (!words.empty() && leading_word(command, words)) {}
    if (command.then == ";;") pattern_next_ = !branches_.empty() && branches_.back().is_case;
    if (words.empty()) return;
    const bool skipped = skip_next_;
    skip_next_ = false;
    if (in_condition_) return condition(command, words);
    if (!active() || skipped) {
        skip_next_ = skipped && (command.then == "&&" || command.then == "||");
        return;
    }
    for (const ShellWord& document : command.documents)
        if (document.raw.starts_with("#!") && depth < 5)  // sbatch <<EOF: a script of its own
            read(std::string(static_cast<std::size_t>(document.line - 1), '\n') + variables_.filled(document), path_, depth + 1);
        else if (document.raw.find_first_not_of(" \t\n") == document.raw.find('{') && document.raw.find('{') != std::string::npos)
            launch.documents.push_back({variables_.filled(document), variables_.place(document.line)});
    std::size_t i = 0;
    while (i < words.size() && assigned_name(words[i].raw) > 0) variables_.assign(words[i++]);
    std::optional<bool> status = true;
    if (i < words.size()) status = effect({words.begin() + static_cast<std::ptrdiff_t>(i), words.end()}, depth);
    skip_next_ = (command.then == "&&" && status != std::optional(true)) ||
                 (command.then == "||" && status != std::optional(false));
}

// Of the block whose body begins at `at`: the command whose first word closes it; no_block where it is not closed.
std::size_t Reader::end_of_block(const Commands& commands, std::size_t at, const std::set<std::string>& opens, std::string_view closes) {
    static const std::set<std::string> before{"then", "do", "else", "{", "time", "!"};
    int depth = 1;
    for (; at < commands.size(); ++at) {
        count_command();
        for (const ShellWord& word : commands[at].words) {
            if (opens.contains(word.raw)) ++depth;
            if (word.raw == closes && --depth == 0) return at;
            if (!before.contains(word.raw)) break;
        }
    }
    return no_block;
}

// `NAME() {` or `function NAME {`: its body is kept for calls. The last command of the definition, or no_block.
std::size_t Reader::define(const Commands& commands, std::size_t at) {
    const auto& words = commands[at].words;
    const bool spelt = words.size() > 1 && words[0].raw == "function";
    std::string name = words[spelt ? 1 : 0].raw;
    if (!spelt && !(name.ends_with('(') && words.size() == 1 && commands[at].then == ")")) return no_block;
    if (name.ends_with('(')) name.pop_back();
    const std::size_t brace = spelt && words.size() > 2 ? 2 : 0, open = brace > 0 ? at : at + 1;
    if (open >= commands.size() || commands[open].words.size() <= brace || commands[open].words[brace].raw != "{") return no_block;
    const auto end = end_of_block(commands, open + 1, {"{"}, "}");
    if (end == no_block) return no_block;
    if (active()) functions_[name] = body_of(commands, open, end, brace + 1);
    return end;
}

// Those from `from` to before `to`, the first without so many words.
Reader::Commands Reader::body_of(const Commands& commands, std::size_t from, std::size_t to, std::size_t words) {
    Commands body(commands.begin() + static_cast<std::ptrdiff_t>(from), commands.begin() + static_cast<std::ptrdiff_t>(to));
    body[0].words.erase(body[0].words.begin(), body[0].words.begin() + static_cast<std::ptrdiff_t>(words));
    return body;
}

void Reader::call(const Commands& body, const std::vector<ShellWord>& words, int depth) {
    ShellPieces arguments;
    for (std::size_t i = 1; i < words.size(); ++i)
        for (const auto& piece : split(words[i])) arguments.push_back(piece);
    const auto before = variables_.replace_arguments(ShellVariables::arguments_of(arguments));
    run_all(body, depth);
    variables_.replace_arguments(before);
}

// `for NAME in WORDS; do`: once for each word. The last command of the loop, or no_block.
std::size_t Reader::loop(const Commands& commands, std::size_t at, int depth) {
    const auto& words = commands[at].words;
    if (words[0].raw != "for" || words.size() < 3 || words[2].raw != "in") return no_block;
    if (at + 1 >= commands.size() || commands[at + 1].words.empty() || commands[at + 1].words[0].raw != "do") return no_block;
    const auto end = end_of_block(commands, at + 2, {"for", "while", "until"}, "done");
    if (end == no_block) return no_block;
    const Commands body = body_of(commands, at + 1, end, 1);
    for (std::size_t i = 3; active() && i < words.size(); ++i)
        for (const auto& piece : split(words[i])) {
            variables_.set(words[1].raw, {piece});
            run_all(body, depth);
        }
    return end;
}

void Reader::count_command() {
    constexpr std::size_t most = 1'000'000;  // of loops in loops
    if (++commands_ > most) throw ConfigError(fmt::format("{}: more than {} commands", path_, most));
}

void Reader::run_all(const Commands& commands, int depth) {
    constexpr int deepest = 64;
    if (++nesting_ > deepest) throw ConfigError(fmt::format("{}: loops and functions more than {} deep", path_, deepest));
    for (std::size_t at = 0; at < commands.size(); ++at) {
        count_command();
        const bool empty = commands[at].words.empty();
        auto end = empty ? no_block : define(commands, at);
        if (!empty && end == no_block) end = loop(commands, at, depth);
        if (end == no_block)
            run(commands[at], depth);
        else
            at = end;
    }
    --nesting_;
}

void Reader::read(const std::string& text, const std::string& path, int depth) {
    constexpr std::size_t most = std::size_t{32} << 20;  // of scripts that read each other again and again
    read_ += text.size();
    if (read_ > most) throw ConfigError(fmt::format("{}: more than {} bytes of scripts are read", path, most));
    const auto before = variables_.enter(path);
    run_all(shell_commands(text, path), depth);
    if (depth == 0 && launch.arguments.empty())  // handed to another shell: export -f
        for (const auto& [name, body] : std::map(functions_))
            if (!called_.contains(name)) run_all(body, 1);
    launch.directives.merge(slurm_directives(text));
    variables_.enter(before);
}

}  // namespace

ShellLaunch read_launch(const std::string& text, const std::string& path,
                        const std::map<std::string, std::string>& given) {
    const auto directives = slurm_directives(text);
    auto variables = given;
    add_slurm_variables(directives, variables);
    Reader reader(path, variables);
    reader.read(text, path, 0);
    reader.launch.unknown = reader.unknown();
    if (reader.launch.arguments.empty())
        throw ConfigError(path + ": launches no training; expected a line with torchrun, python or srun and its flags");
    return std::move(reader.launch);
}

}  // namespace stepcast
