// The tables of a search; one column is one add().
#pragma once

#include <string>
#include <vector>

#include "reports/table.h"
#include "sim/results/sweep_answer.h"

namespace stepcast {

// The answer of a sweep: the best configurations, what they have in common, counts and the proof.
std::string sweep_table(const SweepAnswer& result);

// Parts of it, for pages. "" if there is nothing to say.
Table rows_table(const SweepAnswer& result, const std::vector<SweepRow>& rows);
std::string sweep_title(const SweepAnswer& result);
std::string sweep_counts(const SweepAnswer& result);  // several lines
std::string sweep_doubts(const SweepAnswer& result);  // what the ranking leaves open
std::string within_text(const SweepAnswer& result);   // the smallest machines that finish in time
std::string each_of_text(const SweepAnswer& result);  // "moe_system and nodes"

// the basis of days, money and energy for each machine
std::string campaign_text(const SweepAnswer& result);

// The best configurations as comma-separated values, with SI units in the names.
std::string top_csv(const SweepAnswer& result);

}  // namespace stepcast
