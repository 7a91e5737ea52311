// The map: each verb is one function that walks the spine (README) by calling the folders' functions in order.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "model/errors.h"
#include "model/experiment.h"
#include "model/presets.h"
#include "model/step.h"
#include "sim/predict.h"

using namespace stepcast;

namespace {

struct Options {
    std::string experiment, device, cluster, out, trace, routing_out, format = "auto", what;
    std::vector<std::string> inputs, set, measurements;
    int ranks = 0, steps = 0, warmup = -1;
    bool json = false, strict = false;
};

// Usage errors of CLI11 in our words: the word that was not understood and the nearest valid one.
std::string usage_message(CLI::App& app, const CLI::ParseError& error) {
    std::vector<std::string> valid;
    const auto chosen = app.get_subcommands();
    if (chosen.empty())
        for (const CLI::App* verb : app.get_subcommands({})) valid.push_back(verb->get_name());
    else
        for (const CLI::Option* option : chosen.front()->get_options())
            if (!option->get_lnames().empty()) valid.push_back("--" + option->get_lnames().front());
    const auto rest = app.remaining(true);
    if (rest.empty()) return error.what();
    return "\"" + rest.front() + "\" is no " + (chosen.empty() ? "verb" : "option of " + chosen.front()->get_name()) +
           did_you_mean(rest.front(), valid);
}

void add_verbs(CLI::App& app, Options& options) {
    auto* simulate = app.add_subcommand("simulate", "predict the step of an experiment");
    simulate->add_option("EXPERIMENT", options.experiment)->required();
    simulate->add_flag("--json", options.json);
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("x", "stepcast");
    app.require_subcommand(1);
    add_verbs(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        std::fputs((usage_message(app, error) + "\n").c_str(), stderr);
    }
}
