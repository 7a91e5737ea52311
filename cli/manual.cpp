#include "cli/manual.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/text_search.h"
#include "model/experiment.h"
#include "model/input/presets.h"
#include "reports/table.h"

namespace stepcast {
namespace {

using Verbs = std::vector<const CLI::App*>;

Verbs verbs_of(const CLI::App& app) {
    return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

// A positional argument's name, or what --help shows behind an option.
std::string kind_of(const CLI::Option& option) {
    return option.get_positional() ? option.get_name(true) : option.get_type_name();
}
bool is_flag(const CLI::Option& option) {
    return !option.get_positional() && option.get_items_expected_max() == 0;
}

std::string first_name(const CLI::Option& option) {
    return option.get_lnames().empty() ? option.get_name(true) : "--" + option.get_lnames().front();
}

std::string lines(const std::vector<std::string>& words) {
    return fmt::format("{}\n", joined(words, "\n"));
}

std::string keys() {
    std::string text;
    for (const KeyDoc& key : key_docs()) text += key.key + "\n";
    return text;
}

// ---- completion: the shell asks the program which words may stand in the place of the typed one

// First the kind of the words, then the words, one a line. The shell itself finds files and
// folders; names may also be files; a key continues behind its "="; choices are complete.
std::string values_of(const CLI::Option& option) {
    const std::string kind = kind_of(option);
    const auto names = [](PresetKind preset) { return lines(preset_names(preset)); };
    const std::string planned = names(PresetKind::experiment) + names(PresetKind::workload);
    if (kind == "EXPERIMENT" || kind == "RUN") return "names\n" + planned;
    if (kind == "NAME")
        return "names\n" + planned + names(PresetKind::cluster) + names(PresetKind::framework);
    if (kind == "CLUSTER") return "names\n" + names(PresetKind::cluster);
    if (kind == "FRAMEWORK") return "names\n" + names(PresetKind::framework);
    if (kind == "MODEL") return "names\n" + names(PresetKind::workload);
    if (kind.starts_with("KEY=")) return "keys\n" + keys();
    if (kind == "DIR") return "folders\n";
    if (kind == "WHAT") return "choices\npresets\nkeys\nrows\n";
    if (kind == "WORD|FILE.csv" || !has(kind, '|')) return "files\n";
    return "choices\n" + replaced(kind, "|", "\n") + "\n";
}

// A colon separates a verb or option from its description. The shells put "=" before each typed
// word, so that CLI11 sees no options.
std::string completion(const CLI::App& app, const std::vector<std::string>& typed) {
    const auto word = [&](std::size_t from_end) {
        const std::string said = typed.size() < from_end ? "" : typed[typed.size() - from_end];
        return said.empty() ? said : said.substr(1);
    };
    std::string described = "described\n";
    for (const CLI::App* verb : verbs_of(app)) {
        described += verb->get_name() + ":" + verb->get_description() + "\n";
        if (typed.size() < 2 || word(typed.size()) != verb->get_name()) continue;
        std::string options = "described\n";
        const CLI::Option* argument = nullptr;
        for (const CLI::Option* option : verb->get_options()) {
            if (option->get_positional()) {
                // the first of two only right behind the verb
                if (argument == nullptr || word(2) != verb->get_name()) argument = option;
            } else if (!is_flag(*option) && first_name(*option) == word(2)) {
                return values_of(*option);
            } else {
                options += first_name(*option) + ":" + option->get_description() + "\n";
            }
        }
        if (word(1).starts_with('-')) return options;
        return argument != nullptr ? values_of(*argument) : "files\n";
    }
    return typed.size() > 1 ? "files\n"
                            : described +
                                  "--help:what the verbs are\n--version:version, commit, compiler "
                                  "and libraries\n";
}

constexpr std::string_view bash =
    R"sh(# bash completion of stepcast, written by `stepcast generate bash`
_stepcast() {
    local word=${COMP_WORDS[COMP_CWORD]} kind words typed=("${COMP_WORDS[@]:1:COMP_CWORD}")
    { read -r kind; mapfile -t words; } < <("${COMP_WORDS[0]}" generate words "${typed[@]/#/=}" 2>/dev/null)
    words=("${words[@]%%:*}")
    COMPREPLY=($(compgen -W "${words[*]}" -- "$word"))
    case $kind in
    keys) compopt -o nospace 2>/dev/null ;;
    names) COMPREPLY+=($(compgen -f -- "$word")) ;;
    files)
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$word")) ;;
    folders) COMPREPLY=($(compgen -d -- "$word")) ;;
    esac
}
complete -F _stepcast stepcast
)sh";

constexpr std::string_view zsh = R"sh(#compdef stepcast
# zsh completion of stepcast, written by `stepcast generate zsh`
_stepcast() {
    local -a offered=("${(@f)$($words[1] generate words "${(@)words[2,CURRENT]/#/=}" 2>/dev/null)}")
    local kind=$offered[1]
    shift offered
    case $kind in
    described) _describe word offered ;;
    choices) compadd -a offered ;;
    keys) compadd -S = -q -a offered ;;
    names) compadd -a offered; _files ;;
    files) _files ;;
    folders) _files -/ ;;
    esac
}
if [[ $funcstack[1] == _stepcast ]]; then _stepcast "$@"; else compdef _stepcast stepcast; fi
)sh";

// ---- man

std::string roff(std::string text) {
    text = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
    return text.starts_with('.') || text.starts_with('\'') ? "\\&" + text : text;
}

std::string man_option(const CLI::Option& option) {
    std::string name = option.get_positional() ? "\\fI" + roff(option.get_name(true)) + "\\fR"
                                               : "\\fB" + roff(first_name(option)) + "\\fR";
    if (!option.get_positional() && !is_flag(option))
        name += " \\fI" + roff(kind_of(option)) + "\\fR";
    return ".TP\n" + name + "\n" + roff(option.get_description()) +
           (option.get_required() ? " (required)" : "") + "\n";
}

std::string man_verb(const CLI::App& verb) {
    std::string page =
        ".SS stepcast " + roff(verb.get_name()) + "\n" + roff(verb.get_description()) + "\n";
    for (const bool positional : {true, false})
        for (const CLI::Option* option : verb.get_options())
            if (static_cast<bool>(option->get_positional()) == positional &&
                !option->get_description().empty())
                page += man_option(*option);
    return page;
}

constexpr std::string_view man_frame = R"man(.TH STEPCAST 1 "" "stepcast" "User Commands"
.SH NAME
stepcast \- predict the step time of distributed training, run it, show predicted next to measured
.SH SYNOPSIS
.B stepcast
.I VERB
.RI [ ARGUMENT ...]
.SH DESCRIPTION
@PURPOSE@
Standard output is the result, standard error is progress and warnings; files are written where \fB\-\-out\fR, \fB\-\-trace\fR and \fB\-\-graph\fR say.
.SH VERBS
@VERBS@.SH ENVIRONMENT
.TP
.B STEPCAST_HOME
folder with model/presets, instead of the shipped one
.SH EXIT STATUS
.TP
0
done
.TP
1
the input can be repaired: a bad file, an impossible parallel layout; the message says where, what was found and what is expected
.TP
2
a device or the communication failed
.TP
3
a bug of stepcast
.SH EXAMPLES
.TP
.B stepcast simulate gpt3_175b_a100
predict one step
.TP
.B stepcast sweep gpt3_175b_a100 \-\-vary parallelism=all \-\-top 5
the best five of all splits
)man";

std::string man(const CLI::App& app) {
    std::string verbs;
    for (const CLI::App* verb : verbs_of(app)) verbs += man_verb(*verb);
    return replaced(replaced(std::string(man_frame), "@PURPOSE@", roff(app.get_description())),
                    "@VERBS@", verbs);
}

}  // namespace

std::string generate(const std::string& what, const std::vector<std::string>& typed,
                     const CLI::App& app) {
    if (what == "words") return completion(app, typed);
    if (!typed.empty())
        throw ConfigError("\"" + typed.front() + "\" is no argument of generate " + what);
    if (what == "bash") return std::string(bash);
    if (what == "zsh") return std::string(zsh);
    if (what == "man") return man(app);
    throw ConfigError("generate: \"" + what + "\"; expected bash, zsh, man or words");
}

}  // namespace stepcast
