// What a reader of shell scripts is made of. Internal to translate/.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "translate/readers.h"

namespace stepcast {

// Shell text as commands of words, before any expansion. Nothing is ever run.
struct ShellWord {
    std::string raw;  // quotes and variables as written; an array's value with its parentheses
    int line = 0;
};
struct ShellCommand {
    std::vector<ShellWord> words;
    std::vector<ShellWord> documents;  // bodies of its here-documents
    std::string then;  // what stands behind it: "\n", ";", "&&", "||", "|", "&", ";;", ")"
};

// Throws ConfigError with the line where a quote or bracket is not closed.
std::vector<ShellCommand> shell_commands(const std::string& text, const std::string& path);

// Variables of a launch script and the words that they make. Nothing is ever run.
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
    // Pieces of a word: text next to variables is glued, several elements of an array stay apart.
    ShellPieces expand(const ShellWord& word);
    std::string text_of(const ShellWord& word);
    // $NAME and ${NAME} put in, all else left as it stands.
    std::string filled(const ShellWord& document);
    // Variables and substitutions that nothing sets: taken as empty.
    [[nodiscard]] const std::vector<std::string>& unknown() const { return unknown_texts_; }

private:
    ShellPieces pieces_of(const ShellWord& word);
    ShellPieces value_of(const std::string& name, int line);
    ShellPieces dollar(const std::string& raw, std::size_t& i, int line);
    ShellPieces parameter(const std::string& inside, int line);
    ShellPieces element(const std::string& name, const std::string& key, int line);
    ShellPieces array(const std::string& inside, int line, const std::string& name = "");
    std::string changed(std::string text, const std::string& how, int line);
    long arithmetic(std::string_view& text, int line, int level);
    std::string sum(std::string_view raw, int line);
    void count(std::size_t bytes, int line);  // ConfigError beyond what launch scripts take

    std::string file_;
    std::map<std::string, ShellPieces> variables_;
    std::set<std::string> unknown_;
    std::vector<std::string> unknown_texts_;
    int depth_ = 0;              // of defaults in defaults
    std::size_t expanded_ = 0;  // bytes that words became so far
};

// What stands between the brackets of `[ .. ]` and `[[ .. ]]`, its variables filled in: one string, -z and -n, comparisons of
// texts (patterns on the right) and of numbers, joined by && and ||, with ! before. Nothing where it asks for what a reader of
// the script cannot know, such as a file.
std::optional<bool> shell_test(std::span<const std::string> words);
// a || b where `either`, else a && b, as far as those that are known decide it.
std::optional<bool> decided(std::optional<bool> a, bool either, std::optional<bool> b);

// What a batch script asks Slurm for, by long name: "#SBATCH --nodes=4", "#SBATCH -N 4" at the beginning of a line; tasks of a
// node where they follow.
std::map<std::string, std::string> slurm_directives(const std::string& text);
// What Slurm tells the job of it: SLURM_NNODES and its like, where they are not there yet.
void add_slurm_variables(const std::map<std::string, std::string>& directives, std::map<std::string, std::string>& variables);

}  // namespace stepcast
