// A profile as measured rows: kernels, collectives, phases, launches.
#pragma once

#include <string>
#include <vector>

#include "import/profiles/profile.h"
#include "model/base/whole_files.h"
#include "model/records/measurements.h"

namespace stepcast {

// Samples of each step: its time (from start to start, for the last step its own length), the
// summed kernels of each phase, exposed communication as gradient_sync, busy and idle time. Without
// steps the whole trace is step 0 with phase "window".
std::vector<Sample> profile_samples(const Profile& profile, const Sample& like);

// The tables that have rows. Their names end in "gemms", "batches", "attention", "passes",
// "collectives" or "launches".
std::vector<PlannedFile> profile_tables(const std::vector<Profile>& ranks, const std::string& out,
                                        int nodes, std::vector<std::string>& notes);

}  // namespace stepcast
