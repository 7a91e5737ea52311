// Imports training logs as measurements. Each dialect is one .cpp. A log that breaks off or does
// not fit is refused with its line.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "import/logs/sample_record.h"
#include "import/tables/cases.h"
#include "model/records/measurements.h"
#include "model/routing.h"

namespace stepcast {

// moe_steps: `STEP-n` lines for each run; the [Summary] line names the system (and for whole models
// the model). moe_phases: the same, with every rank's kernels and host phases between the steps.
// opt_prime: layer times of a pipeline's stages, and ms/batch. deepspeed: the wall-clock breakdown.
// custom: lines that a pattern file describes.
NAMED_ENUM_AS(LogFormat, "a format of logs",
              "auto, moe-steps, moe-phases, opt-prime, deepspeed, custom", automatic, moe_steps,
              moe_phases, opt_prime, deepspeed, custom);

// used: gave a value; skipped: understood, but has nothing to keep; unknown: not understood.
struct LineCounts {
    long used = 0, skipped = 0, unknown = 0;
    friend bool operator==(const LineCounts&, const LineCounts&) = default;
};

struct ImportedRun {
    // FILE-NUMBER-SYSTEM-E (E = experts per rank), for whole models FILE-NUMBER-SYSTEM-MODEL
    std::string run_id;
    std::string system, model;
    LayerShape shape;  // only for an MoE layer
    int experts = 0;   // total over all ranks; 0 = dense, or unknown
    int ranks = 0;
    int steps = 0;
    long first_line = 0, last_line = 0;
    // block totals of the steady steps, if recorded and attributable to ranks
    std::optional<Routing> routing;
    std::vector<std::string> notes;
    friend bool operator==(const ImportedRun&, const ImportedRun&) = default;
};

struct ImportResult {
    std::string path;
    LogFormat format = LogFormat::automatic;
    LineCounts lines;
    friend bool operator==(const ImportResult&, const ImportResult&) = default;
};

struct ImportRequest {
    std::vector<std::string> logs;
    LogFormat format = LogFormat::automatic;
    std::string out;          // measurements CSV: all samples, then the medians
    std::string routing_out;  // folder for SYSTEM_EXPERTS.csv; empty = none
    bool medians_only = false;
    // with medians_only: phases whose samples are written nevertheless
    std::vector<std::string> kept_phases = {};
    // "30-465": only these steps, for samples and medians
    std::string steps = {};
    // What the log does not say, or what only a pattern file can read.
    std::string pattern = {};  // a file, for custom; with automatic it implies custom
    std::string system = {}, model = {};
    // "KEY=A,B,..": one value for each step from the first on; a single value: for the run
    std::vector<std::string> inputs = {};
    int ranks = 0;  // of the runs, where the log's lines do not say; 0 = not known
};

// Reads run by run in bounded memory. `take` gets each run and a record that replays the samples of
// all its steps. Several samples of one (phase, rank -1, step) come from ranks that the log does
// not tell apart. Throws ConfigError with path:line.
using TakeRun = std::function<void(ImportedRun&& run, SampleRecord& samples)>;

Sample sample_like(const ImportedRun& run);  // the fields that the run's samples share

inline constexpr int fewest_steady_steps = 10;

// Medians over steady steps as rows with step = -1, in order of first appearance of (run, phase,
// rank). Where ranks are not told apart there are three rows, NAME.least, NAME.median and
// NAME.greatest: the medians over steps of a step's least, middle and greatest value.
struct Summaries {
    std::vector<Sample> rows;
    std::vector<std::string> refused;  // why runs have no medians: too few steady steps
    friend bool operator==(const Summaries&, const Summaries&) = default;
};

// Imports all logs and writes all files, or throws and writes none. Returns the lines to show to
// the user.
std::vector<std::string> import_to_files(const ImportRequest& request);
// What it would write to `out`, and the lines to show; no file is written.
struct ImportedSamples {
    std::vector<Sample> rows;
    std::vector<std::string> report;
};
ImportedSamples import_samples(const ImportRequest& request);

}  // namespace stepcast
