#include "cli/manual.h"

#include <array>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "model/errors.h"
#include "model/experiment.h"
#include "model/presets.h"

namespace stepcast {
namespace {

using Verbs = std::vector<const CLI::App*>;

Verbs verbs_of(const CLI::App& app) {
    return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
    return text;
}

// A positional argument by its name, an option by what --help shows behind it.
std::string kind_of(const CLI::Option& option) {
    return option.get_positional() ? option.get_name(true) : option.get_type_name();
}
bool is_flag(const CLI::Option& option) { return !option.get_positional() && option.get_items_expected_max() == 0; }

std::string first_name(const CLI::Option& option) {
    return option.get_lnames().empty() ? option.get_name(true) : "--" + option.get_lnames().front();
}

// What completes a value of this kind.
enum class Completion { files, folders, choices, names };
struct Values {
    Completion by;
    std::string words;  // of choices the words, of names the words of `generate` that list them
};
Values values_of(const CLI::Option& option) {
    const std::string kind = kind_of(option);
    if (kind == "EXPERIMENT" || kind == "NAME") return {Completion::names, "experiments workloads"};
    if (kind == "CLUSTER") return {Completion::names, "clusters"};
    if (kind == "FRAMEWORK") return {Completion::names, "frameworks"};
    if (kind == "MODEL") return {Completion::names, "workloads"};
    if (kind.starts_with("KEY=")) return {Completion::names, "keys"};
    if (kind == "WORD|FILE.csv") return {Completion::files, ""};
    if (kind == "DIR") return {Completion::folders, ""};
    if (kind == "WHAT") return {Completion::choices, "presets keys rows"};
    if (kind.find('|') == std::string::npos) return {Completion::files, ""};
    return {Completion::choices, replaced(kind, "|", " ")};
}

// ---- bash

std::string bash_values(const Values& values) {
    switch (values.by) {
        case Completion::files: return "_stepcast_files";
        case Completion::folders: return "COMPREPLY=($(compgen -d -- \"$word\"))";
        case Completion::choices: return fmt::format("_stepcast_words {}", values.words);
        case Completion::names: return fmt::format("_stepcast_names {}", values.words);
    }
    return "";
}

std::string bash_verb(const CLI::App& verb) {
    std::string options, cases, positional, arguments = "_stepcast_files";
    for (const CLI::Option* option : verb.get_options()) {
        if (option->get_positional()) {
            if (!positional.empty()) cases += fmt::format("        {0},{0}) {1} ;;\n", verb.get_name(), arguments);  // the first of two
            arguments = bash_values(values_of(*option));
            positional = first_name(*option);
            continue;
        }
        options += (options.empty() ? "" : " ") + first_name(*option);
        if (!is_flag(*option)) cases += fmt::format("        {},{}) {} ;;\n", verb.get_name(), first_name(*option), bash_values(values_of(*option)));
    }
    return cases + fmt::format("        {},*)\n            if [[ $word == -* ]]; then _stepcast_words {}; else {}; fi ;;\n", verb.get_name(),
                               options, arguments);
}

constexpr std::string_view bash_frame = R"sh(# bash completion of stepcast, written by `stepcast generate bash`
_stepcast_words() { COMPREPLY=($(compgen -W "$*" -- "$word")); }
_stepcast_files() {
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$word"))
}
# Presets and files; a key goes on behind its "=".
_stepcast_names() {
    local what names=
    for what; do names+=" $("${COMP_WORDS[0]}" generate "$what" 2>/dev/null)"; done
    COMPREPLY=($(compgen -W "$names" -- "$word"))
    if [[ $1 == keys ]]; then compopt -o nospace 2>/dev/null; else COMPREPLY+=($(compgen -f -- "$word")); fi
}
_stepcast() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _stepcast_words @VERBS@ --help --version
        return
    fi
    case $verb,$before in
@CASES@    esac
}
complete -F _stepcast stepcast
)sh";

std::string bash(const CLI::App& app) {
    std::string names, cases;
    for (const CLI::App* verb : verbs_of(app)) {
        names += (names.empty() ? "" : " ") + verb->get_name();
        cases += bash_verb(*verb);
    }
    return replaced(replaced(std::string(bash_frame), "@VERBS@", names), "@CASES@", cases);
}

// ---- zsh

// Inside single quotes, where a colon and brackets mean something to _arguments.
std::string zsh_text(std::string text) {
    for (const std::string_view special : {"\\", "[", "]", ":"}) text = replaced(text, special, "\\" + std::string(special));
    return replaced(text, "'", "'\\''");
}

std::string zsh_values(const Values& values) {
    switch (values.by) {
        case Completion::files: return "_files";
        case Completion::folders: return "_files -/";
        case Completion::choices: return "(" + values.words + ")";
        case Completion::names: return "_stepcast_names " + values.words;
    }
    return "";
}

std::string zsh_verb(const CLI::App& verb) {
    std::string specs;
    for (const CLI::Option* option : verb.get_options()) {
        const std::string value = ":" + zsh_text(kind_of(*option)) + ":" + zsh_values(values_of(*option));
        const std::string text = "[" + zsh_text(option->get_description()) + "]";
        specs += " \\\n            '";
        if (option->get_positional())
            specs += (option->get_items_expected_max() > 1 ? "*" : "") + value;
        else
            specs += (is_flag(*option) ? "" : "*") + first_name(*option) + text + (is_flag(*option) ? "" : value);
        specs += "'";
    }
    return fmt::format("        {}) _arguments{} ;;\n", verb.get_name(), specs);
}

constexpr std::string_view zsh_frame = R"sh(#compdef stepcast
# zsh completion of stepcast, written by `stepcast generate zsh`
# Presets and files; a key goes on behind its "=".
_stepcast_names() {
    local what
    local -a names
    for what in $@; [[ $what == -* ]] || names+=(${(f)"$($stepcast generate $what 2>/dev/null)"})
    if (( ${@[(I)keys]} )); then compadd -S = -q -a names; else compadd -a names; _files; fi
}
_stepcast() {
    local curcontext=$curcontext stepcast=$words[1] state line
    local -a verbs
    verbs=(@VERBS@)
    _arguments -C '(- *)--help[what the verbs are]' '(- *)--version[version, commit, compiler and libraries]' \
        '1:verb:->verb' '*::argument:->arguments'
    case $state in
    verb) _describe verb verbs ;;
    arguments)
        case $line[1] in
@CASES@        esac ;;
    esac
}
if [[ $funcstack[1] == _stepcast ]]; then _stepcast "$@"; else compdef _stepcast stepcast; fi
)sh";

std::string zsh(const CLI::App& app) {
    std::string names, cases;
    for (const CLI::App* verb : verbs_of(app)) {
        names += fmt::format("{}'{}:{}'", names.empty() ? "" : " ", verb->get_name(), zsh_text(verb->get_description()));
        cases += zsh_verb(*verb);
    }
    return replaced(replaced(std::string(zsh_frame), "@VERBS@", names), "@CASES@", cases);
}

// ---- man

std::string roff(std::string text) {
    text = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
    return text.starts_with('.') || text.starts_with('\'') ? "\\&" + text : text;
}

std::string man_option(const CLI::Option& option) {
    std::string name = option.get_positional() ? "\\fI" + roff(option.get_name(true)) + "\\fR" : "\\fB" + roff(first_name(option)) + "\\fR";
    if (!option.get_positional() && !is_flag(option)) name += " \\fI" + roff(kind_of(option)) + "\\fR";
    return ".TP\n" + name + "\n" + roff(option.get_description()) + (option.get_required() ? " (required)" : "") + "\n";
}

std::string man_verb(const CLI::App& verb) {
    std::string page = ".SS stepcast " + roff(verb.get_name()) + "\n" + roff(verb.get_description()) + "\n";
    for (const bool positional : {true, false})
        for (const CLI::Option* option : verb.get_options())
            if (static_cast<bool>(option->get_positional()) == positional && !option->get_description().empty()) page += man_option(*option);
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
Standard output is the result, standard error is progress and warnings; files are written where \fB\-\-out\fR and \fB\-\-trace\fR say.
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
the input can be repaired: a bad file, an impossible split; the message says where, what was found and what is expected
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
    return replaced(replaced(std::string(man_frame), "@PURPOSE@", roff(app.get_description())), "@VERBS@", verbs);
}

std::string lines(const std::vector<std::string>& words) { return fmt::format("{}\n", fmt::join(words, "\n")); }

std::string keys() {
    std::string text;
    for (const KeyDoc& key : key_docs()) text += key.key + "\n";
    return text;
}

}  // namespace

std::string generate(const std::string& what, const CLI::App& app) {
    if (what == "bash") return bash(app);
    if (what == "zsh") return zsh(app);
    if (what == "man") return man(app);
    if (what == "keys") return keys();
    constexpr std::array<std::pair<std::string_view, PresetKind>, 4> presets{{{"experiments", PresetKind::experiment},
                                                                             {"workloads", PresetKind::workload},
                                                                             {"clusters", PresetKind::cluster},
                                                                             {"frameworks", PresetKind::framework}}};
    for (const auto& [name, kind] : presets)
        if (what == name) return lines(preset_names(kind));
    throw ConfigError("generate: \"" + what + "\"; expected bash, zsh, man, experiments, workloads, clusters, frameworks or keys");
}

}  // namespace stepcast
