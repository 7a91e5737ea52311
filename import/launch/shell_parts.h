// Parts of the reader of shell scripts. Internal to translate/.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "import/launch/shell_launch.h"

namespace stepcast {

// Shell text as commands of words, before expansion. Nothing is executed.
struct ShellWord {
    std::string raw;  // quotes and variables as written; for an array's value with its parentheses
    int line = 0;
};
struct ShellCommand {
    std::vector<ShellWord> words;
    std::vector<ShellWord> documents;  // bodies of its here-documents
    std::string then;       // separator that follows: "\n", ";", "&&", "||", "|", "&", ";;", ")"
    bool exported = false;  // of `export`
};

// Variables of a launch script, and the expansion of words with them. Nothing is executed.
using ShellPieces = std::vector<ShellArgument>;  // elements of an array, or a single text

std::string joined(const ShellPieces& pieces);

class ShellVariables {
public:
    explicit ShellVariables(const std::map<std::string, std::string>& given);

    // Sets the file that later messages and positions name, $BASH_SOURCE. Returns the previous
    // file.
    std::string enter(const std::string& file);
    // A script that another starts has its own $0 and arguments, and sees what is exported. Returns
    // all variables, for end_process.
    using Variables = std::map<std::string, ShellPieces>;
    Variables begin_process(const std::string& file, const ShellPieces& arguments);
    void end_process(Variables before) { variables_ = std::move(before); }
    void export_name(const std::string& name) { exported_.insert(name); }
    // $PWD, where relative names begin: the outermost script's folder, until it changes to another
    // that exists.
    [[nodiscard]] std::string folder() const;
    void change_folder(const std::string& to);
    [[nodiscard]] std::string place(int line) const;

    void assign(const ShellWord& word);
    void set(const std::string& name, ShellPieces value) { variables_[name] = std::move(value); }
    void set_if_unknown(const std::string& name, const std::string& value) {
        variables_.try_emplace(name, ShellPieces{{value, ""}});
    }
    [[nodiscard]] std::string value(const std::string& name) const;  // "" = none
    // Replaces $1, $2, .., $@, $* and $#, and returns the previous ones.
    using Positional = std::map<std::string, ShellPieces>;
    Positional replace_arguments(Positional by);
    static Positional arguments_of(const ShellPieces& words);
    [[nodiscard]] bool knows(const std::string& name) const { return variables_.contains(name); }
    // Pieces of a word: text beside variables is joined to them; several elements of an array stay
    // separate.
    ShellPieces expand(const ShellWord& word);
    std::string text_of(const ShellWord& word);
    // Substitutes $NAME and ${NAME}, and leaves all other text unchanged.
    std::string filled(const ShellWord& document);
    // Variables and substitutions that nothing sets; they are taken as empty.
    [[nodiscard]] const std::vector<std::string>& unknown() const { return unknown_texts_; }

private:
    ShellPieces pieces_of(const ShellWord& word);
    ShellPieces value_of(const std::string& name, int line);
    ShellPieces dollar(const std::string& raw, std::size_t& i, int line);
    ShellPieces parameter(const std::string& inside, int line);
    ShellPieces substituted(const std::string& name, char how, const std::string& text, int line);
    ShellPieces element(const std::string& name, const std::string& key, int line);
    ShellPieces array(const std::string& inside, int line, const std::string& name = "");
    ShellPieces changed(ShellPieces value, const std::string& how, int line);
    std::string changed(std::string text, const std::string& how, int line);
    long operand(std::string_view& text, int line);
    long arithmetic(std::string_view& text, int line, int level);
    std::string sum(std::string_view raw, int line);
    std::optional<std::string> output(const std::string& inside, int line);
    void count(std::size_t bytes, int line);  // ConfigError beyond what launch scripts need

    std::string file_;
    std::map<std::string, ShellPieces> variables_;
    std::set<std::string> given_, exported_;
    std::set<std::string> unsure_;     // variables whose value depends on an unknown one
    bool depends_on_unknown_ = false;  // what has been expanded since this was last reset
    std::set<std::string> unknown_;
    std::vector<std::string> unknown_texts_;
    int depth_ = 0;             // nesting of defaults
    std::size_t expanded_ = 0;  // bytes that expansion has produced so far
};

}  // namespace stepcast
