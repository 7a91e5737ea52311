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

// Of each rank of a file or folder: what its device does (profile_times.h).
std::vector<RankUse> read_rank_use(const std::string& path);

// Reads a file of either profiler; an Nsight export may hold several processes, each a profile.
// Throws ConfigError for other files and for traces without GPU work.
std::vector<Profile> read_profiles(const std::string& path);
bool is_kineto(const std::string& path);  // by its structure
bool is_nsight(const std::string& path);

// Whether a kernel moves data between ranks, by its name: NCCL's and RCCL's, symmetric memory's,
// DeepEP's, NVSHMEM's.
bool is_communication(std::string_view kernel);

}  // namespace stepcast
