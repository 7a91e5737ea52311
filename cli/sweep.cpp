#include "cli/sweep.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "cli/experiment_inputs.h"
#include "cli/output_files.h"
#include "cli/verbs.h"
#include "import/launch/emit.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/names.h"
#include "model/input/remarks.h"
#include "reports/json.h"
#include "reports/step_page.h"
#include "reports/sweep_json.h"
#include "reports/sweep_page.h"
#include "reports/sweep_tables.h"
#include "sim/sweep/node_counts.h"

namespace stepcast {
namespace {

constexpr const char* of_search = "Search";

// Reads "step", or "step,cost" for a Pareto front.
void read_objectives(SweepQuestion& question, const Options& options) {
    const auto comma = options.objective.find(',');
    at_place("--objective " + options.objective, [&] {
        question.objective = parse_name<Objective>(options.objective.substr(0, comma));
        if (comma != std::string::npos)
            question.second = parse_name<Objective>(options.objective.substr(comma + 1));
    });
    if (options.pareto && !question.second) question.second = Objective::memory;
    if (question.second == question.objective)
        throw ConfigError("--objective " + options.objective +
                          ": twice the same; expected two different ones");
}

// For every process of an MPI launcher but the first, which alone prints answers and errors.
int help_with_sweep(const Options& options) {
    try {
        help_sweep(sweep_question(options));
    } catch (const ConfigError&) {
        // the first process says it
    }
    return 0;
}

// The flags of the best split that the framework can run; with --within, of the least machines. The
// table goes to stderr.
void print_best(const Options& options, const SweepQuestion& question, const SweepAnswer& answer) {
    std::fputs(sweep_table(answer).c_str(), stderr);
    std::vector<SweepRow> rows = where(answer.of_each, &SweepRow::least_within);
    if (rows.empty()) rows = answer.best;
    for (const std::size_t i : indices_of(rows)) {
        Experiment split = question.experiment;
        set_varied(split, rows[i].settings, question.stated);
        try {
            return print(
                emitted(split, options,
                        headline(answer.experiment, split.cluster.name, split, rows[i].step)));
        } catch (const ConfigError& error) {
            options.say("row " + std::to_string(i + 1) + ": " + error.what());
        }
    }
    throw ConfigError("--emit " + options.emit +
                      ": none of the rows can be written; more of them with --top");
}

int run_sweep(const Options& options) {
    if (is_sweep_helper()) return help_with_sweep(options);
    if (options.resume)
        throw ConfigError(
            "--resume: sweeps are no longer resumed, as the largest space takes a minute; expected "
            "the same command without it, which begins --out anew");
    const SweepQuestion question = sweep_question(options);
    check_files_of_sweep(options);
    const auto is_of_machine = [](const std::string& remark) {
        return remark.starts_with("cluster.");
    };
    for (const std::string& remark : remarks_on(question.experiment))  // it may be why nothing fits
        if (is_of_machine(remark)) options.say("note: " + remark);
    const SweepAnswer result = sweep(
        question, {.threads = options.threads,
                   .out = options.out,
                   .map = !options.out.empty(),
                   .progress = show_progress,
                   .announce = [&](std::string_view text) { options.say(std::string(text)); }});
    show_progress("");
    if (!options.emit.empty())
        print_best(options, question, result);
    else
        print(options.json ? to_json(result) : sweep_table(result));
    if (!result.best.empty()) {
        Experiment best = question.experiment;
        set_varied(best, result.best.front().settings, question.stated);
        for (const std::string& remark : remarks_on(best))
            if (!is_of_machine(remark)) options.say("note: " + remark);
    }
    if (!options.out.empty())
        write_sweep(options.out, result,
                    origin_of(question.experiment, {version_text(), options.command}));
    return 0;
}

}  // namespace

void check_files_of_sweep(const Options& options) {
    Paths outputs;
    const Paths inputs =
        named(files_asked(options, options.experiment, overrides_of(options)), {options.market});
    add_in(outputs, options.out, {"sweep.csv", "top.csv", "summary.md", "report.html"}, inputs);
    check_outputs(outputs, inputs);
}

SweepQuestion sweep_question(const Options& asked) {
    Options options = asked;
    if (asked.frameworks.size() > 1) {
        options.frameworks.resize(1);
        options.vary.push_back(fmt::format("framework.preset={}", joined(asked.frameworks, ",")));
        if (asked.vary.empty()) options.vary.insert(options.vary.begin(), "parallelism=all");
    }
    require_one_answer(options);
    require_foreign(options, {options.experiment});
    SweepQuestion question;
    question.experiment =
        asked_experiment(options, options.experiment, overrides_of(options), false);
    question.stated = stated_keys_asked(options, options.experiment, overrides_of(options));
    if (!options.emit.empty())
        keep_unwritten(question.experiment, parse_name<EmitFormat>(options.emit));
    for (const std::string& text : options.vary) question.axes.push_back(parse_axis(text));
    if (options.vary.empty()) question.axes.push_back(parse_axis("parallelism=all"));
    fix_set_splits(question.axes, options.set);
    question.where = parse_constraints(options.where);
    question.top = options.top;
    read_objectives(question, options);
    question.training = training_of(options);
    if (!options.within.empty())
        question.within = positive("--within", options.within, parse_seconds);
    add_node_counts(question);
    return question;
}

Verb sweep_verb() {
    const Arguments search{
        {"--vary", &Options::vary, "KEY=VALUES",
         "KEY=A,B,C or KEY=1..64*2; parallelism=all, which is what is varied without "
         "--vary: every legal parallel layout",
         of_search},
        {"--where", &Options::where, "CONDITION",
         "\"memory.peak < 76 GiB\"; also step, tokens, cost, mfu, parallelism keys", of_search},
        {"--objective", &Options::objective, "step|tokens|cost|memory",
         "what to optimize; two with a comma between: a Pareto front", of_search},
        {"--pareto", &Options::pareto, "", "the Pareto front of the objective and the peak memory",
         of_search},
        {"--top",
         &Options::top,
         "COUNT",
         "how many of the best to list (10)",
         of_search,
         {.most = 1000}},
        {"--threads",
         &Options::threads,
         "COUNT",
         "threads, instead of one a core",
         of_search,
         {.most = 1024}},
        {"--resume", &Options::resume, "", "", ""}};
    const Arguments output{
        json_argument(), emit_argument(),
        out_argument("sweep.csv (what is simulated so far), tables, plots and a page")};
    Arguments training = campaign_arguments();
    training.push_back({"--within", &Options::within, "TIME",
                        "the least machines that end the training in time, as 60d", of_training});
    return {"sweep", "the best of many configurations, with proof",
            "stepcast sweep llama3-70b --cluster H100 --gpus 256 --framework megatron-core --top 5",
            joined({experiment_argument(), search, override_arguments_of_several(), output,
                    training, foreign_arguments()}),
            run_sweep};
}

}  // namespace stepcast
