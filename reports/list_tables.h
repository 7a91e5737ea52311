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
std::string presets_table(const std::vector<Experiment>& experiments,
                          const std::vector<std::string>& workloads,
                          const std::vector<std::string>& families,
                          const std::vector<Framework>& frameworks,
                          const std::vector<Cluster>& clusters,
                          const std::vector<std::string>& nameplates);

}  // namespace stepcast
