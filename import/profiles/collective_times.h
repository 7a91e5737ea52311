// Collectives of several ranks' profiles, matched call by call: from the last arrival to the end.
#pragma once

#include <string>
#include <vector>

#include "import/profiles/profile.h"
#include "import/profiles/profile_times.h"

namespace stepcast {

// Throws ConfigError when calls that must be the same collective are of different kinds: the files
// are of different jobs.
Meetings meetings_of(const std::vector<Profile>& ranks);

// `ranks`: one or several ranks of one job.
std::vector<CollectiveTimes> collective_times(const std::vector<Profile>& ranks);

// The common name of a recorded collective ("allreduce" -> "all_reduce"), "" if it moves no data or
// is unknown; and its payload as nccl-tests counts it: the whole buffer, for an all-gather the
// result, for a reduce-scatter the input.
std::string collective_kind(const CollectiveCall& call);
Bytes collective_bytes(const CollectiveCall& call);

}  // namespace stepcast
