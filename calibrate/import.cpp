#include "calibrate/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "calibrate/moe_log.h"
#include "model/errors.h"
#include "model/whole_files.h"

namespace stepcast {
namespace {

// moe-phases when ranks' phase lines come before the first STEP of a run, else moe-steps.
LogFormat recognise(const std::string& path) {
    bool benchmark = false, step = false, phases = false;
    long lines = 0;
    read_lines(path, [&](const LogLine& line) {
        lines = line.number;
        benchmark = benchmark || (line.text.starts_with("[Benchmark]") &&
                                  line.text.find("num_local_experts = ") != std::string_view::npos);
        step = step || line.text.starts_with("STEP-");
        phases = phases || line.text.starts_with("block_info ") || line.text.starts_with("AG, ");
        return !(benchmark && step);
    });
    if (lines == 0) throw ConfigError(path + ": is empty; expected a training log");
    if (benchmark) return phases ? LogFormat::moe_phases : LogFormat::moe_steps;
    throw ConfigError(fmt::format(
        "{}: not a log that stepcast recognises: looked through {} lines for \"[Benchmark] world_size = .., "
        "num_local_experts = ..\" followed by \"STEP-0: step_time = ..\" (moe-steps), with \"block_info\" and \"AG,\" "
        "lines between (moe-phases), and found {}",
        path, lines,
        step     ? "STEP lines without a [Benchmark] line"
        : phases ? "phase lines without a [Benchmark] line"
                 : "none of them"));
}

std::string describe(const ImportResult& result) {
    return fmt::format("{}: {}, {} runs; lines: {} used, {} skipped, {} unknown", result.path, to_string(result.format),
                       result.runs.size(), result.lines.used, result.lines.skipped, result.lines.unknown);
}

// One file a run that recorded its routing. Runs of one system and size that recorded the same share a file; one that
// recorded another gets a number behind its name.
std::vector<PlannedFile> routing_files(const std::vector<ImportedRun>& runs, const std::string& folder,
                                       std::vector<std::string>& report) {
    std::vector<PlannedFile> files;
    std::map<std::string, std::vector<const ImportedRun*>> taken;
    for (const ImportedRun& run : runs) {
        if (!run.routing) continue;
        const std::string name = fmt::format("{}_{}", run.system, run.experts);
        std::vector<const ImportedRun*>& before = taken[name];
        if (std::any_of(before.begin(), before.end(),
                        [&](const ImportedRun* other) { return other->routing == run.routing; }))
            continue;
        before.push_back(&run);
        const std::string numbered = before.size() == 1 ? name + ".csv" : fmt::format("{}-{}.csv", name, before.size());
        if (before.size() > 1)
            report.push_back(fmt::format("{}: recorded another routing than {}; written to {}", run.run_id,
                                         before.front()->run_id, numbered));
        files.push_back({(std::filesystem::path(folder) / numbered).string(), write_routing(*run.routing)});
    }
    if (files.empty()) report.push_back("no run records its routing; no routing file written");
    return files;
}

}  // namespace

LogFormat parse_log_format(std::string_view text) {
    if (text == "auto") return LogFormat::automatic;
    if (text == "moe-steps") return LogFormat::moe_steps;
    if (text == "moe-phases") return LogFormat::moe_phases;
    const std::vector<std::string> valid{"auto", "moe-steps", "moe-phases"};
    throw ConfigError(
        fmt::format("format: \"{}\" is not one of auto, moe-steps, moe-phases{}", text, did_you_mean(text, valid)));
}

std::string_view to_string(LogFormat format) {
    switch (format) {
        case LogFormat::automatic: return "auto";
        case LogFormat::moe_steps: return "moe-steps";
        case LogFormat::moe_phases: return "moe-phases";
    }
    return "";
}

std::string model_name(const LayerShape& shape) {
    return fmt::format("moe_layer-{}x{}-{}-{}-top{}", shape.hidden, shape.ffn, shape.dtype, shape.tokens, shape.top_k);
}

std::optional<LayerShape> parse_model_name(std::string_view text) {
    LineCursor cursor(text);
    LayerShape shape;
    const auto read = [&](std::string_view before, int& into) {
        const std::optional<int> value = cursor.word(before) ? cursor.integer() : std::nullopt;
        if (value) into = *value;
        return value && *value > 0;
    };
    if (!read("moe_layer-", shape.hidden) || !read("x", shape.ffn) || !cursor.word("-")) return std::nullopt;
    const std::size_t end = cursor.rest().find('-');
    if (end == std::string_view::npos) return std::nullopt;
    shape.dtype = cursor.rest().substr(0, end);
    cursor.word(shape.dtype);
    if (!read("-", shape.tokens) || !read("-top", shape.top_k) || !cursor.at_end()) return std::nullopt;
    return shape;
}

ImportResult import_log(const std::string& path, LogFormat format) {
    if (format == LogFormat::automatic) format = recognise(path);
    return format == LogFormat::moe_phases ? import_moe_phases(path) : import_moe_steps(path);
}

std::vector<std::string> import_to_files(const ImportRequest& request) {
    if (request.logs.empty()) throw ConfigError("import: no log named; expected at least one file");
    std::vector<std::string> report;
    std::vector<ImportedRun> runs;
    std::set<std::string> ids;
    for (const std::string& path : request.logs) {
        ImportResult result = import_log(path, request.format);
        report.push_back(describe(result));
        for (ImportedRun& run : result.runs) {
            for (const std::string& note : run.notes) report.push_back(fmt::format("{}: {}", run.run_id, note));
            if (!ids.insert(run.run_id).second) {
                throw ConfigError(fmt::format("{}: run {} comes from two logs of one file name; rename one of them",
                                              path, run.run_id));
            }
            runs.push_back(std::move(run));
        }
    }
    std::vector<Sample> rows, medians;
    for (ImportedRun& run : runs) {
        Summaries of_run = summaries(run.samples);
        for (const std::string& why : of_run.refused) report.push_back(why);
        medians.insert(medians.end(), of_run.rows.begin(), of_run.rows.end());
        const std::vector<Sample> routing = routing_rows(run);
        medians.insert(medians.end(), routing.begin(), routing.end());
        if (!request.medians_only) rows.insert(rows.end(), run.samples.begin(), run.samples.end());
        run.samples = {};
    }
    rows.insert(rows.end(), medians.begin(), medians.end());
    std::vector<PlannedFile> files;
    if (!request.routing_out.empty()) files = routing_files(runs, request.routing_out, report);
    files.push_back({request.out, write_measurements(rows)});
    write_whole(files);
    report.push_back(
        fmt::format("{}: {} rows, of them {} medians over steady steps", request.out, rows.size(), medians.size()));
    return report;
}

}  // namespace stepcast
