#include "translate/shell.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/whole_files.h"
#include "translate/shell_words.h"

namespace stepcast {
namespace {

using Pieces = std::vector<ShellArgument>;

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// NAME=.. or NAME+=..: length of the name, 0 = no assignment.
std::size_t assigned_name(const std::string& raw) {
    std::size_t end = 0;
    while (end < raw.size() && is_name(raw[end])) ++end;
    if (end == 0 || std::isdigit(static_cast<unsigned char>(raw[0]))) return 0;
    if (raw.compare(end, 1, "=") == 0 || raw.compare(end, 2, "+=") == 0) return end;
    return 0;
}

class Reader {
public:
    Reader(std::string path, std::map<std::string, std::string> given) : path_(std::move(path)) {
        for (auto& [name, value] : given) variables_[name] = {{value, "--env " + name}};
    }
    void read(const std::string& text, const std::string& path, int depth);
    ShellLaunch launch;

private:
    struct Branch {
        bool taken = false, done = false, outer = true;  // done: an earlier branch was taken
        bool is_case = false, fits = false;
        std::string word;
    };
    [[nodiscard]] bool active() const { return branches_.empty() || (branches_.back().taken && branches_.back().outer); }
    [[nodiscard]] std::string place(int line) const { return fmt::format("{}:{}", file_, line); }

    Pieces value_of(const std::string& name, int line);
    Pieces parameter(const std::string& inside, int line);
    Pieces expand(const ShellWord& word);
    std::string text_of(const ShellWord& word);
    long arithmetic(std::string_view& text, int line, int level);
    std::string sum(std::string_view text, int line);
    Pieces array(const std::string& inside, int line);

    void assign(const ShellWord& word);
    std::optional<bool> test(const std::vector<ShellWord>& words);
    std::optional<bool> one_test(std::vector<std::string> words);
    void keyword(const std::string& first, const std::vector<ShellWord>& words);
    std::optional<bool> simple(const std::vector<ShellWord>& words);
    void run(const ShellCommand& command, int depth);
    void keep_launch(const std::vector<ShellWord>& words);
    void case_pattern(const std::string& raw);

    std::string path_, file_;
    std::map<std::string, Pieces> variables_;
    std::vector<Branch> branches_;
    std::set<std::string> unknown_;
    std::optional<bool> condition_;
    std::string joined_by_;  // what stood between the last two tests of a condition
    bool in_condition_ = false, skip_next_ = false, pattern_next_ = false;
    std::size_t best_ = 0;
};

Pieces Reader::value_of(const std::string& name, int line) {
    if (const auto found = variables_.find(name); found != variables_.end()) return found->second;
    if (unknown_.insert(name).second && name != "@" && name != "*" && name != "#")
        launch.unknown.push_back(fmt::format("{} ({})", name, place(line)));
    return {};
}

std::string joined(const Pieces& pieces) {
    std::string text;
    for (const auto& piece : pieces) text += (text.empty() ? "" : " ") + piece.text;
    return text;
}

// The inside of ${..}.
Pieces Reader::parameter(const std::string& inside, int line) {
    std::size_t end = 0;
    if (!inside.empty() && inside[0] == '#') {
        const auto count = value_of(inside.substr(1, inside.find('[') - 1), line).size();
        return {{std::to_string(count), place(line)}};
    }
    while (end < inside.size() && is_name(inside[end])) ++end;
    if (end == 0 && !inside.empty()) ++end;
    const auto name = inside.substr(0, end);
    auto rest = inside.substr(end);
    if (rest.starts_with("[@]") || rest.starts_with("[*]")) return value_of(name, line);
    if (rest.starts_with('[')) {
        const auto all = value_of(name, line);
        const auto index = static_cast<std::size_t>(std::max(0, std::atoi(rest.c_str() + 1)));
        return index < all.size() ? Pieces{all[index]} : Pieces{};
    }
    if (rest.starts_with(':')) rest.erase(0, 1);
    const auto known = variables_.find(name);
    const bool set = known != variables_.end() && !joined(known->second).empty();
    if (!rest.empty() && (rest[0] == '-' || rest[0] == '=')) {
        if (set) return known->second;
        auto otherwise = expand({rest.substr(1), line});
        if (rest[0] == '=') variables_[name] = otherwise;
        return otherwise;
    }
    if (!rest.empty() && rest[0] == '+') return set ? expand({rest.substr(1), line}) : Pieces{};
    return value_of(name, line);
}

// Pieces of a word: text beside variables is glued, several elements of an array stay apart.
Pieces Reader::expand(const ShellWord& word) {
    const std::string& raw = word.raw;
    Pieces pieces;
    std::string text, at = place(word.line);
    bool any = false, in_double = false;
    const auto glue = [&](const Pieces& values) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (i > 0) {
                pieces.push_back({text, at});
                text.clear();
            }
            if (text.empty()) at = values[i].at;
            text += values[i].text;
            any = true;
        }
    };
    for (std::size_t i = 0; i < raw.size(); ++i) {
        const char c = raw[i];
        if (c == '\'' && !in_double) {
            const auto close = raw.find('\'', i + 1);
            text += raw.substr(i + 1, close == std::string::npos ? close : close - i - 1);
            any = true;
            i = close == std::string::npos ? raw.size() : close;
        } else if (c == '"') {
            in_double = !in_double;
            any = true;
        } else if (c == '\\' && i + 1 < raw.size()) {
            ++i;
            if (raw[i] != '\n') text += raw[i];
        } else if (c == '$' && raw.compare(i, 3, "$((") == 0) {
            const auto close = raw.find("))", i);
            glue({{sum(std::string_view(raw).substr(i + 3, close == std::string::npos ? close : close - i - 3), word.line),
                   place(word.line)}});
            i = close == std::string::npos ? raw.size() : close + 1;
        } else if (c == '$' && i + 1 < raw.size() && (raw[i + 1] == '{' || raw[i + 1] == '(')) {
            const char opens = raw[i + 1], closes = opens == '{' ? '}' : ')';
            int depth = 0;
            std::size_t close = i + 1;
            for (; close < raw.size(); ++close) {
                if (raw[close] == opens) ++depth;
                if (raw[close] == closes && --depth == 0) break;
            }
            const auto inside = raw.substr(i + 2, close - i - 2);
            if (opens == '{')
                glue(parameter(inside, word.line));
            else if (unknown_.insert(inside).second)
                launch.unknown.push_back(fmt::format("$({}) ({})", inside.substr(0, 40), place(word.line)));
            i = close;
        } else if (c == '$' && i + 1 < raw.size() && (is_name(raw[i + 1]) || raw[i + 1] == '@' || raw[i + 1] == '*')) {
            std::size_t end = i + 1;
            if (std::isdigit(static_cast<unsigned char>(raw[end])) || !is_name(raw[end]))
                ++end;
            else
                while (end < raw.size() && is_name(raw[end])) ++end;
            glue(value_of(raw.substr(i + 1, end - i - 1), word.line));
            i = end - 1;
        } else {
            text += c;
            any = true;
        }
    }
    if (any || !text.empty()) pieces.push_back({text, at});
    return pieces;
}

std::string Reader::text_of(const ShellWord& word) { return joined(expand(word)); }

// + and - at level 0, * / % at level 1, names, numbers and brackets at level 2.
long Reader::arithmetic(std::string_view& text, int line, int level) {
    const auto blank = [&] {
        while (!text.empty() && (text[0] == ' ' || text[0] == '$' || text[0] == '{' || text[0] == '}'))
            text.remove_prefix(1);
    };
    blank();
    if (level == 2) {
        if (!text.empty() && text[0] == '(') {
            text.remove_prefix(1);
            const long value = arithmetic(text, line, 0);
            blank();
            if (!text.empty()) text.remove_prefix(1);
            return value;
        }
        if (!text.empty() && text[0] == '-') {
            text.remove_prefix(1);
            return -arithmetic(text, line, 2);
        }
        std::size_t end = 0;
        while (end < text.size() && is_name(text[end])) ++end;
        const std::string word(text.substr(0, end));
        text.remove_prefix(std::max<std::size_t>(end, text.empty() ? 0 : 1));
        const bool digits = !word.empty() && std::isdigit(static_cast<unsigned char>(word[0]));
        return std::atol((digits ? word : joined(value_of(word, line))).c_str());
    }
    long value = arithmetic(text, line, level + 1);
    for (blank(); !text.empty(); blank()) {
        const char sign = text[0];
        if (std::string_view(level == 0 ? "+-" : "*/%").find(sign) == std::string_view::npos) break;
        text.remove_prefix(1);
        const long other = arithmetic(text, line, level + 1);
        if (sign == '+') value += other;
        if (sign == '-') value -= other;
        if (sign == '*') value *= other;
        if ((sign == '/' || sign == '%') && other != 0) value = sign == '/' ? value / other : value % other;
    }
    return value;
}

std::string Reader::sum(std::string_view text, int line) {
    if (text.size() > 500) return "0";
    return std::to_string(arithmetic(text, line, 0));
}

Pieces Reader::array(const std::string& inside, int line) {
    Pieces all;
    for (const ShellCommand& command : shell_commands(inside, path_))
        for (const ShellWord& word : command.words)
            for (auto& piece : expand({word.raw, word.line + line - 1})) all.push_back(std::move(piece));
    return all;
}

void Reader::assign(const ShellWord& word) {
    const auto end = assigned_name(word.raw);
    const auto name = word.raw.substr(0, end);
    const bool more = word.raw[end] == '+';
    const auto raw = word.raw.substr(end + (more ? 2 : 1));
    const bool list = raw.starts_with('(') && raw.ends_with(')');
    Pieces value = list ? array(raw.substr(1, raw.size() - 2), word.line) : expand({raw, word.line});
    auto& held = variables_[name];
    if (!more)
        held = std::move(value);
    else if (list)
        held.insert(held.end(), value.begin(), value.end());
    else
        held = {{joined(held) + joined(value), value.empty() ? "" : value.front().at}};
    if (constexpr std::size_t most = 100'000; held.size() > most)
        throw ConfigError(place(word.line) + ": " + name + " has more than 100000 elements");
}

std::optional<bool> Reader::one_test(std::vector<std::string> w) {
    bool negated = false;
    while (!w.empty() && w[0] == "!") {
        negated = !negated;
        w.erase(w.begin());
    }
    std::optional<bool> result;
    if (w.size() == 1) result = !w[0].empty();
    if (w.size() == 2 && w[0] == "-z") result = w[1].empty();
    if (w.size() == 2 && w[0] == "-n") result = !w[1].empty();
    if (w.size() == 3) {
        const long a = std::atol(w[0].c_str()), b = std::atol(w[2].c_str());
        if (w[1] == "==" || w[1] == "=") result = w[0] == w[2];
        if (w[1] == "!=") result = w[0] != w[2];
        if (w[1] == "-eq") result = a == b;
        if (w[1] == "-ne") result = a != b;
        if (w[1] == "-gt" || w[1] == ">") result = a > b;
        if (w[1] == "-ge") result = a >= b;
        if (w[1] == "-lt" || w[1] == "<") result = a < b;
        if (w[1] == "-le") result = a <= b;
    }
    return result ? std::optional(*result != negated) : std::nullopt;
}

std::optional<bool> Reader::test(const std::vector<ShellWord>& words) {
    std::vector<std::string> texts;
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::string& raw = words[i].raw;
        if (raw == "]]" || raw == "]") break;
        texts.push_back(text_of(words[i]));
    }
    return one_test(std::move(texts));
}

// A word that is matched against the patterns of `case`.
void Reader::case_pattern(const std::string& raw) {
    Branch& b = branches_.back();
    std::string pattern;
    for (const char c : raw)
        if (c != '"' && c != '\'' && c != '(') pattern += c;
    const auto star = pattern.find('*');
    b.fits = b.fits || (star == std::string::npos ? pattern == b.word : b.word.starts_with(pattern.substr(0, star)));
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
        branch.word = words.size() > 1 ? text_of(words[1]) : "";
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
    Pieces all;
    for (const ShellWord& word : words)
        for (const auto& piece : expand(word)) {
            std::size_t at = 0;
            while (at < piece.text.size()) {
                const auto from = piece.text.find_first_not_of(" \t\n\\", at);
                if (from == std::string::npos) break;
                const auto to = std::min(piece.text.find_first_of(" \t\n", from), piece.text.size());
                all.push_back({piece.text.substr(from, to - from), piece.at});
                at = to;
            }
        }
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

void Reader::run(const ShellCommand& command, int depth) {
    std::vector<ShellWord> words = command.words;
    static const std::set<std::string> leading{"then", "do", "{", "time", "exec", "nohup", "export", "local",
                                               "readonly", "declare", "eval", "command"};
    static const std::set<std::string> blocks{"if", "elif", "else", "fi", "case", "esac"};
    while (!words.empty()) {
        const std::string first = words[0].raw;
        if (first == "then") {
            if (!branches_.empty()) {
                if (branches_.back().outer && !condition_)
                    launch.notes.push_back(
                        fmt::format("the branch at {} is not taken: its condition is not known", place(words[0].line)));
                branches_.back().taken = condition_.value_or(false) && !branches_.back().done;
                branches_.back().done = branches_.back().done || branches_.back().taken;
            }
            in_condition_ = false;
        }
        if (pattern_next_ && first != "esac" && (command.then == ")" || command.then == "|")) {
            Branch& b = branches_.back();
            case_pattern(first);
            if (command.then == "|") return;
            b.taken = b.fits && !b.done;
            b.done = b.done || b.fits;
            b.fits = pattern_next_ = false;
            return;
        }
        if (blocks.contains(first)) {
            keyword(first, words);
            if (first == "case") return;
            words.erase(words.begin());
            continue;
        }
        if (first == "for" || first == "while" || first == "until") {
            if (active())
                launch.notes.push_back(fmt::format("the loop at {} is read once, not run", place(words[0].line)));
            return;
        }
        if (first == "done" || first == "}") return;
        if (!leading.contains(first) && !(first.starts_with('-') && first.size() == 2)) break;
        words.erase(words.begin());
    }
    if (command.then == ";;") pattern_next_ = !branches_.empty() && branches_.back().is_case;
    if (words.empty()) return;
    const bool skipped = skip_next_;
    skip_next_ = false;
    if (in_condition_) {
        const auto status = simple(words);
        const bool either = condition_.value_or(false) || status.value_or(false);
        const bool both = condition_.value_or(true) && status.value_or(true);
        const bool known = condition_ && status;
        if (joined_by_ == "||")
            condition_ = either ? std::optional(true) : known ? std::optional(false) : std::nullopt;
        else if (joined_by_ == "&&")
            condition_ = !both ? std::optional(false) : known ? std::optional(true) : std::nullopt;
        else
            condition_ = status;
        joined_by_ = command.then;
        return;
    }
    if (!active() || skipped) {
        skip_next_ = skipped && (command.then == "&&" || command.then == "||");
        return;
    }
    std::size_t i = 0;
    while (i < words.size() && assigned_name(words[i].raw) > 0) assign(words[i++]);
    std::optional<bool> status = true;
    if (i < words.size()) {
        const std::vector<ShellWord> rest(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
        if ((rest[0].raw == "source" || rest[0].raw == ".") && rest.size() > 1 && depth < 5) {
            const auto beside = std::filesystem::path(path_).parent_path() / text_of(rest[1]);
            if (std::error_code none; std::filesystem::is_regular_file(beside, none))
                read(read_text(beside.string(), "a script"), beside.string(), depth + 1);
            else
                launch.notes.push_back(fmt::format("{} is not there: what it sets is not known", beside.string()));
        } else {
            status = simple(rest);
            if (!status) keep_launch(rest);
        }
    }
    skip_next_ = (command.then == "&&" && status != std::optional(true)) ||
                 (command.then == "||" && status != std::optional(false));
}

void Reader::read(const std::string& text, const std::string& path, int depth) {
    const auto before = file_;
    file_ = path;
    for (const ShellCommand& command : shell_commands(text, path)) run(command, depth);
    file_ = before;
}

void read_directives(const std::string& text, ShellLaunch& launch) {
    for (std::size_t at = 0; (at = text.find("#SBATCH ", at)) != std::string::npos;) {
        at += 8;
        const auto line = text.substr(at, text.find('\n', at) - at);
        const auto name = line.find_first_not_of("- "), end = line.find_first_of("= ", name);
        if (name == std::string::npos || end == std::string::npos) continue;
        auto value = line.substr(line.find_first_not_of("= ", end) == std::string::npos
                                     ? line.size()
                                     : line.find_first_not_of("= ", end));
        value = value.substr(0, value.find_first_of(" \t\r"));
        launch.directives[line.substr(name, end - name)] = value;
    }
}

}  // namespace

ShellLaunch read_launch(const std::string& text, const std::string& path,
                        const std::map<std::string, std::string>& given) {
    Reader reader(path, given);
    reader.read(text, path, 0);
    read_directives(text, reader.launch);
    if (reader.launch.arguments.empty())
        throw ConfigError(path + ": launches no training; expected a line with torchrun, python or srun and its flags");
    return std::move(reader.launch);
}

}  // namespace stepcast
