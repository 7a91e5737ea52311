// What a row leaves open of its batch and its step follows from what it states of the other.
#pragma once

#include <string>
#include <vector>

#include "import/tables/cases.h"

namespace stepcast {

// Fills `gbs` and `step_s` where they are empty and the row says enough, and lists each in
// `assumptions`:
// - a rate of tokens or sequences and the step make the batch, rate and batch the step;
// - a rate alone makes the step of an ordinary batch: as many sequences as its micro-batch needs,
// or
//   of 16,384 tokens a replica, four micro-batches a stage in a pipeline;
// - a step without a rate is of one micro-batch a replica where there is no pipeline.
void complete_batch(CaseRow& row, std::vector<std::string>& assumptions);

}  // namespace stepcast
