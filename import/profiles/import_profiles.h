// Imports profiles and nccl-tests output as the tables of this program: measurements of steps and
// phases; and kernels, collectives and launches, which `calibrate --measurements` and `compare`
// read.
#pragma once

#include <string>
#include <vector>

#include "import/profiles/nccl_tests.h"
#include "import/profiles/profile.h"
#include "import/profiles/profile_times.h"
#include "model/base/whole_files.h"
#include "model/records/measurements.h"

namespace stepcast {

struct ProfileImport {
    std::vector<std::string> paths;  // files, or folders with one file per rank
    // "X.csv": steps and phases; X.gemms.csv, X.collectives.csv and others are written next to it
    std::string out;
    std::string system, model;  // as in measurements; "" = not given
    NcclTestsContext context;
    // "profile": what is no profile is refused as such; else as recognised
    std::string format = {};
};

// Whether every path is a profile or nccl-tests output (or a folder of profiles).
bool are_profiles(const std::vector<std::string>& paths);

// One job's profiles by ascending rank; describes each in `report`. Refuses ranks that occur twice
// or are of different jobs.
std::vector<Profile> read_job(const std::vector<std::string>& paths,
                              std::vector<std::string>& report);

// Reads everything and writes every table with rows, or throws ConfigError and writes none. Returns
// notes on what was taken and left out.
std::vector<std::string> import_profiles(const ProfileImport& request);

// Of each rank of a file or folder: what its kernels take (profile_times.h).
std::vector<KernelShares> read_kernel_shares(const std::string& path);

// Samples of each step: its time (from start to start, for the last step its own length), the
// summed kernels of each phase, exposed communication as gradient_sync, busy and idle time. Without
// steps the whole trace is step 0 with phase "window".
std::vector<Sample> profile_samples(const Profile& profile, const Sample& like);
// The tables that have rows. Their names end in "gemms", "batches", "attention", "passes",
// "collectives" or "launches".
std::vector<PlannedFile> profile_tables(const std::vector<Profile>& ranks, const std::string& out,
                                        int nodes, std::vector<std::string>& notes);

}  // namespace stepcast
