#include "import/launch/shell.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "import/launch/launch_lines.h"
#include "import/launch/shell_launch.h"
#include "import/launch/shell_parts.h"
#include "import/launch/shell_variables.h"
#include "import/launch/shell_words.h"
#include "import/launch/tool_files.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/base/whole_files.h"

namespace stepcast {
namespace {

// Splits at blanks, like an unquoted variable.
ShellPieces cut(const ShellPieces& pieces) {
    ShellPieces all;
    for (const auto& piece : pieces)
        for (const std::string& word : words_of(piece.text, " \t\n"))
            if (const auto from = word.find_first_not_of('\\'); from != std::string::npos)
                all.push_back({word.substr(from), piece.at});
    return all;
}

bool has_name(const std::string& path, std::string_view name) {
    return std::filesystem::path(path).filename() == name;
}

// An override of a recipe or of Hydra: "trainer.devices=8".
bool is_override(const std::string& text) {
    const auto equals = text.find('='), dot = text.find('.');
    return equals != std::string::npos && dot < equals && text[0] != '-' && text.find('/') > equals;
}

// A script by its name.
bool is_script(const std::string& text) {
    return std::ranges::any_of(std::array{".sh", ".sbatch", ".slurm", ".bash"},
                               [&](const char* end) { return text.ends_with(end); });
}

// Programs that train, or that start what does.
bool trains(const ShellArgument& word) {
    static const std::set<std::string> programs{"deepspeed", "srun", "nemo"};
    return word.text.ends_with(".py") || has(word.text, "torchrun") || programs.contains(word.text);
}

// Programs that start the script that they are given.
bool starts_scripts(const std::string& text) {
    static const std::set<std::string> names{
        "bash",   "sh",   "zsh",     "sbatch",    "srun",        "mpirun", "mpiexec", "nohup",
        "setsid", "env",  "numactl", "apptainer", "singularity", "docker", "podman",  "salloc",
        "jsrun",  "bsub", "qsub",    "flux",      "time",        "exec"};
    return names.contains(std::filesystem::path(text).filename().string()) || is_script(text);
}

using Commands = std::vector<ShellCommand>;

std::string first_word(const Commands& commands, std::size_t at) {
    return at >= commands.size() || commands[at].words.empty() ? "" : commands[at].words[0].raw;
}

// Makes a separate command of every word that opens, continues or closes a block, and drops words
// that only precede a command.
Commands split_blocks(Commands commands) {
    static const std::map<std::string, std::ptrdiff_t> blocks{{"if", 1},
                                                              {"then", 1},
                                                              {"elif", 1},
                                                              {"else", 1},
                                                              {"fi", 1},
                                                              {"do", 1},
                                                              {"done", 1},
                                                              {"esac", 1},
                                                              {"{", 1},
                                                              {"}", 1},
                                                              // case WORD in, function NAME
                                                              {"case", 3},
                                                              {"function", 2}};
    static const std::set<std::string> left_out{"time",     "exec",    "nohup", "export", "local",
                                                "readonly", "declare", "eval",  "command"};
    Commands all;
    for (ShellCommand& command : commands) {
        auto& words = command.words;
        auto begin = words.begin();
        while (words.end() - begin > 1) {
            const std::string& first = begin->raw;
            const auto block = value_in(blocks, first);
            const auto own = block ? *block : 0;
            const bool is_left_out =
                left_out.contains(first) || (first.starts_with('-') && first.size() == 2);
            if (own >= words.end() - begin || (own == 0 && !is_left_out)) break;
            if (own > 0) all.push_back({{begin, begin + own}, {}, ""});
            command.exported = command.exported || first == "export" || first == "-x";
            begin += std::max<std::ptrdiff_t>(own, 1);
        }
        words.erase(words.begin(), begin);
        all.push_back(std::move(command));
    }
    return all;
}

// True for `NAME() {` and `function NAME {`.
bool is_definition(const Commands& commands, std::size_t at) {
    const auto& words = commands[at].words;
    const bool spelt = words.size() == 2 && words[0].raw == "function",
               plain = words.size() == 1 && words[0].raw.ends_with('(') && commands[at].then == ")";
    return (spelt || plain) && first_word(commands, at + 1) == "{";
}

// True for `set -a` and `set -o allexport`.
bool sets_allexport(const std::vector<ShellWord>& words) {
    return words.size() > 1 && words[0].raw == "set" &&
           (words.back().raw == "allexport" || (words[1].raw[0] == '-' && has(words[1].raw, 'a')));
}

// Walks through a script like a shell. Code that a shell would skip is also walked, to find its
// end, but has no effect.
class ShellReader {
public:
    ShellReader(std::string path, const std::map<std::string, std::string>& given)
        : path_(std::move(path)), variables_(given) {}
    [[nodiscard]] const std::vector<std::string>& unknown() const { return variables_.unknown(); }
    // The command with most flags that starts no program that is known; "" = none.
    [[nodiscard]] const std::string& passed_over() const { return passed_over_; }
    ShellLaunch launch;

    void read(const std::string& text, const std::string& path) {
        // bounds scripts that read each other repeatedly
        constexpr std::size_t most = std::size_t{32} << 20;
        read_ += text.size();
        if (read_ > most) refuse("{}: more than {} bytes of scripts are read", path, most);
        const auto before = variables_.enter(path);
        const bool outermost = depth_++ == 0;
        run(split_blocks(shell_commands(text, path)), 0, {});
        // functions handed to another shell by export -f
        if (outermost && launch.arguments.empty())
            for (const auto& [name, body] : std::map(functions_))
                if (!called_.contains(name)) run(body, 0, {});
        --depth_;
        launch.directives.merge(slurm_directives(text));
        variables_.enter(before);
    }

private:
    // The status of a command if it can be determined; evaluates the text inside [ .. ].
    std::optional<bool> status(const std::vector<ShellWord>& words) {
        const auto command = std::find_if(words.begin(), words.end() - 1,
                                          [](const ShellWord& word) { return word.raw != "!"; });
        const bool holds = (command - words.begin()) % 2 == 0;  // each ! negates
        const std::string& first = command->raw;
        if (first == "true" || first == ":") return holds;
        if (first == "false") return !holds;
        if (first != "[[" && first != "[" && first != "test") return std::nullopt;
        std::vector<std::string> texts;
        for (auto word = command + 1; word != words.end() && word->raw != "]]" && word->raw != "]";
             ++word) {
            if (word->raw == "(" || word->raw == ")") return std::nullopt;
            texts.push_back(variables_.text_of(*word));
        }
        const auto told = shell_test(texts);
        return told ? std::optional(*told == holds) : std::nullopt;
    }

    void keep_launch(const std::vector<ShellWord>& words) {
        ShellPieces all;
        for (const ShellWord& word : without_redirections(words))
            for (auto& piece : cut(variables_.expand(word))) all.push_back(std::move(piece));
        const auto flags = as_index(std::ranges::count_if(all, [](const ShellArgument& a) {
            return a.text.starts_with("--") || is_override(a.text);
        }));
        // all of the run may stand in a file
        const bool whole = tool_started(all) || std::ranges::any_of(all, is_titan_script);
        if (!whole && std::ranges::none_of(all, trains)) {
            if (flags <= passed_) return;
            passed_ = flags;
            passed_over_ = fmt::format("{} ({})", all.front().text, all.front().at);
            return;
        }
        if (flags == 0 && !whole) return;
        keep_environment();
        const auto same = [](const ShellArgument& a, const ShellArgument& b) {
            return a.text == b.text;
        };
        if (best_ > 0 && all.front().at == launch.arguments.front().at &&
            !std::ranges::equal(all, launch.arguments, same))
            add_once(launch.notes, fmt::format("the training command at {} runs several times: one "
                                               "is forecast, the one with most flags or the last",
                                               all.front().at));
        if (best_ > 0 && all.front().at != launch.arguments.front().at)
            add_line(launch.notes,
                     "training commands at {} and {}: one is forecast, the one with most "
                     "flags or the last",
                     launch.arguments.front().at, all.front().at);
        if (flags < best_) return;
        best_ = flags;
        launch.arguments = std::move(all);
    }

    void keep_environment() {
        for (const char* name : {"CONFIG_FILE", "NGPU", "MODULE", "CONFIG", "TRAIN_FILE", "NNODES",
                                 "NPROC_PER_NODE", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"})
            if (const auto value = variables_.value(name); !value.empty())
                launch.environment[name] = value;
    }

    // Splits the arguments of a call like a shell.
    ShellPieces split(const std::vector<ShellWord>& words, std::size_t from) {
        ShellPieces all;
        for (std::size_t i = from; i < words.size(); ++i) {
            const auto pieces = variables_.expand(words[i]);
            for (const auto& piece : !has(words[i].raw, '"') ? cut(pieces) : pieces)
                all.push_back(piece);
        }
        return all;
    }

    // Evaluates the tests from `at` to `then`, joined by && and ||.
    std::optional<bool> condition(const Commands& commands, std::size_t& at) {
        std::optional<bool> holds;
        std::string joined_by;
        for (; at < commands.size() && first_word(commands, at) != "then"; ++at) {
            const std::string first = first_word(commands, at);
            if (!active_ || first.empty() || first == "{" || first == "}") continue;
            const bool either = joined_by == "||";
            const auto told = status(commands[at].words);
            holds = either || joined_by == "&&" ? decided(holds, either, told) : told;
            joined_by = commands[at].then;
        }
        if (active_ && !holds && at < commands.size())
            add_line(launch.notes, "the branch at {} is not taken: its condition is not known",
                     variables_.place(commands[at].words[0].line));
        return holds;
    }

    std::size_t choose(const Commands& commands, std::size_t at) {
        bool done = false;
        while (at < commands.size() && first_word(commands, at) != "fi") {
            const bool holds =
                first_word(commands, at) == "else" || condition(commands, at).value_or(false);
            at = run_where(holds && !done, commands, at + 1, {"elif", "else", "fi"});
            done = done || holds;
        }
        return at;
    }

    // `case WORD in`, then patterns separated by | and ended by ), each with its commands up to
    // `;;`.
    std::size_t choose_case(const Commands& commands, std::size_t at) {
        const auto& head = commands[at].words;
        const std::string word = active_ && head.size() > 1 ? variables_.text_of(head[1]) : "";
        bool fits = false, done = false;
        for (++at; at < commands.size() && first_word(commands, at) != "esac";) {
            const ShellCommand& pattern = commands[at++];
            if (pattern.words.empty() || (pattern.then != ")" && pattern.then != "|")) continue;
            std::string plain = pattern.words[0].raw;
            std::erase_if(plain, [](char c) { return c == '"' || c == '\'' || c == '('; });
            fits = fits || fits_pattern(word, plain);
            if (pattern.then == "|") continue;
            at = run_where(fits && !done, commands, at, {"esac", ";;"});
            done = done || std::exchange(fits, false);
        }
        return at;
    }

    // `for NAME in WORDS; do` runs once per word. How often other loops run is unknown.
    std::size_t loop(const Commands& commands, std::size_t at) {
        const auto& words = commands[at].words;
        const bool over_words = words.size() > 2 && words[0].raw == "for" && words[2].raw == "in";
        ShellPieces values{{}};
        if (over_words)
            values = active_ ? split(words, 3) : ShellPieces{};
        else if (active_)
            add_line(launch.notes, "the loop at {} is read once, not run",
                     variables_.place(words[0].line));
        const std::size_t body = run(commands, at + 1, {"do"}) + 1;
        std::size_t end = values.empty() ? run_where(false, commands, body, {"done"}) : body;
        for (const auto& value : values) {
            if (over_words) variables_.set(words[1].raw, {value});
            end = run(commands, body, {"done"});
        }
        return end;
    }

    // `NAME() {` or `function NAME {`: stores the body for calls.
    std::size_t define(const Commands& commands, std::size_t at) {
        std::string name = commands[at].words.back().raw;
        if (name.ends_with('(')) name.pop_back();
        const std::size_t end = run_where(false, commands, at + 2, {"}"});
        const auto place = [&](std::size_t i) {
            return commands.begin() + static_cast<std::ptrdiff_t>(i);
        };
        if (active_) functions_[name] = {place(at + 2), place(end)};
        return end;
    }

    void call(const Commands& body, const std::vector<ShellWord>& words) {
        const auto before =
            variables_.replace_arguments(ShellVariables::arguments_of(split(words, 1)));
        ++depth_;
        run(body, 0, {});
        --depth_;
        variables_.replace_arguments(before);
    }

    // The file that a script names: from where it runs, beside itself, from where the program runs,
    // or in a folder above it, as names begin at the root of a repository. A folder that is not
    // known is left out. "" = there is none.
    std::string found(const std::string& name) const {
        namespace fs = std::filesystem;
        const auto here = fs::path(variables_.folder());
        std::vector<fs::path> names{name};
        if (const auto rest = fs::path(name).lexically_relative(here);
            !rest.empty() && *rest.begin() != "..")
            names.push_back(rest);
        // "$ROOT/run.sh" without $ROOT
        if (name.starts_with('/')) names.push_back(fs::path(name).relative_path());
        std::vector<fs::path> folders{here, fs::path(path_of_file()).parent_path(), fs::path()};
        std::error_code none;
        constexpr int levels = 4;
        auto above = fs::absolute(here, none).lexically_normal();
        for (int level = 0; level < levels; ++level) folders.push_back(above = above.parent_path());
        for (const auto& each : names)
            for (const auto& folder : folders)
                if (const auto file = (folder / each).lexically_normal();
                    fs::is_regular_file(file, none))
                    return file.string();
        return "";
    }
    [[nodiscard]] std::string path_of_file() const { return variables_.value("BASH_SOURCE"); }

    void source(const std::vector<ShellWord>& words) {
        const auto name = variables_.text_of(words[1]);
        const auto file = found(name);
        if (file.empty()) {
            add_line(launch.notes, "{} ({}) is not there: what it sets is not known", name,
                     variables_.place(words[1].line));
            launch.missing_files.push_back(launch.notes.back());
            return;
        }
        const bool with_arguments = words.size() > 2;
        ShellVariables::Positional before;
        if (with_arguments)
            before = variables_.replace_arguments(ShellVariables::arguments_of(split(words, 2)));
        read(plain_utf8(read_text(file, "a script")), file);
        if (with_arguments) variables_.replace_arguments(before);
    }

    // Options of sbatch and srun before the script, as directives: "--nodes=4", "--nodes 4", "-N4".
    static std::map<std::string, std::string> options_of(std::span<const ShellArgument> words) {
        std::string text = "#SBATCH";
        for (const ShellArgument& word : words) text += " " + word.text;
        return slurm_directives(text);
    }

    // bash FILE, sbatch FILE, srun .. bash FILE, ./FILE: reads the script that is started, which
    // sees what is exported. False if the command starts none.
    bool start(const std::vector<ShellWord>& words) {
        const std::string& raw = words[0].raw;
        if (!starts_scripts(raw.find_first_of("$\"'`") == std::string::npos
                                ? raw
                                : variables_.text_of(words[0])))
            return false;
        const ShellPieces all = split(without_redirections(words), 0);
        const auto program = [](const ShellArgument& word) {
            return word.text.ends_with(".py") || word.text == "-c";
        };
        const auto name = std::ranges::find_if(
            all, [](const ShellArgument& word) { return is_script(word.text); });
        const auto python = std::ranges::find_if(all, program);
        if (name == all.end() || python < name || has_name(name->text, "torchrun")) return false;
        const auto file = found(name->text);
        if (file.empty()) {
            if (is_titan_script(*name)) return false;
            add_line(launch.notes, "{} ({}) is not there: what it launches is not known",
                     name->text, name->at);
            launch.missing_files.push_back(launch.notes.back());
            return python == all.end();
        }
        auto text = plain_utf8(read_text(file, "a script"));
        const bool of_slurm = std::ranges::any_of(
            std::array{"sbatch", "srun", "salloc"},
            [&](const char* starter) { return has_name(all.front().text, starter); });
        auto options =
            of_slurm ? options_of({all.begin(), name}) : std::map<std::string, std::string>();
        for (const auto& [directive, value] : options)
            launch.directives.insert_or_assign(directive, value);
        options.merge(slurm_directives(text));
        const auto before = variables_.begin_process(file, {name + 1, all.end()});
        std::map<std::string, std::string> asked;
        add_slurm_variables(options, asked);
        for (const auto& [variable, value] : asked) variables_.set_if_unknown(variable, value);
        const auto functions = std::exchange(functions_, {});
        read(text, file);
        functions_ = functions;
        variables_.end_process(before);
        return true;
    }

    void apply_builtin(const std::vector<ShellWord>& words) {
        const std::string& name = words[0].raw;
        if (name == "cd" && words.size() > 1)
            variables_.change_folder(variables_.text_of(words.back()));
        if (name == ":")  // as : ${TP:=4}
            for (const ShellWord& word : words) (void)variables_.expand(word);
        if (name == "shift" && variables_.knows("@")) shift(words);
    }

    void shift(const std::vector<ShellWord>& words) {
        auto rest = variables_.expand({"$@", words[0].line});
        const int by = words.size() > 1 ? std::max(0, std::atoi(words[1].raw.c_str())) : 1;
        rest.erase(rest.begin(), rest.begin() + std::min<std::ptrdiff_t>(std::ssize(rest), by));
        variables_.replace_arguments(ShellVariables::arguments_of(rest));
    }

    static constexpr int deepest_file = 5, deepest_call = 20;

    // Applies a command's effect on the reader's state (reads another file, records a launch) and
    // returns its status if known.
    std::optional<bool> effect(const std::vector<ShellWord>& words) {
        static const std::set<std::string> may_fail{"[",     "[[",   "test", "grep",      "egrep",
                                                    "which", "diff", "cmp",  "nvidia-smi"};
        const std::string first = words[0].raw;
        const auto function = value_in(functions_, first);
        const bool called = function;
        if (depth_ <= deepest_file) {
            if ((first == "source" || first == ".") && words.size() > 1) {
                source(words);
                return true;
            }
            if (!called && start(words)) return true;
        }
        if (called && depth_ <= deepest_call) {
            called_.insert(first);
            call(Commands(*function), words);
            return std::nullopt;
        }
        apply_builtin(words);
        if (const auto told = status(words)) return told;
        keep_launch(words);
        return may_fail.contains(first) ? std::nullopt : std::optional(true);
    }

    // A here-document that is a script (sbatch <<EOF) is read like another script; one with JSON is
    // stored.
    void documents(const ShellCommand& command) {
        for (const ShellWord& document : command.documents)
            if (document.raw.starts_with("#!") && depth_ <= deepest_file)
                read(std::string(as_index(document.line - 1), '\n') + variables_.filled(document),
                     path_);
            else if (document.raw.find_first_not_of(" \t\n") == document.raw.find('{') &&
                     has(document.raw, '{'))
                launch.documents.push_back(
                    {variables_.filled(document), variables_.place(document.line)});
    }

    void simple(const ShellCommand& command) {
        documents(command);
        const auto& words = command.words;
        auto program = words.begin();
        for (; program != words.end() && assigned_name(program->raw) > 0; ++program)
            variables_.assign(*program);
        // NAME=.. before a program is the program's
        const bool all = command.exported || exports_all_;
        for (auto word = words.begin(); word != (all                      ? words.end()
                                                 : program == words.end() ? words.begin()
                                                                          : program);
             ++word)
            variables_.export_name(
                word->raw.substr(0, std::min(word->raw.find_first_of("+=["), word->raw.size())));
        exports_all_ = exports_all_ || sets_allexport(words);
        std::optional<bool> told = true;
        if (program != words.end() && !command.exported) told = effect({program, words.end()});
        skip_next_ = (command.then == "&&" && told != std::optional(true)) ||
                     (command.then == "||" && told != std::optional(false));
    }

    // Runs a command or block and returns its last command. An && or || before it may skip it.
    std::size_t statement(const Commands& commands, std::size_t at) {
        static const std::set<std::string> passed{"",   "then", "elif", "else", "fi",
                                                  "do", "done", "esac", "}"};
        const std::string first = first_word(commands, at);
        if (passed.contains(first)) return at;
        const bool outer = active_, skipped = std::exchange(skip_next_, false);
        active_ = outer && !skipped;
        if (first == "if")
            at = choose(commands, at + 1);
        else if (first == "case")
            at = choose_case(commands, at);
        else if (first == "for" || first == "while" || first == "until")
            at = loop(commands, at);
        else if (first == "{")
            at = run(commands, at + 1, {"}"});
        else if (is_definition(commands, at))
            at = define(commands, at);
        else if (active_)
            simple(commands[at]);
        active_ = outer;
        if (skipped)
            skip_next_ =
                at < commands.size() && (commands[at].then == "&&" || commands[at].then == "||");
        return at;
    }

    // Runs from `at` to the command that begins with one of `ends`; if `;;` is among them, until
    // after the command that it ends.
    std::size_t run(const Commands& commands, std::size_t at, const std::set<std::string>& ends) {
        constexpr int deepest = 64;
        constexpr std::size_t most = 1'000'000;  // bounds nested loops
        if (++nesting_ > deepest)
            refuse("{}: blocks and functions more than {} deep", path_, deepest);
        for (; at < commands.size() && !ends.contains(first_word(commands, at)); ++at) {
            if (++commands_ > most) refuse("{}: more than {} commands", path_, most);
            at = statement(commands, at);
            if (at < commands.size() && ends.contains(";;") && commands[at].then == ";;") {
                ++at;
                break;
            }
        }
        --nesting_;
        return std::min(at, commands.size());
    }

    // The same, but has an effect only if the shell would run it.
    std::size_t run_where(bool taken, const Commands& commands, std::size_t at,
                          const std::set<std::string>& ends) {
        const bool outer = std::exchange(active_, active_ && taken);
        at = run(commands, at, ends);
        active_ = outer;
        return at;
    }

    std::string path_, passed_over_;
    ShellVariables variables_;
    bool active_ = true, skip_next_ = false, exports_all_ = false;
    std::size_t best_ = 0, passed_ = 0, read_ = 0, commands_ = 0;
    int nesting_ = 0, depth_ = 0;  // depth of blocks; depth of files and functions
    std::map<std::string, Commands> functions_;
    std::set<std::string> called_;
};

}  // namespace

ShellLaunch read_launch(const std::string& text, const std::string& path,
                        const std::map<std::string, std::string>& given) {
    const auto directives = slurm_directives(text);
    auto variables = given;
    add_slurm_variables(directives, variables);
    ShellReader reader(path, variables);
    reader.read(text, path);
    reader.launch.unknown = reader.unknown();
    if (reader.launch.arguments.empty())
        refuse(
            "{}: launches no training that is known; expected a line with torchrun, python or srun "
            "and its flags{}{}{}{}",
            path, reader.passed_over().empty() ? "" : "; not known: ", reader.passed_over(),
            reader.launch.notes.empty() ? "" : "; ", joined(reader.launch.notes, "; "));
    return std::move(reader.launch);
}

}  // namespace stepcast
