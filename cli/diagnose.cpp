// stepcast diagnose: from what a user measured to ranked causes.

#include <fmt/format.h>

#include "cli/asked_run.h"
#include "cli/experiment_inputs.h"
#include "cli/output_files.h"
#include "cli/run_inputs.h"
#include "cli/verbs.h"
#include "model/base/errors.h"
#include "model/base/plain_text.h"
#include "reports/diagnosis.h"
#include "reports/step_page.h"
#include "sim/predict.h"
#include "sim/why/diagnose.h"

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

void check_files(const Options& options) {
    Paths outputs;
    const Paths inputs =
        named({named_row(options.experiment).path},
              {options.cluster, options.framework, options.model, named_row(options.log).path,
               options.profile, options.nccl_tests, options.gpu_samples});
    add_in(outputs, options.out, {"summary.md", "report.html"}, inputs);
    check_outputs(outputs, inputs);
}

int run_diagnose(const Options& options) {
    check_files(options);
    const AskedRun run = asked_run(options);
    const Diagnosis found = diagnose(
        try_causes(run.experiment, causes_left(options.ruled_out), options.threads, run.others),
        run.observed);
    if (!options.out.empty())
        write_diagnosis(options.out, found,
                        origin_of(run.experiment, {version_text(), options.command}));
    print(options.json ? to_json(found) : diagnosis_table(found));
    return 0;
}

}  // namespace

Verb diagnose_verb() {
    const Arguments measured{
        {.name = "--measured",
         .value = &Options::measured,
         .type = "STEP",
         .help = "the step: 4.31s, 38%MFU, 410TFLOP/s, 3700tokens/s/gpu; or at least five single "
                 "steps, T,T,..",
         .group = what_was_seen,
         .comma = true},
        {.name = "--log",
         .value = &Options::log,
         .type = "FILE",
         .help = "the training log of an experiment: its steps",
         .group = what_was_seen},
        {.name = "--rank-times",
         .value = &Options::rank_times,
         .type = "TIME,TIME,..",
         .help = "what each rank computes in a step, as its profile says",
         .group = what_was_seen,
         .comma = true},
        {.name = "--profile",
         .value = &Options::profile,
         .type = "FILE|DIR",
         .help = "a rank's profile of this run (PyTorch's trace, Nsight's SQLite), or a folder of "
                 "several ranks'",
         .group = what_was_seen},
        {.name = "--nccl-tests",
         .value = &Options::nccl_tests,
         .type = "FILE",
         .help = "output of nccl-tests on these machines",
         .group = what_was_seen},
        {.name = "--nvidia-smi",
         .value = &Options::gpu_samples,
         .type = "FILE",
         .help = "samples of nvidia-smi --query-gpu=index,clocks.sm,clocks.max.sm,"
                 "clocks_event_reasons.active --format=csv -l 1 during the run",
         .group = what_was_seen},
        {.name = "--seen",
         .value = &Options::seen,
         .type = "WHAT=VALUE",
         .help = "forward, backward, passes (both), gradient_sync, optimizer=TIME; busy "
                 "(nvidia-smi's utilisation), clock=SHARE; memory (peak of tensors)=BYTES; "
                 "bus_bandwidth=GB/s; may be given several times",
         .group = what_was_seen},
        {.name = "--sound",
         .value = &Options::sound,
         .type = "STEP|KEYS:STEP|ROW",
         .help = "the same run where nothing is wrong (a recipe's, before the upgrade, elsewhere), "
                 "or another one, as gpus=8,cluster.preset=dgx-a100:2.9s; a row",
         .group = what_was_seen},
        {.name = "--beside",
         .value = &Options::beside,
         .type = "KEYS:STEP|ROW",
         .help = "another run of the same set-up, as gpus=8:1.2s; may be given several times",
         .group = what_was_seen},
        {.name = "--ruled-out",
         .value = &Options::ruled_out,
         .type = "CAUSE",
         .help = "a cause that was tested and is not it; may be given several times",
         .group = what_was_seen}};
    return {"diagnose", "why a run is slower than it should be: ranked causes",
            "stepcast diagnose llama3-8b --cluster H100 --gpus 16 --framework torchtitan "
            "--measured 38%MFU",
            joined({{{.name = "RUN",
                      .value = &Options::experiment,
                      .help = "what ran: an experiment, a launch script, a log that states its "
                              "configuration, or a row (TABLE.csv:CASE)",
                      .required = true}},
                    measured,
                    override_arguments(),
                    foreign_arguments(),
                    {json_argument(), out_argument("the page")}}),
            run_diagnose};
}

}  // namespace stepcast
