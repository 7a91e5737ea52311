// Variables of a launch script and the words that they make. Nothing is ever run. Internal to translate/.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "translate/shell.h"
#include "translate/shell_words.h"

namespace stepcast {

using ShellPieces = std::vector<ShellArgument>;  // elements of an array, or one

bool is_name(char c);
// NAME=.. or NAME+=..: length of the name, 0 = no assignment.
std::size_t assigned_name(const std::string& raw);
std::string joined(const ShellPieces& pieces);
bool fits_pattern(const std::string& text, const std::string& pattern);  // *, ? and [..] as the shell's

class ShellVariables {
public:
    explicit ShellVariables(const std::map<std::string, std::string>& given);

    // Of what follows: messages and origins name it. Returns the file before.
    std::string enter(const std::string& file);
    [[nodiscard]] std::string place(int line) const;

    void assign(const ShellWord& word);
    void set(const std::string& name, ShellPieces value) { variables_[name] = std::move(value); }
    // $1, $2, .., $@, $* and $#: replaced, those before are returned.
    using Positional = std::map<std::string, ShellPieces>;
    Positional replace_arguments(Positional by);
    static Positional arguments_of(const ShellPieces& words);
    [[nodiscard]] bool knows(const std::string& name) const { return variables_.contains(name); }
    // Pieces of a word: text beside variables is glued, several elements of an array stay apart.
    ShellPieces expand(const ShellWord& word);
    std::string text_of(const ShellWord& word);
    // $NAME and ${NAME} put in, all else left as it stands.
    std::string filled(const ShellWord& document);
    // Variables and substitutions that nothing sets: taken as empty.
    [[nodiscard]] const std::vector<std::string>& unknown() const { return unknown_texts_; }

private:
    ShellPieces pieces_of(const ShellWord& word);
    ShellPieces value_of(const std::string& name, int line);
    ShellPieces parameter(const std::string& inside, int line);
    ShellPieces element(const std::string& name, const std::string& key, int line);
    ShellPieces array(const std::string& inside, int line, const std::string& name = "");
    std::string changed(std::string text, const std::string& how, int line);
    long arithmetic(std::string_view& text, int line, int level);
    std::string sum(std::string_view raw, int line);

    std::string file_;
    std::map<std::string, ShellPieces> variables_;
    std::set<std::string> unknown_;
    std::vector<std::string> unknown_texts_;
    int depth_ = 0;              // of defaults in defaults
    std::size_t expanded_ = 0;  // bytes that words became so far
};

}  // namespace stepcast
