// What a sweep found, as text: the best configurations first, then what was counted and why the rest is no better.
#pragma once

#include <string>

#include "model/sweep_answer.h"

namespace stepcast {

std::string sweep_table(const SweepAnswer& result);
std::string sweep_markdown(const SweepAnswer& result);

// Writes summary.md, top.csv and the plots that the sweep allows into the folder; tables first, so that they are there
// when gnuplot fails (ConfigError).
void write_sweep(const std::string& folder, const SweepAnswer& result);

}  // namespace stepcast
