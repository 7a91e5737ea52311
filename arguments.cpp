#include "arguments.h"

#include <CLI/CLI.hpp>

#include "model/errors.h"

namespace stepcast {
namespace {

// CLI11's own range says its bounds as floating-point numbers.
CLI::Validator count_from(int least) {
    return {[least](std::string& text) {
                int value = 0;
                const bool read = CLI::detail::lexical_cast(text, value);
                if (read && value >= least && value <= 1000000) return std::string();
                return "found " + text + ", expected " + std::to_string(least) + " to 1000000";
            },
            "COUNT"};
}

CLI::App* add_verb(CLI::App& app, const char* name, const char* purpose, void (*run)(const Options&),
                   const Options& options) {
    CLI::App* verb = app.add_subcommand(name, purpose);
    verb->callback([run, &options] { run(options); });
    return verb;
}

void add_experiment(CLI::App* verb, Options& options) {
    verb->add_option("EXPERIMENT", options.experiment, "file or preset")->required();
    verb->add_option("--set", options.set, "KEY=VALUE, any key (stepcast list keys)")->allow_extra_args(false);
    verb->add_option("--framework", options.framework, "preset or file: as --set framework.preset=..");
    verb->add_flag("--json", options.json, "one JSON object");
}

void add_trace(CLI::App* verb, Options& options) {
    verb->add_option("--trace", options.trace, "FILE.json for Perfetto");
}

CLI::Option* add_device(CLI::App* verb, Options& options) {
    verb->add_option("--ranks", options.ranks, "how many")->check(count_from(1));
    return verb->add_option("--device", options.device, "host or cuda");
}

void add_sweep(CLI::App& app, Options& options, const Verbs& verbs) {
    CLI::App* verb = add_verb(app, "sweep", "the best of many configurations, with proof", verbs.sweep, options);
    add_experiment(verb, options);
    verb->add_option("--vary", options.vary, "KEY=A,B,C or KEY=1..64*2; parallelism=all: every legal split")
        ->allow_extra_args(false)
        ->required();
    verb->add_option("--where", options.where,
                     "\"memory.peak < 76 GiB\"; also step, tokens, cost, mfu, parallelism keys")
        ->allow_extra_args(false);
    verb->add_option("--objective", options.objective, "step, tokens or cost; two of these or memory: a Pareto front");
    verb->add_flag("--pareto", options.pareto, "the Pareto front of the objective and the peak memory");
    verb->add_option("--top", options.top, "how many best ones")->check(CLI::Range(1, 1000));
    verb->add_option("--threads", options.threads, "instead of one a core")->check(CLI::Range(1, 1024));
    verb->add_option("--out", options.out, "folder for sweep.csv (what is known so far), tables and plots");
    verb->add_flag("--resume", options.resume, "go on with the unfinished sweep in --out");
}

void add_verbs(CLI::App& app, Options& options, const Verbs& verbs) {
    CLI::App* verb = add_verb(app, "simulate", "predict a step", verbs.simulate, options);
    add_experiment(verb, options);
    add_trace(verb, options);
    CLI::Option* explain = verb->add_flag(
        "--explain", options.explain, "why: critical path, idle time, what 10 % more of anything buys, every kernel");
    verb->add_option("--out", options.out, "folder for the plot of --explain")->needs(explain);

    add_sweep(app, options, verbs);

    verb = add_verb(app, "execute", "run a step on this machine", verbs.execute, options);
    add_experiment(verb, options);
    add_trace(verb, options);
    verb->add_option("--out", options.out, "folder for the run: every sample and trace");
    add_device(verb, options)->required();
    verb->add_option("--steps", options.steps, "samples")->check(count_from(1));
    verb->add_option("--warmup", options.warmup, "steps before the first sample")->check(count_from(0));

    verb = add_verb(app, "calibrate", "measure this machine or fit recorded measurements; write a cluster file",
                    verbs.calibrate, options);
    add_device(verb, options);
    verb->add_option("--measurements", options.measurements, "FILE.csv...");
    verb->add_option("--cluster", options.cluster, "file or preset to start from");
    verb->add_option("--framework", options.framework, "framework that the steps ran in, to start from: file or preset");
    verb->add_option("--fit", options.fit, "what measured steps move: framework, hardware or both");
    verb->add_option("--cross-validate", options.cross_validate,
                     "errors of blocks left out: model, ranks, framework or device; writes nothing");
    verb->add_option("--out", options.out, "CLUSTER.toml; of --fit framework FRAMEWORK.toml");
    verb->add_option("--steps", options.steps, "of --device: repetitions of each sweep (11)")->check(count_from(1));

    verb = add_verb(app, "compare", "predicted against measured", verbs.compare, options);
    verb->add_option("INPUT", options.inputs, "CASES.csv, MEASUREMENTS.csv or RUN_DIR")->required();
    verb->add_option("--cluster", options.cluster, "file or preset to predict with");
    verb->add_option("--framework", options.framework, "file or preset that all cases ran in");
    verb->add_option("--out", options.out, "folder for compare.csv, summary.md and plots");
    verb->add_flag("--json", options.json, "one JSON object");
    verb->add_flag("--strict", options.strict, "exit code 1 when a case is refused");

    verb = add_verb(app, "import", "training logs to measurements", verbs.import, options);
    verb->add_option("LOG", options.inputs)->required();
    verb->add_option("--format", options.format, "auto, moe-steps, moe-phases, opt-prime, deepspeed or custom");
    verb->add_option("--pattern", options.pattern, "FILE.toml that describes the lines, for custom");
    verb->add_option("--system", options.system, "what the log does not say: the system");
    verb->add_option("--model", options.model, "and the model: a name, or the experiment that predicts the runs");
    verb->add_option("--input", options.step_inputs, "KEY=A,B,.. of steps 1, 2, .. that the log does not print")
        ->allow_extra_args(false);
    verb->add_flag("--medians", options.medians, "write medians and what holds for a run, no samples ..");
    verb->add_option("--only-steps", options.step_range, "FIRST-LAST: only these, of samples and medians");
    verb->add_option("--phases", options.phases, ".. but of these phases")->delimiter(',')->allow_extra_args(false);
    verb->add_option("--out", options.out, "MEASUREMENTS.csv")->required();
    verb->add_option("--routing-out", options.routing_out, "folder for the routing a log records");

    verb = add_verb(app, "list", "presets or keys", verbs.list, options);
    verb->add_option("WHAT", options.what)->required()->check(CLI::IsMember({"presets", "keys"}));
}

// What CLI11 found wrong, in our words: the word that was not understood and the nearest valid one.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const auto rest = app.remaining(true);
    if (rest.empty()) return error.what();
    std::vector<std::string> valid;
    if (chosen.empty())
        for (const CLI::App* verb : app.get_subcommands({})) valid.push_back(verb->get_name());
    else
        for (const CLI::Option* option : chosen.front()->get_options())
            if (!option->get_lnames().empty()) valid.push_back("--" + option->get_lnames().front());
    return "\"" + rest.front() + "\" is no " + (chosen.empty() ? "verb" : "argument of " + chosen.front()->get_name()) +
           did_you_mean(rest.front(), valid);
}

// "step", or "step,cost" for a Pareto front.
void read_objectives(SweepQuestion& question, const Options& options) {
    const auto comma = options.objective.find(',');
    try {
        question.objective = parse_objective(options.objective.substr(0, comma));
        if (comma != std::string::npos) question.second = parse_objective(options.objective.substr(comma + 1));
    } catch (const ConfigError& error) {
        throw ConfigError("--objective " + options.objective + ": " + error.what());
    }
    if (options.pareto && !question.second) question.second = Objective::memory;
    if (question.second == question.objective)
        throw ConfigError("--objective " + options.objective + ": twice the same; expected two different ones");
}

}  // namespace

std::vector<Override> overrides_of(const Options& options) {
    std::vector<Override> overrides;
    if (!options.framework.empty()) overrides.push_back({"framework.preset", options.framework});
    for (const std::string& text : options.set) overrides.push_back(parse_override(text));
    return overrides;
}

ImportRequest import_request_of(const Options& options) {
    return {.logs = options.inputs,
            .format = parse_log_format(options.format),
            .out = options.out,
            .routing_out = options.routing_out,
            .medians_only = options.medians,
            .kept_phases = options.phases,
            .steps = options.step_range,
            .pattern = options.pattern,
            .system = options.system,
            .model = options.model,
            .inputs = options.step_inputs};
}

SweepQuestion question_of(const Options& options) {
    SweepQuestion question;
    question.experiment = read_unchecked_experiment(options.experiment, overrides_of(options));
    for (const std::string& text : options.vary) question.axes.push_back(parse_axis(text));
    question.where = parse_constraints(options.where);
    question.top = options.top;
    read_objectives(question, options);
    if (options.resume && options.out.empty()) throw ConfigError("--resume: expected --out, the folder to go on with");
    return question;
}

int run_command_line(int argc, char** argv, const Verbs& verbs) {
    Options options;
    CLI::App app("Predicts the step time of distributed training, runs it, and shows predicted beside measured.",
                 "stepcast");
    app.set_version_flag("--version", "stepcast " STEPCAST_VERSION);
    app.require_subcommand(1);
    add_verbs(app, options, verbs);
    try {
        app.parse(argc, argv);
        return 0;
    } catch (const CLI::Success& asked) {
        return app.exit(asked);
    } catch (const CLI::ParseError& error) {
        throw ConfigError(usage_error(app, error));
    }
}

}  // namespace stepcast
