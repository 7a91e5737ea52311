// A whole training in days, money and energy, as text.
#pragma once

#include <string>

#include "sim/campaign.h"
#include "sim/results/campaign.h"

namespace stepcast {

// A whole training in days, money and energy, as `simulate --tokens` prints it below the step.
std::string campaign_table(const Campaign& campaign);

// Cells of other tables: "41.2 d (38.9 .. 44.0)", the p50 and, if different, p10 and p90; "-" =
// unknown.
std::string days_text(const Campaign& campaign);
std::string money_text(const Campaign& campaign);
std::string energy_text(const Campaign& campaign);

std::string duration_text(Seconds time);  // "41.2 d", "7.3 h", "12.0 min"
std::string spoken_count(double count);   // "15 T", "2.5 M"

// "94.2 %: a failure every 4.1 d, a checkpoint every 1.1 h"
std::string goodput_text(const Goodput& goodput);

// "6.16 USD an hour (CoreWeave, ..)", or what to set
std::string price_text(const Campaign& campaign);

}  // namespace stepcast
