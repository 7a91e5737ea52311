// What a sweep found as text and tables; the best first.
#pragma once

#include <string>

#include "model/answers/sweep_answer.h"
#include "reports/table.h"

namespace stepcast {

// For a terminal: the best, what they have in common, counts and the proof.
std::string sweep_table(const SweepAnswer& result);

// Parts of it, for pages. "" where there is nothing to say.
Table rows_table(const SweepAnswer& result, const std::vector<SweepRow>& rows);
std::string sweep_title(const SweepAnswer& result);
std::string sweep_counts(const SweepAnswer& result);   // lines
std::string sweep_doubts(const SweepAnswer& result);   // what the ranking leaves open
std::string within_text(const SweepAnswer& result);    // the least machines that end in time
std::string campaign_text(const SweepAnswer& result);  // what days, money and energy rest on, machine by machine

// The best as comma-separated values, SI units in the names.
std::string top_csv(const SweepAnswer& result);

}  // namespace stepcast
