// A row of a table as a case: an experiment, what was measured, and what had to be assumed.
#pragma once

#include <string>
#include <vector>

#include "import/tables/cases.h"
#include "import/tables/shelf.h"
#include "sim/results/comparison.h"

namespace stepcast {

// The experiment of a row. If `model` names a preset experiment, the row's cells override that
// preset; otherwise the row's columns describe a transformer. `cluster` overrides the row's gpu
// column, `framework` its framework (import/tables/shelf.h). Throws ConfigError when the row cannot
// be predicted.
Case case_of(const CaseRow& row, const std::string& cluster, const std::string& framework = "");

// Each fills one part of a case: its source, id and series; the measured step and its passes.
void name_after(const CaseRow& row, Case& result);
void take_measured(const CaseRow& row, Case& result);

// case_of() with a shelf of clusters that were already read.
Case case_of(const CaseRow& row, const std::string& cluster, Shelf& shelf);

// Assumes a random gate where routing was neither stated nor recorded; `why` is for example
// "routing not stated".
void add_random_gate(const std::string& why, std::vector<Override>& overrides,
                     std::vector<std::string>& assumptions);

}  // namespace stepcast
