// stepcast show: what a preset or file holds, every key with its value.
#include "cli/experiment_inputs.h"
#include "cli/verbs.h"

namespace stepcast {
namespace {

int run_show(const Options& options) {
    print(shown(options));
    return 0;
}

}  // namespace

Verb show_verb() {
    Arguments machine = override_arguments();
    return {"show", "every key of an experiment or preset, who said it, as TOML",
            "stepcast show gpt3_175b_a100",
            joined({{{"NAME",
                      &Options::experiment,
                      "",
                      "experiment, workload, cluster or framework: preset or file",
                      ungrouped,
                      {.required = true}}},
                    machine}),
            run_show};
}

}  // namespace stepcast
