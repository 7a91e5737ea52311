// A sweep on disk while it runs: what was screened and simulated, one line each, appended as it is known. A sweep that is
// killed leaves whole lines; reading them again makes the same sweep go on where it was. Format: docs/sweep.md.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "sim/sweep/worker.h"

namespace stepcast {

// Everything that decides the answer: every key of the experiment, what varies, what counts, what is wanted.
std::string fingerprint(const SweepQuestion& question);

class SweepFile {
public:
    // Writes FOLDER/sweep.csv. `resume`: goes on with what is there, if anything. Throws ConfigError when the file belongs
    // to another question, holds an unfinished sweep and `resume` is not asked for, or cannot be written.
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

    std::string path_, kept_;  // the lines that count
    bool is_complete_ = false;
    std::map<std::uint64_t, Screened> rounds_;
    std::map<PointId, SimulatedPoint> simulated_;
    std::FILE* file_ = nullptr;
};

}  // namespace stepcast
