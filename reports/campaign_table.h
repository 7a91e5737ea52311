// A whole training as text: days, money, energy.
#pragma once

#include <string>

#include "model/answers/campaign.h"

namespace stepcast {

// What `simulate --tokens` prints beneath the step.
std::string campaign_table(const Campaign& campaign);

// Cells of other tables: "41.2 d (38.9 .. 44.0)", the p50 with p10 and p90 behind it where they differ; "-" = not known.
std::string days_text(const Campaign& campaign);
std::string money_text(const Campaign& campaign);
std::string energy_text(const Campaign& campaign);

std::string duration_text(Seconds time);              // "41.2 d", "7.3 h", "12.0 min"
std::string spoken_count(double count);               // "15 T", "2.5 M"
std::string goodput_text(const Goodput& goodput);     // "94.2 %: a failure every 4.1 d, a checkpoint every 1.1 h"
std::string price_text(const Campaign& campaign);     // "6.16 USD an hour (CoreWeave, ..)", or what to set

}  // namespace stepcast
