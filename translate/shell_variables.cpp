#include "translate/shell_variables.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "model/errors.h"

namespace stepcast {

using Pieces = ShellPieces;

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// NAME=.. or NAME+=..: length of the name, 0 = no assignment.
std::size_t assigned_name(const std::string& raw) {
    std::size_t end = 0;
    while (end < raw.size() && is_name(raw[end])) ++end;
    if (end == 0 || std::isdigit(static_cast<unsigned char>(raw[0]))) return 0;
    if (raw.compare(end, 1, "=") == 0 || raw.compare(end, 2, "+=") == 0) return end;
    return 0;
}

std::string joined(const Pieces& pieces) {
    std::string text;
    for (const auto& piece : pieces) text += (text.empty() ? "" : " ") + piece.text;
    return text;
}

ShellVariables::ShellVariables(const std::map<std::string, std::string>& given) {
    for (const auto& [name, value] : given) variables_[name] = {{value, "--env " + name}};
}

std::string ShellVariables::enter(const std::string& file) { return std::exchange(file_, file); }

std::string ShellVariables::place(int line) const { return fmt::format("{}:{}", file_, line); }

Pieces ShellVariables::value_of(const std::string& name, int line) {
    if (const auto found = variables_.find(name); found != variables_.end()) return found->second;
    if (unknown_.insert(name).second && name != "@" && name != "*" && name != "#")
        unknown_texts_.push_back(fmt::format("{} ({})", name, place(line)));
    return {};
}

// The inside of ${..}.
Pieces ShellVariables::parameter(const std::string& inside, int line) {
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

// A script that grows a variable out of itself, or hides defaults in defaults, is no launch script.
Pieces ShellVariables::expand(const ShellWord& word) {
    constexpr int deepest = 32;
    constexpr std::size_t most_text = std::size_t{64} << 20, of_a_piece = 64;
    if (++depth_ > deepest) throw ConfigError(fmt::format("{}: defaults in defaults, more than {} deep", place(word.line), deepest));
    Pieces pieces = pieces_of(word);
    --depth_;
    for (const auto& piece : pieces) expanded_ += piece.text.size() + of_a_piece;
    if (expanded_ > most_text)
        throw ConfigError(fmt::format("{}: the variables become more than {} bytes of text", place(word.line), most_text));
    return pieces;
}

// Pieces of a word: text beside variables is glued, several elements of an array stay apart.
Pieces ShellVariables::pieces_of(const ShellWord& word) {
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
                unknown_texts_.push_back(fmt::format("$({}) ({})", inside.substr(0, 40), place(word.line)));
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

std::string ShellVariables::filled(const ShellWord& document) {
    const std::string& raw = document.raw;
    std::string text;
    for (std::size_t i = 0; i < raw.size(); ++i) {
        const bool braces = raw.compare(i, 2, "${") == 0;
        const std::size_t begin = i + (braces ? 2 : 1);
        std::size_t end = begin;
        while (raw[i] == '$' && end < raw.size() && is_name(raw[end])) ++end;
        if (end == begin || (braces && (end >= raw.size() || raw[end] != '}'))) {
            text += raw[i];
            continue;
        }
        text += joined(value_of(raw.substr(begin, end - begin), document.line));
        i = braces ? end : end - 1;
    }
    return text;
}

std::string ShellVariables::text_of(const ShellWord& word) { return joined(expand(word)); }

namespace {

// As a shell counts: beyond 64 bits from the other end. What is divided by 0 stays.
long wrapped(long a, char sign, long b) {
    const auto x = static_cast<unsigned long>(a), y = static_cast<unsigned long>(b);
    if (sign == '+') return static_cast<long>(x + y);
    if (sign == '-') return static_cast<long>(x - y);
    if (sign == '*') return static_cast<long>(x * y);
    if (b == 0) return a;
    if (b == -1) return sign == '/' ? static_cast<long>(0 - x) : 0;
    return sign == '/' ? a / b : a % b;
}

}  // namespace

// + and - at level 0, * / % at level 1, names, numbers and brackets at level 2.
long ShellVariables::arithmetic(std::string_view& text, int line, int level) {
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
            return wrapped(0, '-', arithmetic(text, line, 2));
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
        value = wrapped(value, sign, other);
    }
    return value;
}

std::string ShellVariables::sum(std::string_view text, int line) {
    if (text.size() > 500) return "0";
    return std::to_string(arithmetic(text, line, 0));
}

Pieces ShellVariables::array(const std::string& inside, int line) {
    Pieces all;
    for (const ShellCommand& command : shell_commands(inside, file_))
        for (const ShellWord& word : command.words)
            for (auto& piece : expand({word.raw, word.line + line - 1})) all.push_back(std::move(piece));
    return all;
}

void ShellVariables::assign(const ShellWord& word) {
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

}  // namespace stepcast
