// stepcast diagnose: from what a user measured to ranked causes.

#include "sim/why/diagnose.h"
#include "cli/asked_run.h"
#include "cli/output_files.h"
#include "cli/run_inputs.h"
#include "cli/verbs.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "reports/diagnosis.h"
#include "reports/step_page.h"

namespace stepcast {
namespace {

constexpr const char* what_was_seen = "What was measured";

// Without those that the user has tested and ruled out.
std::vector<Cause> causes_left(const std::vector<std::string>& ruled_out) {
    std::vector<Cause> causes = read_causes();
    for (const std::string& name : ruled_out) {
        std::vector<std::string> names;
        for (const Cause& c : causes) names.push_back(c.name);
        if (std::erase_if(causes, [&](const Cause& c) { return c.name == name; }) == 0)
            throw ConfigError("--ruled-out " + name + ": is no cause of the list" +
                              did_you_mean(name, names));
    }
    return causes;
}

void check_diagnosed_files(const Options& options) {
    Paths outputs;
    const Paths inputs =
        named({named_row(options.experiment).path},
              {options.cluster, options.framework, options.model, named_row(options.log).path,
               options.profile, options.nccl_tests, options.gpu_samples});
    add_in(outputs, options.out, {"summary.md", "report.html"}, inputs);
    check_outputs(outputs, inputs);
}

int run_diagnose(const Options& options) {
    check_diagnosed_files(options);
    const AskedRun run = asked_run(options);
    Diagnosis found = diagnose(
        try_causes(run.experiment, causes_left(options.ruled_out), options.threads, run.others),
        run.observed);
    append(found.notes, run.notes);
    if (!options.out.empty())
        write_diagnosis(options.out, found,
                        origin_of(run.experiment, {version_text(), options.command}));
    print(options.json ? to_json(found) : diagnosis_table(found));
    return 0;
}

}  // namespace

Verb diagnose_verb() {
    const Arguments measured{
        {"--measured",
         &Options::measured,
         "STEP",
         "the step: 4.31s, 38%MFU, 410TFLOP/s, 3700tokens/s/gpu; or at least five single "
         "steps, T,T,..",
         what_was_seen,
         {.comma = true}},
        {"--log", &Options::log, "FILE", "the training log of an experiment: its steps",
         what_was_seen},
        {"--rank-times",
         &Options::rank_times,
         "TIME,TIME,..",
         "what each rank computes in a step, as its profile says",
         what_was_seen,
         {.comma = true}},
        {"--profile", &Options::profile, "FILE|DIR",
         "a rank's profile of this run (PyTorch's trace, Nsight's SQLite), or a folder of "
         "several ranks'",
         what_was_seen},
        {"--nccl-tests", &Options::nccl_tests, "FILE", "output of nccl-tests on these machines",
         what_was_seen},
        {"--nvidia-smi", &Options::gpu_samples, "FILE",
         "samples of nvidia-smi --query-gpu=index,clocks.sm,clocks.max.sm,"
         "clocks_event_reasons.active --format=csv -l 1 during the run",
         what_was_seen},
        {"--seen", &Options::seen, "WHAT=VALUE",
         "forward, backward, passes (both), gradient_sync, optimizer=TIME; busy "
         "(nvidia-smi's utilisation), clock=SHARE; memory (peak of tensors)=BYTES; "
         "bus_bandwidth=GB/s; may be given several times",
         what_was_seen},
        {"--sound", &Options::sound, "STEP|KEYS:STEP|ROW",
         "the same run where nothing is wrong (a recipe's, before the upgrade, elsewhere), "
         "or another one, as gpus=8,cluster.preset=dgx-a100:2.9s; a row",
         what_was_seen},
        {"--beside", &Options::beside, "KEYS:STEP|ROW",
         "another run of the same set-up, as gpus=8:1.2s; may be given several times",
         what_was_seen},
        {"--ruled-out", &Options::ruled_out, "CAUSE",
         "a cause that was tested and is not it; may be given several times", what_was_seen}};
    return {"diagnose", "why a run is slower than it should be: ranked causes",
            "stepcast diagnose llama3-8b --cluster H100 --gpus 16 --framework torchtitan "
            "--measured 38%MFU",
            joined({{{"RUN",
                      &Options::experiment,
                      "",
                      "what ran: an experiment, a launch script, a log that states its "
                      "configuration, or a row (TABLE.csv:CASE)",
                      ungrouped,
                      {.required = true}}},
                    measured,
                    override_arguments(),
                    foreign_arguments(),
                    {json_argument(), out_argument("the page")}}),
            run_diagnose};
}

}  // namespace stepcast
