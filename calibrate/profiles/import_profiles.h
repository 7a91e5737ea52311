// Profiles and nccl-tests output to the tables that the product speaks: measurements of steps and phases, and kernels,
// collectives and launches as `calibrate --measurements` and `compare` read them.
#pragma once

#include <string>
#include <vector>

#include "calibrate/profiles/nccl_tests.h"
#include "calibrate/profiles/profile.h"
#include "model/files/whole_files.h"
#include "model/records/measurements.h"

namespace stepcast {

struct ProfileImport {
    std::vector<std::string> paths;  // files, or folders of one file a rank
    std::string out;                 // "X.csv": steps and phases; X.gemms.csv, X.collectives.csv, .. stand next to it
    std::string system, model;       // as measurements name them; "" = not said
    NcclTestsContext context;
};

// Whether every path is a profile or nccl-tests output (or a folder of profiles).
bool are_profiles(const std::vector<std::string>& paths);

// One job's ranks, each once, the least first, from files or folders; what they hold is told in `report`.
std::vector<Profile> read_job(const std::vector<std::string>& paths, std::vector<std::string>& report);

// Reads everything, writes every table that has a row, or throws ConfigError and writes none. Says what was taken, inferred
// and left out, one line each. Ranks that are there twice, or of different jobs, are refused.
std::vector<std::string> import_profiles(const ProfileImport& request);

// Step (start to start; the last by itself), and within each step the union of the kernels of each phase, exposed
// communication as gradient_sync, busy and idle. Without steps the whole window is step 0, phase "window".
std::vector<Sample> profile_samples(const Profile& profile, const Sample& like);
// The tables by the end of their name, "gemms", "batches", "attention", "passes", "collectives", "launches", those with rows.
std::vector<PlannedFile> profile_tables(const std::vector<Profile>& ranks, const std::string& out, int nodes,
                                        std::vector<std::string>& notes);

}  // namespace stepcast
