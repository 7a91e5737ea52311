// The split, batch and recompute that a row of a table states.
#pragma once

#include <string>
#include <vector>

#include "import/tables/cases.h"
#include "import/tables/shelf.h"
#include "model/experiment.h"

namespace stepcast {

struct RowDevices {
    int ranks = 1;
    double room = 1;  // the share of their memory that a forecast may take
};

// The split in the columns tp to gbs and recompute. What the row leaves open is chosen by the
// memory forecast for the workload, cluster and framework of `experiment`, and listed in
// `assumptions`. Throws ConfigError, column first.
void set_split(const CaseRow& row, const RowDevices& devices, Experiment& experiment, Shelf& shelf,
               std::vector<std::string>& assumptions);

// Clears what the columns zero, sp and recompute say in words that nothing here knows, so that the
// rest of the row is forecast; each is listed in `assumptions`.
void forget_unread_words(CaseRow& row, Shelf& shelf, std::vector<std::string>& assumptions);

// Number of modules per layer that the row's recompute runs again, each under its own checkpoint
// (Megatron-Core).
double calls_again(const CaseRow& row, Shelf& shelf);

// Other plausible readings of what the row leaves open, besides the one chosen for `experiment`.
std::vector<Reading> readings_of_row(const CaseRow& row, const Experiment& experiment, double room);

}  // namespace stepcast
