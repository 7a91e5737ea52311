// Facts that pages of several verbs state. Internal to reports/.
#pragma once

#include "model/answers/forecast.h"
#include "model/experiment.h"
#include "reports/page.h"

namespace stepcast {

// Memory with its verdict, what bounds the step, utilization, how far it is calibrated.
std::vector<Fact> facts_of(const Forecast& forecast);
// "p10 .. p90 12.1 .. 13.0 s" or why there is none.
std::string interval_text(const Forecast& forecast);
// Notes of forecasts in plain words: alike ones in one sentence.
std::vector<std::string> plain_warnings(const std::vector<std::string>& notes);
// Cluster and framework: what they were fitted to and how well they predicted what was left out.
std::vector<Fact> provenance_of(const Cluster& cluster);
std::vector<Fact> provenance_of(const Framework& framework);

Fact program_fact(const std::string& version);  // its lines as one

Table breakdown_table(const Forecast& forecast);
Table memory_table(const Forecast& forecast);

}  // namespace stepcast
