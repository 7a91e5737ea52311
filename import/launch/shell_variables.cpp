#include "import/launch/shell_variables.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fnmatch.h>

#include "import/launch/shell_parts.h"
#include "import/launch/shell_words.h"
#include "model/base/characters.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"

namespace stepcast {

using Pieces = ShellPieces;

std::size_t assigned_name(const std::string& raw) {
    std::size_t end = 0;
    while (end < raw.size() && is_name_character(raw[end])) ++end;
    if (end == 0 || is_digit(raw[0])) return 0;
    // NAME[KEY]=
    if (raw.compare(end, 1, "[") == 0) end = std::min(raw.find(']', end), raw.size() - 1) + 1;
    if (raw.compare(end, 1, "=") == 0 || raw.compare(end, 2, "+=") == 0) return end;
    return 0;
}

std::string joined(const Pieces& pieces) {
    std::string text;
    for (const auto& piece : pieces) text += (text.empty() ? "" : " ") + piece.text;
    return text;
}

namespace fs = std::filesystem;

ShellVariables::ShellVariables(const std::map<std::string, std::string>& given) {
    for (const auto& [name, value] : given) variables_[name] = {{value, "--env " + name}};
    for (const auto& [name, value] : given) given_.insert(name);
    exported_ = given_;
}

namespace {

std::string folder_of(const std::string& file) {
    const auto parent = fs::path(file).parent_path().string();
    return parent.empty() ? "." : parent;
}

std::string under(const std::string& folder, const std::string& name) {
    return (fs::path(folder) / name).lexically_normal().string();
}

}  // namespace

std::string ShellVariables::enter(const std::string& file) {
    if (file_.empty()) {
        set_if_unknown("PWD", folder_of(file));
        set_if_unknown("0", file);
    }
    variables_["BASH_SOURCE"] = {{file, ""}};
    return std::exchange(file_, file);
}

ShellVariables::Variables ShellVariables::begin_process(const std::string& file,
                                                        const ShellPieces& arguments) {
    Variables before = variables_;
    std::erase_if(variables_, [&](const auto& variable) {
        return variable.first != "PWD" && !exported_.contains(variable.first);
    });
    variables_.merge(arguments_of(arguments));
    variables_["0"] = {{file, ""}};
    return before;
}

std::string ShellVariables::value(const std::string& name) const {
    const auto found = value_in(variables_, name);
    return found ? joined(*found) : "";
}

std::string ShellVariables::folder() const { return value("PWD"); }

void ShellVariables::change_folder(const std::string& to) {
    const auto folder = under(value("PWD"), to);
    if (std::error_code none; fs::is_directory(folder, none)) variables_["PWD"] = {{folder, ""}};
}

namespace {

// What a command prints that runs in a folder; nothing of others.
std::optional<std::string> printed_by(const std::string& command,
                                      const std::vector<std::string>& words,
                                      const std::string& folder) {
    const fs::path first = words.empty() ? "" : words[0];
    if (command == "pwd") return folder;
    if (command == "dirname") return folder_of(first);
    if (command == "realpath" || command == "readlink")
        return first.is_absolute() || first.has_parent_path() ? first.string()
                                                              : under(folder, first);
    if (command != "basename") return std::nullopt;
    std::string name = first.filename();
    if (words.size() > 1 && name.ends_with(words[1])) name.resize(name.size() - words[1].size());
    return name;
}

}  // namespace

// What pwd, dirname, basename, realpath, readlink -f, echo and expr print, with cd before them; a
// comment alone prints nothing. Other commands are not run.
std::optional<std::string> ShellVariables::output(const std::string& inside, int line) {
    constexpr std::size_t longest = 1000;
    if (inside.size() > longest || inside.find_first_of("|<") != std::string::npos)
        return std::nullopt;
    const auto commands = shell_commands(inside, file_);
    std::optional<std::string> printed;
    if (commands.empty()) printed = "";
    std::string folder = value("PWD");
    for (const ShellCommand& command : commands) {
        const auto words = without_redirections(command.words);
        if (words.empty()) continue;
        const bool sums = words[0].raw == "expr";
        std::vector<std::string> texts;
        for (auto word = words.begin() + 1; word != words.end(); ++word)
            if (sums || !word->raw.starts_with('-'))
                texts.push_back(text_of({word->raw, line + word->line - 1}));
        if (words[0].raw == "cd")
            folder = under(folder, texts.empty() ? "" : texts[0]);
        else if (sums)
            printed = sum(joined(texts, " "), line);
        else if (!(printed = printed_by(words[0].raw, texts, folder)))
            return std::nullopt;
    }
    return printed;
}

std::string ShellVariables::place(int line) const { return fmt::format("{}:{}", file_, line); }

Pieces ShellVariables::value_of(const std::string& name, int line) {
    depends_on_unknown_ = depends_on_unknown_ || unsure_.contains(name);
    if (const auto found = value_in(variables_, name)) return *found;
    depends_on_unknown_ = true;
    if (unknown_.insert(name).second && name != "@" && name != "*" && name != "#")
        unknown_texts_.push_back(fmt::format("{} ({})", name, place(line)));
    return {};
}

// Expands the inside of ${..}.
Pieces ShellVariables::parameter(const std::string& inside, int line) {
    if (inside.starts_with('#')) {
        const auto of = inside.substr(1, inside.find('[') - 1);
        const auto count = value_of(of, line).size();
        return unsure_.contains(of) ? Pieces{} : Pieces{{std::to_string(count), place(line)}};
    }
    std::size_t end = 0;
    while (end < inside.size() && is_name_character(inside[end])) ++end;
    if (end == 0 && !inside.empty()) ++end;
    const auto name = inside.substr(0, end);
    auto rest = inside.substr(end);
    if (rest.starts_with("[@]") || rest.starts_with("[*]")) return value_of(name, line);
    if (rest.starts_with('[')) {
        const auto end_of_key = rest.rfind(']');
        const auto key = text_of({rest.substr(1, end_of_key - 1), line});
        return changed(element(name, key, line),
                       rest.substr(std::min(end_of_key, rest.size() - 1) + 1), line);
    }
    if (rest.starts_with(':')) rest.erase(0, 1);
    if (rest.find_first_of("-=+") == 0) return substituted(name, rest[0], rest.substr(1), line);
    return changed(value_of(name, line), rest, line);
}

// ${NAME-TEXT} and ${NAME=TEXT}: the text where nothing is set; ${NAME+TEXT}: where something is.
Pieces ShellVariables::substituted(const std::string& name, char how, const std::string& text,
                                   int line) {
    const auto known = value_in(variables_, name);
    const bool set = known && std::ranges::any_of(*known, [](const ShellArgument& piece) {
                         return !piece.text.empty();
                     });
    if (how == '+') return set ? expand({text, line}) : Pieces{};
    if (set) return *known;
    auto otherwise = expand({text, line});
    if (how == '=') variables_[name] = otherwise;
    return otherwise;
}

namespace {

constexpr std::size_t most_text = std::size_t{16} << 20;

}  // namespace

void ShellVariables::count(std::size_t bytes, int line) {
    expanded_ += bytes;
    if (expanded_ > most_text)
        refuse("{}: the variables become more than {} bytes of text", place(line), most_text);
}

// Refuses deep nesting and growth: scripts that expand a variable out of itself are no launch
// scripts.
Pieces ShellVariables::expand(const ShellWord& word) {
    constexpr int deepest = 32;
    constexpr std::size_t of_a_piece = 8;
    if (++depth_ > deepest)
        refuse("{}: defaults in defaults, more than {} deep", place(word.line), deepest);
    Pieces pieces = pieces_of(word);
    --depth_;
    for (const auto& piece : pieces) count(piece.text.size() + of_a_piece, word.line);
    return pieces;
}

namespace {

// Position of the bracket that closes the one at `open`, or the end.
std::size_t closing(const std::string& raw, std::size_t open) {
    const char opens = raw[open], closes = opens == '{' ? '}' : ')';
    int depth = 0;
    for (std::size_t at = open; at < raw.size(); ++at) {
        if (raw[at] == opens) ++depth;
        if (raw[at] == closes && --depth == 0) return at;
    }
    return raw.size();
}

// ${x#A} and ${x##A} remove the shortest or longest matching prefix, ${x%A} and ${x%%A} such a
// suffix.
std::string without_fit(const std::string& text, const std::string& pattern, bool end,
                        bool longest) {
    for (std::size_t i = 0; i <= text.size(); ++i) {
        const std::size_t cut = longest ? text.size() - i : i;
        const auto part = end ? text.substr(text.size() - cut) : text.substr(0, cut);
        if (fits_pattern(part, pattern))
            return end ? text.substr(0, text.size() - cut) : text.substr(cut);
    }
    return text;
}

// Stops early when the result exceeds what expand() accepts.
std::string replaced(const std::string& text, const std::string& what, const std::string& by,
                     bool all) {
    std::string result;
    std::size_t from = 0;
    for (auto at = text.find(what);
         !what.empty() && at != std::string::npos && result.size() <= most_text;
         at = text.find(what, from)) {
        result.append(text, from, at - from) += by;
        from = at + what.size();
        if (!all) break;
    }
    return result.append(text, from);
}

}  // namespace

bool fits_pattern(const std::string& text, const std::string& pattern) {
    return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

// Applies what follows the name in ${NAME..} to a value that is a single text.
Pieces ShellVariables::changed(Pieces value, const std::string& how, int line) {
    if (!how.empty() && value.size() == 1) value[0].text = changed(value[0].text, how, line);
    return value;
}

std::string ShellVariables::changed(std::string text, const std::string& how, int line) {
    const bool twice = how.size() > 1 && how[1] == how[0];
    const auto rest = text_of({how.substr(twice ? 2 : 1), line});
    // all parts are compared with the pattern
    if (how[0] == '#' || how[0] == '%') count(text.size() * text.size() / 2, line);
    if (how[0] == '#' || how[0] == '%') return without_fit(text, rest, how[0] == '%', twice);
    if (how[0] == '/') {
        const auto slash = std::min(rest.find('/'), rest.size());
        return replaced(text, rest.substr(0, slash), rest.substr(std::min(slash + 1, rest.size())),
                        twice);
    }
    if (how[0] == '^' || how[0] == ',') {
        const auto end = twice ? text.end() : text.begin() + (text.empty() ? 0 : 1);
        std::transform(text.begin(), end, text.begin(), [&](unsigned char c) {
            return static_cast<char>(how[0] == '^' ? std::toupper(c) : std::tolower(c));
        });
        return text;
    }
    if (!is_digit(how[0])) return text;
    // ${x:FROM:COUNT}
    const auto from = std::min(as_index(std::atol(how.c_str())), text.size());
    const auto colon = how.find(':');
    return text.substr(from, colon == std::string::npos
                                 ? colon
                                 : as_index(std::max(0L, std::atol(how.c_str() + colon + 1))));
}

// ${NAME[KEY]}: an element of an associative array by key, or of a list by index.
Pieces ShellVariables::element(const std::string& name, const std::string& key, int line) {
    if (const auto found = value_in(variables_, name + "[" + key + "]")) return *found;
    const auto all = value_of(name, line);
    const long at = std::atol(sum(key, line).c_str()),
               index = at < 0 ? at + static_cast<long>(all.size()) : at;
    return index >= 0 && index < static_cast<long>(all.size()) ? Pieces{all[as_index(index)]}
                                                               : Pieces{};
}

// Expands the `$` at raw[i] and moves i to its last character. Commands are not run and expand to
// nothing.
Pieces ShellVariables::dollar(const std::string& raw, std::size_t& i, int line) {
    const std::size_t begin = i;
    if (raw.compare(begin, 3, "$((") == 0) {
        i = closing(raw, begin + 1);
        return {{sum(std::string_view(raw).substr(begin + 3, i - std::min(i, begin + 4)), line),
                 place(line)}};
    }
    if (raw[begin + 1] == '{' || raw[begin + 1] == '(') {
        i = closing(raw, begin + 1);
        const auto inside = raw.substr(begin + 2, i - begin - 2);
        if (raw[begin + 1] == '{') return parameter(inside, line);
        if (inside.starts_with("echo ") && inside.find_first_of("|;&<>") == std::string::npos)
            return {{joined(array(inside.substr(5), line)), place(line)}};
        if (const auto printed = output(inside, line))
            return printed->empty() ? Pieces{} : Pieces{{*printed, place(line)}};
        depends_on_unknown_ = true;
        if (unknown_.insert(inside).second)
            unknown_texts_.push_back(fmt::format("$({}) ({})", inside.substr(0, 40), place(line)));
        return {};
    }
    std::size_t end = begin + 2;  // for $1 and $@; names are longer
    if (is_name_character(raw[begin + 1]) && !is_digit(raw[begin + 1]))
        while (end < raw.size() && is_name_character(raw[end])) ++end;
    i = end - 1;
    return value_of(raw.substr(begin + 1, end - begin - 1), line);
}

namespace {

// Pieces of a word as they are put together; `at`: where the text of the last one stands.
struct PieceBuilder {
    std::string at = {}, text = {};
    bool any = false;  // also where it is empty, as ""
    Pieces pieces = {};

    // The first value joins the text before it.
    void add(const Pieces& values) {
        for (const std::size_t i : indices_of(values)) {
            if (i > 0) pieces.push_back({std::exchange(text, ""), at});
            if (text.empty()) at = values[i].at;
            text += values[i].text;
            any = true;
        }
    }
    void add(std::string_view plain) {
        text += plain;
        any = true;
    }
    Pieces all() {
        if (any || !text.empty()) pieces.push_back({text, at});
        return std::move(pieces);
    }
};

bool is_expanded(const std::string& raw, std::size_t at) {
    const char next = at + 1 < raw.size() ? raw[at + 1] : ' ';
    return raw[at] == '$' && (is_name_character(next) ||
                              std::string_view("@*#{(").find(next) != std::string_view::npos);
}

}  // namespace

Pieces ShellVariables::pieces_of(const ShellWord& word) {
    const std::string& raw = word.raw;
    if (raw == "\"$@\"") return value_of("@", word.line);
    PieceBuilder built{place(word.line)};
    bool in_double = false;
    for (std::size_t i = 0; i < raw.size(); ++i) {
        const char c = raw[i];
        const auto close = c == '`' || c == '\'' ? raw.find(c, i + 1) : std::string::npos;
        if (is_expanded(raw, i)) {
            built.add(dollar(raw, i, word.line));
        } else if (c == '`' && close != std::string::npos) {
            std::size_t end = 0;
            const auto printed =
                joined(dollar("$(" + raw.substr(i + 1, close - i - 1) + ")", end, word.line));
            if (!printed.empty()) built.add(printed);
            i = close;
        } else if (c == '\'' && !in_double) {
            built.add(raw.substr(i + 1, close - i - 1));
            i = std::min(close, raw.size());
        } else if (c == '\\' && i + 1 < raw.size()) {
            if (raw[++i] != '\n') built.text += raw[i];
        } else if (c == '"') {
            in_double = !in_double;
            built.any = true;
        } else {
            built.add(std::string_view(&raw[i], 1));
        }
    }
    return built.all();
}

std::string ShellVariables::filled(const ShellWord& document) {
    const std::string& raw = document.raw;
    std::string text;
    for (std::size_t i = 0; i < raw.size(); ++i) {
        const bool braces = raw.compare(i, 2, "${") == 0;
        const std::size_t begin = i + (braces ? 2 : 1);
        std::size_t end = begin;
        while (raw[i] == '$' && end < raw.size() && is_name_character(raw[end])) ++end;
        if (end == begin || (braces && (end >= raw.size() || raw[end] != '}'))) {
            text += raw[i];
            continue;
        }
        const std::string value = joined(value_of(raw.substr(begin, end - begin), document.line));
        count(value.size(), document.line);
        text += value;
        i = braces ? end : end - 1;
    }
    return text;
}

ShellVariables::Positional ShellVariables::arguments_of(const ShellPieces& words) {
    Positional numbered{{"@", words}, {"*", words}, {"#", {{std::to_string(words.size()), ""}}}};
    for (const std::size_t i : indices_of(words)) numbered[std::to_string(i + 1)] = {words[i]};
    return numbered;
}

ShellVariables::Positional ShellVariables::replace_arguments(Positional by) {
    Positional before;
    for (auto at = variables_.begin();
         at != variables_.end() && !is_letter(at->first[0]) && at->first[0] != '_';) {
        const auto next = std::next(at);
        if (at->first != "0") before.insert(variables_.extract(at));
        at = next;
    }
    variables_.merge(by);
    return before;
}

std::string ShellVariables::text_of(const ShellWord& word) { return joined(expand(word)); }

namespace {

// As in a shell 64-bit integers wrap around. A division by 0 returns the dividend.
long negated(long a) { return static_cast<long>(-static_cast<unsigned long>(a)); }
long quotient(long a, long b) { return b == 0 ? a : b == -1 ? negated(a) : a / b; }
long remainder_of(long a, long b) { return b == 0 ? a : b == -1 ? 0 : a % b; }

struct Operator {
    std::string_view sign;
    std::function<long(long, long)> apply;
};

// Lowest precedence first.
const std::vector<std::vector<Operator>> operators{
    {{"||", std::logical_or<>()}},
    {{"&&", std::logical_and<>()}},
    {{"==", std::equal_to<>()}, {"!=", std::not_equal_to<>()}},
    {{"<=", std::less_equal<>()},
     {">=", std::greater_equal<>()},
     {"<", std::less<>()},
     {">", std::greater<>()}},
    {{"+", std::plus<unsigned long>()}, {"-", std::minus<unsigned long>()}},
    {{"*", std::multiplies<unsigned long>()}, {"/", quotient}, {"%", remainder_of}}};

// Blanks, then this text.
bool take(std::string_view& text, std::string_view what) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
    if (!text.starts_with(what)) return false;
    text.remove_prefix(what.size());
    return true;
}

}  // namespace

// A name, a number or a bracket, behind signs of its own.
long ShellVariables::operand(std::string_view& text, int line) {
    if (take(text, "(")) {
        const long value = arithmetic(text, line, -1);
        take(text, ")");
        return value;
    }
    if (take(text, "-")) return negated(operand(text, line));
    if (take(text, "!")) return operand(text, line) == 0;
    std::size_t end = 0;
    while (end < text.size() && is_name_character(text[end])) ++end;
    const std::string word(text.substr(0, end));
    text.remove_prefix(end);
    const bool digits = !word.empty() && is_digit(word[0]);
    return word.empty() ? 0 : std::atol((digits ? word : joined(value_of(word, line))).c_str());
}

// Evaluates the beginning of the text and removes it: a choice (? :) at level -1, then operators,
// then operands.
long ShellVariables::arithmetic(std::string_view& text, int line, int level) {
    if (level == std::ssize(operators)) return operand(text, line);
    long value = arithmetic(text, line, level + 1);
    if (level < 0) {
        if (!take(text, "?")) return value;
        const long yes = arithmetic(text, line, -1);
        take(text, ":");
        const long no = arithmetic(text, line, -1);
        return value != 0 ? yes : no;
    }
    const auto& here = operators[as_index(level)];
    for (;;) {
        const auto found = first_where(here, [&](const Operator& o) { return take(text, o.sign); });
        if (!found) return value;
        value = found->apply(value, arithmetic(text, line, level + 1));
    }
}

// Empty, and reported as unknown, if it is no arithmetic that this reader supports.
std::string ShellVariables::sum(std::string_view raw, int line) {
    constexpr std::size_t longest = 500;  // each operator is a recursive call
    const bool before = std::exchange(depends_on_unknown_, false);
    const auto whole = text_of({std::string(raw), line});
    if (std::string_view text = whole; whole.size() <= longest) {
        const long value = arithmetic(text, line, -1);
        if (depends_on_unknown_) return "";  // no number, which the shell would make of nothing
        depends_on_unknown_ = before;
        if (text.find_first_not_of(" \t\n") == std::string_view::npos) return std::to_string(value);
    }
    depends_on_unknown_ = true;
    if (unknown_.insert(whole).second)
        unknown_texts_.push_back(fmt::format("$(({})) ({})", raw.substr(0, 40), place(line)));
    return "";
}

Pieces ShellVariables::array(const std::string& inside, int line, const std::string& name) {
    Pieces all;
    for (const ShellCommand& command : shell_commands(inside, file_))
        for (const ShellWord& word : command.words) {
            const auto key = word.raw.starts_with('[') ? word.raw.find("]=") : std::string::npos;
            const int at = word.line + line - 1;
            auto pieces =
                expand({key == std::string::npos ? word.raw : word.raw.substr(key + 2), at});
            if (key != std::string::npos && !name.empty())
                variables_[name + "[" + text_of({word.raw.substr(1, key - 1), at}) + "]"] = pieces;
            for (auto& piece : pieces) all.push_back(std::move(piece));
        }
    return all;
}

namespace {

// NAME+=(..) adds elements, NAME+=.. text.
void append_pieces(Pieces& held, const Pieces& more, bool list) {
    if (list) {
        append(held, more);
        return;
    }
    if (held.size() != 1) held = {{joined(held), ""}};
    held[0].text += joined(more);
    held[0].at = more.empty() ? "" : more.front().at;
}

}  // namespace

void ShellVariables::assign(const ShellWord& word) {
    const auto end = assigned_name(word.raw);
    auto name = word.raw.substr(0, end);
    if (const auto open = name.find('['); open != std::string::npos)
        name = name.substr(0, open + 1) +
               text_of({name.substr(open + 1, name.size() - open - 2), word.line}) + "]";
    const bool more = word.raw[end] == '+';
    const auto raw = word.raw.substr(end + (more ? 2 : 1));
    const bool list = raw.starts_with('(') && raw.ends_with(')');
    const bool before = std::exchange(depends_on_unknown_, false);
    const auto known = unknown_texts_.size();
    Pieces value =
        list ? array(raw.substr(1, raw.size() - 2), word.line, name) : expand({raw, word.line});
    const bool unsure = std::exchange(depends_on_unknown_, before);
    if (unsure && given_.contains(name)) {  // the caller says what a command would
        unknown_texts_.resize(known);
        return;
    }
    for (auto text = known; text < unknown_texts_.size(); ++text)
        if (unknown_texts_[text].starts_with("$("))
            unknown_texts_[text] = name + " = " + unknown_texts_[text];
    if (unsure)
        unsure_.insert(name);
    else if (!more)
        unsure_.erase(name);
    auto& held = variables_[name];
    if (more)
        append_pieces(held, value, list);
    else
        held = std::move(value);
    if (constexpr std::size_t most = 100'000; held.size() > most)
        throw ConfigError(place(word.line) + ": " + name + " has more than 100000 elements");
}

}  // namespace stepcast
