// What `stepcast list` prints.
#pragma once

#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/experiment.h"
#include "model/framework.h"

namespace stepcast {

// What `list keys` prints, only lines with the word, in any case.
std::string keys_table(const std::vector<KeyDoc>& keys, const std::string& word = "");

// From a table with headings and entries indented by two below them: the entries that have the
// word, in any case, or whose heading has it, with their continuation lines.
std::string entries_with(const std::string& table, const std::string& word);

// What `list presets` prints.
struct PresetList {
    std::vector<Experiment> experiments = {};
    std::vector<std::string> workloads = {}, families = {};
    std::vector<Framework> frameworks = {};
    std::vector<Cluster> clusters = {};
    std::vector<std::string> nameplates = {};
};
std::string presets_table(const PresetList& presets);

}  // namespace stepcast
