#include "cli/argument.h"

namespace stepcast {

Arguments experiment_argument() {
    return {{.name = "EXPERIMENT",
             .value = &Options::experiment,
             .help = "file, preset, workload or config.json; - is standard input",
             .required = true}};
}

Arguments override_arguments() {
    return {{.name = "--cluster",
             .value = &Options::cluster,
             .type = "CLUSTER",
             .help = "the machine: a preset, a GPU's name or a file",
             .group = of_machine},
            {.name = "--gpus",
             .value = &Options::gpus,
             .type = "COUNT",
             .help = "number of GPUs; dp = GPUs / (tp x pp x cp)",
             .group = of_machine,
             .most = 1 << 20},
            {.name = "--framework",
             .value = &Options::framework,
             .type = "FRAMEWORK",
             .help = "whose kernels, overlap and host costs to assume: a preset (list presets "
                     "frameworks) or a file",
             .group = of_machine},
            {.name = "--set",
             .value = &Options::set,
             .type = "KEY=VALUE",
             .help = "any key (stepcast list keys), tp=8 for parallelism.tp=8",
             .group = of_machine}};
}

Arguments override_arguments_of_several() {
    Arguments all = override_arguments();
    for (Argument& one : all)
        if (one.name == std::string_view("--framework")) {
            one.value = &Options::frameworks;
            one.help =
                "whose kernels, overlap and host costs to assume: a preset (list presets "
                "frameworks) or a file; twice: compared";
        }
    return all;
}

Arguments foreign_arguments() {
    return {{.name = "--model",
             .value = &Options::model,
             .type = "MODEL",
             .help = "a workload or config.json for a file that states no sizes",
             .group = of_tools},
            {.name = "--variant",
             .value = &Options::variant,
             .type = "GPU,GPUS,PRECISION",
             .help = "which one of a file with a table of configurations",
             .group = of_tools},
            {.name = "--env",
             .value = &Options::environment,
             .type = "NAME=VALUE",
             .help = "a variable that a launch script reads",
             .group = of_tools}};
}

Arguments campaign_arguments() {
    return {{.name = "--tokens",
             .value = &Options::tokens,
             .type = "COUNT",
             .help = "days, money and energy of a training on so many tokens, as 15T",
             .group = of_training},
            {.name = "--steps",
             .value = &Options::training_steps,
             .type = "COUNT",
             .help = "length of the training in optimizer steps, as 100k, in place of --tokens",
             .group = of_training},
            {.name = "--market",
             .value = &Options::market,
             .type = "FILE.toml",
             .help = "prices, powers and failures, instead of the shipped ones",
             .group = of_training}};
}

Argument trace_argument() {
    return {.name = "--trace",
            .value = &Options::trace,
            .type = "FILE.json",
            .help = "every task of the step, for Perfetto",
            .group = of_output};
}

Argument json_argument() {
    return {
        .name = "--json", .value = &Options::json, .help = "one JSON object", .group = of_output};
}

Argument emit_argument() {
    return {.name = "--emit",
            .value = &Options::emit,
            .type = "megatron|megatron-bridge|nemo|torchtitan|torchtitan-0.3|deepspeed",
            .help = "print the flags or file of that framework",
            .group = of_output};
}

Argument out_argument(const char* help) {
    return {
        .name = "--out", .value = &Options::out, .type = "DIR", .help = help, .group = of_output};
}

Arguments joined(std::initializer_list<Arguments> parts) {
    Arguments all;
    for (const Arguments& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}

}  // namespace stepcast
