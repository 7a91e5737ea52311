// stepcast list: presets and keys.

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/verbs.h"
#include "import/tables/row_hashes.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/experiment.h"
#include "model/input/presets.h"
#include "reports/list_tables.h"

namespace stepcast {
namespace {

// What planners set most.
constexpr std::array<std::string_view, 20> planning_keys{"workload.seq",
                                                         "parallelism.global_batch",
                                                         "parallelism.micro_batch",
                                                         "parallelism.tp",
                                                         "parallelism.sequence_parallel",
                                                         "parallelism.pp",
                                                         "parallelism.vp",
                                                         "parallelism.schedule",
                                                         "parallelism.stage_layers",
                                                         "parallelism.dp",
                                                         "parallelism.cp",
                                                         "parallelism.ep",
                                                         "runtime.experts.tensor_parallel",
                                                         "parallelism.zero",
                                                         "parallelism.recompute",
                                                         "workload.dtype",
                                                         "workload.optimizer",
                                                         "workload.adapter_rank",
                                                         "run.allocator",
                                                         "cluster.nodes"};

// The planning keys, then how many there are beside them.
std::string planning_keys_table() {
    const std::vector<KeyDoc> all = key_docs();
    std::vector<KeyDoc> shown;
    for (const std::string_view name : planning_keys)
        std::ranges::copy_if(all, std::back_inserter(shown),
                             [&](const KeyDoc& key) { return key.key == name; });
    return keys_table(shown) + "\n" + std::to_string(all.size() - shown.size()) +
           " more: stepcast list keys WORD (workload, overlap, bandwidth, ..) or list keys --all\n";
}

std::string presets() {
    PresetList all{.workloads = preset_names(PresetKind::workload),
                   .families = preset_names(PresetKind::family),
                   .nameplates = preset_names(PresetKind::nameplate)};
    for (const std::string& name : preset_names(PresetKind::experiment))
        all.experiments.push_back(read_experiment(name));
    for (const std::string& name : preset_names(PresetKind::cluster))
        all.clusters.push_back(read_cluster(name));
    for (const std::string& name : preset_names(PresetKind::framework))
        all.frameworks.push_back(read_framework(name));
    return presets_table(all);
}

int run_list(const Options& options) {
    const std::string& what = options.what;
    if (what != "rows" && what != "keys" && what != "presets")
        throw ConfigError(
            "list " + what + ": expected presets, keys or rows" +
            did_you_mean(what, std::array<std::string, 3>{"presets", "keys", "rows"}));
    if (what != "rows" && options.inputs.size() > 1)
        throw ConfigError("list " + what + ": found several words; expected one");
    if (options.all && what != "keys")
        throw ConfigError("--all: is of list keys; list " + what + " shows all");
    const std::string word = options.inputs.empty() ? "" : options.inputs.front();
    const std::string found = what == "rows"                 ? rows_text(options.inputs)
                              : what == "presets"            ? entries_with(presets(), word)
                              : word.empty() && !options.all ? planning_keys_table()
                                                             : keys_table(key_docs(), word);
    if (what != "rows" && found.empty())
        options.say("list " + what + ": no line has \"" + word + "\"");
    print(found);
    return 0;
}

}  // namespace

Verb list_verb() {
    return {"list",
            "presets, keys, or the contents of measured rows",
            "stepcast list presets frameworks",
            {{"WHAT", &Options::what, "", "presets, keys or rows", ungrouped, {.required = true}},
             {"WORD|FILE.csv", &Options::inputs, "",
              "of presets and keys: only those whose line holds the word; of rows: files, "
              "of which it prints the hash of every row"},
             {"--all", &Options::all, "", "of keys: every one, not only those of planning"}},
            run_list};
}

}  // namespace stepcast
