#include "cli/argument.h"

#include "model/base/lists.h"

namespace stepcast {

Arguments experiment_argument() {
    return {{"EXPERIMENT",
             &Options::experiment,
             "",
             "file, preset, workload or config.json; - is standard input",
             ungrouped,
             {.required = true}}};
}

Arguments override_arguments() {
    return {{"--cluster", &Options::cluster, "CLUSTER",
             "the machine: a preset, a GPU's name or a file", of_machine},
            {"--gpus",
             &Options::gpus,
             "COUNT",
             "number of GPUs; dp = GPUs / (tp x pp x cp)",
             of_machine,
             {.most = 1 << 20}},
            {"--framework", &Options::framework, "FRAMEWORK",
             "whose kernels, overlap and host costs to assume: a preset (list presets "
             "frameworks) or a file",
             of_machine},
            {"--set", &Options::set, "KEY=VALUE",
             "any key (stepcast list keys), tp=8 for parallelism.tp=8", of_machine}};
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
    return {{"--model", &Options::model, "MODEL",
             "a workload or config.json for a file that states no sizes", of_tools},
            {"--variant", &Options::variant, "GPU,GPUS,PRECISION",
             "which one of a file with a table of configurations", of_tools},
            {"--env", &Options::environment, "NAME=VALUE", "a variable that a launch script reads",
             of_tools}};
}

Arguments campaign_arguments() {
    return {
        {"--tokens", &Options::tokens, "COUNT",
         "days, money and energy of a training on so many tokens, as 15T", of_training},
        {"--steps", &Options::training_steps, "COUNT",
         "length of the training in optimizer steps, as 100k, in place of --tokens", of_training},
        {"--market", &Options::market, "FILE.toml",
         "prices, powers and failures, instead of the shipped ones", of_training}};
}

Argument trace_argument() {
    return {"--trace", &Options::trace, "FILE.json", "every task of the step, for Perfetto",
            of_output};
}

Argument json_argument() { return {"--json", &Options::json, "", "one JSON object", of_output}; }

Argument emit_argument() {
    return {"--emit", &Options::emit,
            "megatron|megatron-bridge|nemo|torchtitan|torchtitan-0.3|deepspeed",
            "print the flags or file of that framework", of_output};
}

Argument out_argument(const char* help) { return {"--out", &Options::out, "DIR", help, of_output}; }

Arguments joined(std::initializer_list<Arguments> parts) {
    Arguments all;
    for (const Arguments& part : parts) append(all, part);
    return all;
}

}  // namespace stepcast
