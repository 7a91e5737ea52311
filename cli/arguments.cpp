#include "cli/arguments.h"

#include <cstdio>

#include <CLI/CLI.hpp>

#include "model/base/errors.h"
#include "reports/table.h"

namespace stepcast {
namespace {

// CLI11's own range check prints its bounds as floating-point numbers.
CLI::Validator count_from(int least, int most = 1000000) {
    return {[least, most](std::string& text) {
                int value = 0;
                const bool read = CLI::detail::lexical_cast(text, value);
                if (read && value >= least && value <= most) return std::string();
                return "found " + text + ", expected " + std::to_string(least) + " to " +
                       std::to_string(most);
            },
            "COUNT"};
}

CLI::App* add_verb(CLI::App& app, const char* name, const char* purpose, const Verbs& verbs,
                   const Options& options) {
    CLI::App* verb = app.add_subcommand(name, purpose);
    verb->callback([run = verbs.at(name), &options] { run(options); });
    return verb;
}

// Options for values that a file of another tool leaves open.
void add_foreign(CLI::App* verb, Options& options) {
    verb->add_option("--variant", options.variant,
                     "of a file with a table of configurations: GPU,GPUS,PRECISION")
        ->type_name("GPU,GPUS,PRECISION");
    verb->add_option("--env", options.environment,
                     "NAME=VALUE, a variable that a launch script reads")
        ->type_name("NAME=VALUE")
        ->allow_extra_args(false);
}

void add_overrides(CLI::App* verb, Options& options) {
    verb->add_option("--cluster", options.cluster, "the machine: a preset, a GPU's name or a file")
        ->type_name("CLUSTER");
    verb->add_option("--framework", options.framework,
                     "preset or file: as --set framework.preset=..")
        ->type_name("FRAMEWORK");
    verb->add_option("--gpus", options.gpus, "so many of its ranks; data parallelism fills them")
        ->check(count_from(1, 1 << 20));
    add_foreign(verb, options);
    verb->add_option("--set", options.set,
                     "KEY=VALUE, any key (stepcast list keys), tp=8 for parallelism.tp=8")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    verb->add_flag("--json", options.json, "one JSON object");
}

void add_emit(CLI::App* verb, Options& options) {
    verb->add_option("--emit", options.emit, "print the flags or file of that framework")
        ->type_name("megatron|megatron-bridge|nemo|torchtitan|deepspeed");
    verb->add_option("--model", options.model,
                     "of another tool's file without sizes: a workload or config.json")
        ->type_name("MODEL");
}

void add_experiment(CLI::App* verb, Options& options) {
    verb->add_option("EXPERIMENT", options.experiment,
                     "file, preset, workload or config.json; - is standard input")
        ->required();
    add_overrides(verb, options);
}

void add_campaign(CLI::App* verb, Options& options) {
    verb->add_option("--tokens", options.tokens,
                     "15T: days, money and energy of a training on so many tokens")
        ->type_name("COUNT");
    verb->add_option("--steps", options.training_steps, "100k: .. of so many steps")
        ->type_name("COUNT");
    verb->add_option("--market", options.market,
                     "FILE.toml with prices, powers, failures, instead of the shipped ones")
        ->type_name("FILE.toml");
}

void add_trace(CLI::App* verb, Options& options) {
    verb->add_option("--trace", options.trace, "FILE.json for Perfetto")->type_name("FILE.json");
}

CLI::Option* add_device(CLI::App* verb, Options& options) {
    verb->add_option("--ranks", options.ranks, "how many")->check(count_from(1));
    return verb->add_option("--device", options.device, "where to run")->type_name("host|cuda");
}

void add_sweep(CLI::App& app, Options& options, const Verbs& verbs) {
    CLI::App* verb =
        add_verb(app, "sweep", "the best of many configurations, with proof", verbs, options);
    add_experiment(verb, options);
    add_emit(verb, options);
    verb->add_option("--vary", options.vary,
                     "KEY=A,B,C or KEY=1..64*2; parallelism=all: every legal split")
        ->type_name("KEY=VALUES")
        ->allow_extra_args(false)
        ->required();
    verb->add_option("--where", options.where,
                     "\"memory.peak < 76 GiB\"; also step, tokens, cost, mfu, parallelism keys")
        ->type_name("CONDITION")
        ->allow_extra_args(false);
    verb->add_option("--objective", options.objective, "two with a comma between: a Pareto front")
        ->type_name("step|tokens|cost|memory");
    verb->add_flag("--pareto", options.pareto,
                   "the Pareto front of the objective and the peak memory");
    verb->add_option("--top", options.top, "how many best ones")->check(CLI::Range(1, 1000));
    verb->add_option("--threads", options.threads, "instead of one a core")
        ->check(CLI::Range(1, 1024));
    verb->add_option("--out", options.out,
                     "folder for sweep.csv (what is simulated so far), tables and plots")
        ->type_name("DIR");
    add_campaign(verb, options);
    verb->add_option("--within", options.within,
                     "60d: the least machines that end the training in time")
        ->type_name("TIME");
    verb->add_flag_callback(
            "--resume",
            [] {
                throw ConfigError(
                    "--resume: sweeps are no longer resumed, as the largest space takes a minute; "
                    "expected the same command without it, which begins --out anew");
            })
        ->group("");  // of old command lines
}

void add_simulate(CLI::App& app, Options& options, const Verbs& verbs) {
    CLI::App* verb = add_verb(app, "simulate", "predict a step", verbs, options);
    verb->add_option("EXPERIMENT", options.inputs,
                     "files, presets, workloads or config.json; several stand side by side, as do "
                     "the values of a key "
                     "that --set gives twice")
        ->required();
    add_overrides(verb, options);
    add_campaign(verb, options);
    add_trace(verb, options);
    verb->add_option("--graph", options.graph,
                     "FILE.dot for Graphviz: the tasks of a small step and what they wait for")
        ->type_name("FILE.dot");
    add_emit(verb, options);
    verb->add_flag("--tuned", options.tuned,
                   "p10 .. p90 of software set up as its published recipe, not of anybody's");
    verb->add_option("--measured", options.measured,
                     "your own steps, which narrow the forecasts: of one column after the other "
                     "(4.31s, - where it is not known), CASES.csv or what --save wrote")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("TIME|FILE");
    verb->add_option("--save", options.save, "of --measured: a file of these steps for the next")
        ->type_name("FILE.toml");
    verb->add_flag("--explain", options.explain,
                   "why: critical path, idle time, what 10 % more of anything buys, every kernel");
    verb->add_flag("--memory", options.memory,
                   "memory as PyTorch's allocator sees it: allocated, reserved, what lives at the "
                   "fullest moment, the tensor that fails");
    verb->add_flag("--levers", options.levers,
                   "what each switch and each neighbour of the split, changed alone, would make of "
                   "the step and its memory");
    verb->add_option("--out", options.out,
                     "folder for a picture of the step (Gantt chart), and the plot of --explain")
        ->type_name("DIR");
}

void add_execute(CLI::App& app, Options& options, const Verbs& verbs) {
    CLI::App* verb = add_verb(app, "execute", "run a step on this machine", verbs, options);
    add_experiment(verb, options);
    add_trace(verb, options);
    verb->add_option("--out", options.out, "folder for the run: every sample and trace")
        ->type_name("DIR");
    add_device(verb, options)->required();
    verb->add_option("--steps", options.steps, "samples")->check(count_from(1));
    verb->add_option("--warmup", options.warmup, "steps before the first sample")
        ->check(count_from(0));
}

void add_calibrate(CLI::App& app, Options& options, const Verbs& verbs) {
    CLI::App* verb = add_verb(
        app, "calibrate", "measure this machine or fit recorded measurements; write a cluster file",
        verbs, options);
    add_device(verb, options);
    verb->add_option("--measurements", options.measurements, "FILE.csv...")->type_name("FILE.csv");
    verb->add_option("--cluster", options.cluster, "file or preset to start from")
        ->type_name("CLUSTER");
    verb->add_option("--framework", options.framework,
                     "framework that the steps ran in, to start from: file or preset")
        ->type_name("FRAMEWORK");
    verb->add_option("--fit", options.fit,
                     "what measured steps move; scatter: the widths of intervals")
        ->type_name("framework|hardware|both|scatter");
    verb->add_option("--cross-validate", options.cross_validate,
                     "errors of blocks left out; device --out FILE: spreads of machines without "
                     "measurements")
        ->type_name("model|ranks|framework|device|source|block|fold");
    verb->add_option("--out", options.out, "CLUSTER.toml; of --fit framework FRAMEWORK.toml")
        ->type_name("FILE.toml");
    verb->add_option("--steps", options.steps, "of --device: repetitions of each sweep (11)")
        ->check(count_from(1));
}

void add_compare(CLI::App& app, Options& options, const Verbs& verbs) {
    CLI::App* verb = add_verb(app, "compare", "predicted against measured", verbs, options);
    verb->add_option("INPUT", options.inputs,
                     "CASES.csv, MEASUREMENTS.csv, a training log, a table of kernels, RUN_DIR, or "
                     "a profiler's traces, one a rank")
        ->required();
    verb->add_option("--model", options.model,
                     "of traces and logs: the experiment that ran; without it a trace's own kernel "
                     "tables predict it, a log's own arguments")
        ->type_name("EXPERIMENT");
    verb->add_option("--gpus", options.gpus, "of --model: its ranks")
        ->check(count_from(1, 1 << 20));
    verb->add_option("--set", options.set, "of --model: KEY=VALUE")
        ->allow_extra_args(false)
        ->type_name("KEY=VALUE");
    verb->add_option("--trace", options.trace,
                     "of traces: FILE.json for Perfetto, the predicted step next to the traced one")
        ->type_name("FILE");
    verb->add_option("--cluster", options.cluster, "file or preset to predict with")
        ->type_name("CLUSTER");
    verb->add_option("--framework", options.framework, "file or preset that all cases ran in")
        ->type_name("FRAMEWORK");
    verb->add_option("--out", options.out, "folder for tables, summary.md and plots")
        ->type_name("DIR");
    verb->add_flag("--json", options.json, "one JSON object");
    verb->add_flag("--strict", options.strict, "exit code 1 when a case is refused");
    verb->add_flag("--waterfall", options.waterfall,
                   "of two experiments, launch scripts, logs or rows (TABLE.csv:CASE): what each "
                   "difference costs");
    verb->add_flag(
        "--gate", options.gate,
        "of one run: is it slower than its history? exit code 4 if so, 5 if it cannot be "
        "told");
    verb->add_option("--history", options.history, "of --gate: folder of earlier runs")
        ->type_name("DIR");
    verb->add_option("--false-alarms", options.false_alarms,
                     "of --gate: share of sound runs that may fail (1%)")
        ->type_name("SHARE");
    verb->add_flag("--allow", options.allow, "of --gate: a history of other configurations too");
    verb->add_option("--junit", options.junit, "of --gate: the verdict as JUnit XML")
        ->type_name("FILE.xml");
    verb->add_option(
            "--measured", options.measured,
            "your own steps, which narrow the forecasts: CASES.csv or what simulate --save "
            "wrote; of --waterfall the measured steps of both, - for one that is not known")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("FILE|TIME,TIME");
}

void add_diagnose(CLI::App& app, Options& options, const Verbs& verbs) {
    CLI::App* verb = add_verb(
        app, "diagnose", "why a run is slower than it should be: ranked causes", verbs, options);
    verb->add_option("RUN", options.experiment,
                     "what ran: an experiment, a launch script, a log that states its "
                     "configuration, or a row (TABLE.csv:CASE)")
        ->required();
    add_overrides(verb, options);
    verb->add_option("--model", options.model,
                     "of a log: the experiment that ran; of a script without sizes: a workload")
        ->type_name("EXPERIMENT");
    verb->add_option("--log", options.log, "the training log of an experiment: its steps")
        ->type_name("FILE");
    verb->add_option("--measured", options.measured,
                     "the step: 4.31s, 38%MFU, 410TFLOP/s, 3700tokens/s/gpu; or at least five "
                     "single steps, T,T,..")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("STEP");
    verb->add_option("--rank-times", options.rank_times,
                     "what each rank computes in a step, as its profile says")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("TIME,TIME,..");
    verb->add_option("--ruled-out", options.ruled_out,
                     "a cause that was tested and is not it; may be given several times")
        ->allow_extra_args(false)
        ->type_name("CAUSE");
    verb->add_option("--nccl-tests", options.nccl_tests, "output of nccl-tests on these machines")
        ->type_name("FILE");
    verb->add_option("--out", options.out, "folder for the page")->type_name("DIR");
}

void add_import(CLI::App& app, Options& options, const Verbs& verbs) {
    CLI::App* verb = add_verb(app, "import",
                              "training logs, profiles and nccl-tests to tables; launch scripts "
                              "and configurations to experiments; descriptions of "
                              "machines to clusters",
                              verbs, options);
    verb->add_option("FILE", options.inputs);
    verb->add_option("--format", options.format,
                     "auto; profile, nccl-tests; of logs moe-steps, moe-phases, opt-prime, "
                     "deepspeed, custom; of configurations megatron, "
                     "nemo, megatron-bridge, torchtitan, deepspeed-config; of machines topo, "
                     "nccl-topology, nvidia-smi, rocm-smi, lspci")
        ->type_name("FORMAT");
    verb->add_option("--gpu", options.gpu,
                     "the device of a machine whose files do not name it; without a file, a node "
                     "of eight by its datasheet");
    add_foreign(verb, options);
    verb->add_option("--pattern", options.pattern, "FILE.toml that describes the lines, for custom")
        ->type_name("FILE.toml");
    verb->add_option("--system", options.system, "what the log does not say: the system");
    verb->add_option("--model", options.model,
                     "and the model: a name, or the experiment that predicts the runs")
        ->type_name("MODEL");
    verb->add_option("--input", options.step_inputs,
                     "KEY=A,B,.. of steps 1, 2, .. that the log does not print")
        ->type_name("KEY=VALUES")
        ->allow_extra_args(false);
    verb->add_flag("--medians", options.medians,
                   "write medians and what holds for a run, no samples ..");
    verb->add_option("--only-steps", options.step_range,
                     "FIRST-LAST: only these, of samples and medians");
    verb->add_option("--phases", options.phases, ".. but of these phases")
        ->delimiter(',')
        ->allow_extra_args(false);
    verb->add_option("--out", options.out, "MEASUREMENTS.csv, EXPERIMENT.toml or CLUSTER.toml")
        ->type_name("FILE")
        ->required();
    verb->add_option("--routing-out", options.routing_out, "folder for the routing a log records")
        ->type_name("DIR");
    verb->add_option("--op", options.op,
                     "of nccl-tests output that does not say it: all_gather, ..");
    verb->add_option("--ranks", options.ranks, "the same: its ranks")->check(count_from(2));
    verb->add_option("--nodes", options.nodes,
                     "nodes of the job, where profiles or nccl-tests do not say")
        ->check(count_from(1));
}

void add_list(CLI::App& app, Options& options, const Verbs& verbs) {
    CLI::App* verb =
        add_verb(app, "list", "presets, keys, or the contents of measured rows", verbs, options);
    verb->add_option("WHAT", options.what)
        ->required()
        ->check(CLI::IsMember({"presets", "keys", "rows"}));
    verb->add_option("WORD|FILE.csv", options.inputs,
                     "of presets and keys: only those whose line holds the word; of rows: files, "
                     "whose rows' hashes are those that [fitted] and "
                     "seen_rows.txt keep");
}

void add_show(CLI::App& app, Options& options, const Verbs& verbs) {
    CLI::App* verb = add_verb(
        app, "show", "every key of an experiment or preset, who said it, as TOML", verbs, options);
    verb->add_option("NAME", options.experiment, "experiment, workload or cluster: preset or file")
        ->required();
    verb->add_option("--cluster", options.cluster, "the machine: a preset, a GPU's name or a file")
        ->type_name("CLUSTER");
    verb->add_option("--gpus", options.gpus, "so many of its ranks")->check(count_from(1, 1 << 20));
    verb->add_option("--set", options.set, "KEY=VALUE")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
}

void add_verbs(CLI::App& app, Options& options, const Verbs& verbs) {
    for (const auto add : {add_simulate, add_sweep, add_execute, add_calibrate, add_compare,
                           add_diagnose, add_import, add_list, add_show})
        add(app, options, verbs);
}

// Used by the installation and by shell completion, not by people.
void add_generate(CLI::App& app, Options& options) {
    CLI::App* verb = app.add_subcommand("generate", "man page, completion and their words");
    verb->group("");
    verb->add_option("WHAT", options.what)->required();
    verb->add_option("WORD", options.inputs);
    verb->callback(
        [&] { std::fputs(generate(options.what, options.inputs, app).c_str(), stdout); });
}

// CLI11's error with the word that it did not understand and the nearest valid one.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const auto rest = app.remaining(true);
    if (rest.empty()) return error.what();
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

}  // namespace

int run_command_line(int argc, char** argv, const Verbs& verbs) {
    Options options;
    options.command = "stepcast";
    for (int i = 1; i < argc; ++i) options.command += " " + shell_word(argv[i]);
    CLI::App app(
        "Predicts the step time of distributed training, runs it, and shows predicted next to "
        "measured.",
        "stepcast");
    app.set_version_flag("--version", version_text, "version, commit, compiler and libraries");
    app.require_subcommand(1);
    add_verbs(app, options, verbs);
    add_generate(app, options);
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
