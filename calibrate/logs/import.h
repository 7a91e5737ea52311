// Training logs to measurements. Each dialect is one .cpp; a log that breaks off or does not fit is refused with its
// line, never imported by half.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/logs/sample_record.h"
#include "model/names.h"
#include "model/records/measurements.h"
#include "model/routing.h"

namespace stepcast {

// moe_steps: `STEP-n` lines per run, the system (and of whole models the model) named in its [Summary] line. moe_phases:
// the same with a trace of kernels and host phases of every rank between the steps. opt_prime: a pipeline's layer times
// per stage and ms/batch. deepspeed: the wall-clock breakdown. custom: lines that a pattern file describes.
enum class LogFormat { automatic, moe_steps, moe_phases, opt_prime, deepspeed, custom };
constexpr auto names_of(LogFormat) {
    using enum LogFormat;
    return name_table<LogFormat>("a format of logs", {{automatic, "auto"}, {moe_steps, "moe-steps"}, {moe_phases, "moe-phases"},
                                                      {opt_prime, "opt-prime"}, {deepspeed, "deepspeed"}, {custom, "custom"}});
}

// used: gave a value; skipped: known, nothing to keep; unknown: not understood.
struct LineCounts {
    long used = 0, skipped = 0, unknown = 0;
    friend bool operator==(const LineCounts&, const LineCounts&) = default;
};

// The shape that a log states for its layer, carried in Sample::model as "moe_layer-1024x4096-fp16-8192-top2".
struct LayerShape {
    int hidden = 0, ffn = 0, tokens = 0, top_k = 0;
    std::string dtype;
    friend bool operator==(const LayerShape&, const LayerShape&) = default;
};
std::string model_name(const LayerShape& shape);
std::optional<LayerShape> parse_model_name(std::string_view text);

struct ImportedRun {
    std::string run_id;  // FILE-NUMBER-SYSTEM-E (E = experts per rank) or, of whole models, FILE-NUMBER-SYSTEM-MODEL
    std::string system, model;
    LayerShape shape;  // of an MoE layer
    int experts = 0;   // total over all ranks; 0 = dense, or not told
    int ranks = 0;
    int steps = 0;
    long first_line = 0, last_line = 0;
    std::optional<Routing> routing;  // block totals of the steady steps, when recorded and attributable
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
    std::vector<std::string> kept_phases = {};  // with medians_only: samples of these all the same
    std::string steps = {};                     // "30-465": only these, of samples and medians
    // What a log does not say, or says in a way that the pattern file tells.
    std::string pattern = {};  // file, for custom; with automatic it implies custom
    std::string system = {}, model = {};
    std::vector<std::string> inputs = {};  // "KEY=A,B,..": a value a step, from the first step on; one value: of the run
};

// Run by run in bounded memory: `take` gets each run, and in a record to replay the samples of every step; several of one
// (phase, rank -1, step) = ranks not told apart. Throws ConfigError with path:line.
using TakeRun = std::function<void(ImportedRun&& run, SampleRecord& samples)>;
ImportResult stream_log(const std::string& path, const ImportRequest& how, const TakeRun& take);
Sample sample_like(const ImportedRun& run);  // what its samples have in common

inline constexpr int fewest_steady_steps = 10;

// Medians over steady steps as rows with step = -1, in order of first appearance of (run, phase, rank). Where ranks
// are not told apart, three rows: median over steps of the least, the middle and the greatest of a step, phases
// NAME.least, NAME.median, NAME.greatest.
struct Summaries {
    std::vector<Sample> rows;
    std::vector<std::string> refused;  // runs with too few steady steps, with the reason
    friend bool operator==(const Summaries&, const Summaries&) = default;
};
Summaries summaries(const std::vector<Sample>& samples);
// The rows of each run, runs in the order of their first row.
std::vector<std::vector<Sample>> runs_of(const std::vector<Sample>& samples);
std::string too_few_steps(const std::string& run_id, int last_step);  // why a run gets no medians; "" when it does

// Recorded block totals as rows of a measurements file (phases "blocks" and "remote_blocks" per rank, unit 1), so that a
// file of medians says itself under which routing they hold; and back.
std::vector<Sample> routing_rows(const ImportedRun& run);
std::optional<Routing> recorded_routing(const std::vector<Sample>& rows_of_one_run);

// Imports all logs and writes all files, or throws and writes none. Returns what to tell the user, one line each.
std::vector<std::string> import_to_files(const ImportRequest& request);

}  // namespace stepcast
