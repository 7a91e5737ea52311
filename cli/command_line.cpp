#include "cli/command_line.h"

#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>

#include "cli/manual.h"
#include "model/base/errors.h"
#include "reports/table.h"

namespace stepcast {
namespace {

// CLI11's own range check prints its bounds as floating-point numbers.
CLI::Validator count_from(int least, int most) {
    return {[least, most](std::string& text) {
                int value = 0;
                const bool read = CLI::detail::lexical_cast(text, value);
                if (read && value >= least && value <= most) return std::string();
                return "found " + text + ", expected " + std::to_string(least) + " to " +
                       std::to_string(most);
            },
            ""};
}

template <class... F>
struct Overloaded : F... {
    using F::operator()...;
};

void add_argument(CLI::App& verb, const Argument& a, Options& options) {
    CLI::Option* const option = std::visit(
        Overloaded{[&](std::string Options::*value) {
                       return verb.add_option(a.name, options.*value, a.help);
                   },
                   [&](std::vector<std::string> Options::*value) {
                       CLI::Option* const list = verb.add_option(a.name, options.*value, a.help);
                       if (a.traits.comma) list->delimiter(',');
                       if (!list->get_positional() && !a.traits.many) list->allow_extra_args(false);
                       return list;
                   },
                   [&](int Options::*value) {
                       return verb.add_option(a.name, options.*value, a.help)
                           ->check(count_from(a.traits.least, a.traits.most));
                   },
                   [&](bool Options::*value) {
                       return static_cast<CLI::Option*>(
                           verb.add_flag(a.name, options.*value, a.help));
                   }},
        a.value);
    if (*a.type != '\0') option->type_name(a.type);
    if (!option->get_positional()) option->group(a.group);
    option->required(a.traits.required);
}

void add_verb(CLI::App& app, const Verb& verb, Options& options, int& code) {
    CLI::App* const added = app.add_subcommand(verb.name, verb.purpose);
    for (const Argument& argument : verb.arguments) add_argument(*added, argument, options);
    added->footer("Example: " + std::string(verb.example));
    added->callback([run = verb.run, &options, &code] { code = run(options); });
}

// Used by the installation and by shell completion.
void add_generate(CLI::App& app, Options& options) {
    CLI::App* verb = app.add_subcommand("generate", "man page, completion and their words");
    verb->group("");
    verb->add_option("WHAT", options.what)->required();
    verb->add_option("WORD", options.inputs);
    verb->callback(
        [&] { std::fputs(generate(options.what, options.inputs, app).c_str(), stdout); });
}

// CLI11's error: with the verb's example, or with the word that it did not understand and the
// nearest valid one.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const auto rest = app.remaining(true);
    if (rest.empty()) {
        const std::string footer = chosen.empty() ? "" : chosen.front()->get_footer();
        return error.what() + (footer.empty() ? "" : ". " + footer);
    }
    std::vector<std::string> valid;
    if (chosen.empty())
        for (const CLI::App* verb :
             app.get_subcommands([](const CLI::App* v) { return !v->get_group().empty(); }))
            valid.push_back(verb->get_name());
    else
        for (const CLI::Option* option : chosen.front()->get_options())
            if (!option->get_lnames().empty()) valid.push_back("--" + option->get_lnames().front());
    return "\"" + rest.front() + "\" is no " +
           (chosen.empty() ? "verb" : "argument of " + chosen.front()->get_name()) +
           did_you_mean(rest.front(), valid);
}

// `stepcast help VERB` is `stepcast VERB --help`.
std::vector<std::string> typed_words(int argc, char** argv) {
    std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    if (words.empty())
        throw ConfigError(
            "a verb is required, as in stepcast simulate gpt3_175b_a100; the verbs: "
            "stepcast --help");
    if (words.front() == "help") {
        words.erase(words.begin());
        words.emplace_back("--help");
    }
    std::ranges::reverse(words);  // as CLI11 takes them
    return words;
}

}  // namespace

int run_command_line(int argc, char** argv, const std::vector<Verb>& verbs) {
    Options options;
    options.command = "stepcast";
    for (int i = 1; i < argc; ++i) options.command += " " + shell_word(argv[i]);
    CLI::App app(
        "Predicts the step time of distributed training, runs it, and shows predicted next to "
        "measured.",
        "stepcast");
    app.set_version_flag("--version", version_text, "version, commit, compiler and libraries");
    app.require_subcommand(1);
    app.footer(
        "stepcast help VERB: the options of a verb, with an example.\n"
        "stepcast generate man|bash|zsh: the manual page and completion of shells.");
    int code = 0;
    for (const Verb& verb : verbs) add_verb(app, verb, options, code);
    add_generate(app, options);
    try {
        app.parse(typed_words(argc, argv));
        return code;
    } catch (const CLI::Success& asked) {
        return app.exit(asked);
    } catch (const CLI::ParseError& error) {
        throw ConfigError(usage_error(app, error));
    }
}

}  // namespace stepcast
