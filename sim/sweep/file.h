// A sweep on disk while it runs: results of screening and simulation, one line each, appended as
// they become known. A killed sweep leaves whole lines, and the same sweep continues from them.
// Format: docs/sweep.md.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "sim/sweep/worker.h"

namespace stepcast {

// A hash of everything that decides the answer: every key of the experiment, axes, constraints, and
// objectives.
std::string fingerprint(const SweepQuestion& question);

class SweepFile {
public:
    // Writes FOLDER/sweep.csv. With `resume`, continues from what the file holds, if anything.
    // Throws ConfigError when the file belongs to another question, when it holds an unfinished
    // sweep and `resume` is not set, or when it cannot be written.
    SweepFile(const std::string& folder, const SweepQuestion& question, bool resume);
    ~SweepFile();
    SweepFile(const SweepFile&) = delete;
    SweepFile& operator=(const SweepFile&) = delete;

    [[nodiscard]] std::optional<Screened> round(std::uint64_t number) const;
    [[nodiscard]] const SimulatedPoint* simulated(PointId id) const;

    void add_round(std::uint64_t number, const Screened& screened);
    void add(const SimulatedPoint& point, const Settings& settings);
    void complete();

private:
    void read(const std::string& text);
    void append(const std::string& lines);

    std::string path_, kept_;  // `kept_`: the lines that count
    bool is_complete_ = false;
    std::map<std::uint64_t, Screened> rounds_;
    std::map<PointId, SimulatedPoint> simulated_;
    std::FILE* file_ = nullptr;
};

}  // namespace stepcast
