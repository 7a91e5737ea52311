// The table of a sweep that runs: each simulated point as soon as it is known, so that a stopped
// sweep leaves what it found. Format: docs/cli.md.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "sim/sweep/space.h"
#include "sim/sweep/worker.h"

namespace stepcast {

class SweepFile {
public:
    // Begins FOLDER/sweep.csv anew, with a column for each of the keys. Throws ConfigError when it
    // cannot be written, or when the folder holds another verb's tables.
    SweepFile(const std::string& folder, const std::vector<VariedKey>& keys);
    ~SweepFile();
    SweepFile(const SweepFile&) = delete;
    SweepFile& operator=(const SweepFile&) = delete;

    void add(const SimulatedPoint& point, const Settings& settings);

private:
    std::string path_;
    std::FILE* file_ = nullptr;
};

}  // namespace stepcast
