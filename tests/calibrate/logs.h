// Folders with small logs for the importers' tests.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "import/logs/import.h"
#include "import/logs/stream_log.h"

namespace stepcast {

// A new folder for every use, removed at the end.
struct LogFolder {
    std::filesystem::path path;
    LogFolder() {
        static int count = 0;
        path = std::filesystem::temp_directory_path() /
               ("stepcast-logs-" + std::to_string(getpid()) + "-" + std::to_string(count++));
        std::filesystem::create_directories(path);
    }
    ~LogFolder() { std::filesystem::remove_all(path); }
    LogFolder(const LogFolder&) = delete;
    LogFolder& operator=(const LogFolder&) = delete;
    [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
        std::ofstream(path / name, std::ios::binary) << text;
        return (path / name).string();
    }
};

// A whole log in memory.
struct ReadRun : ImportedRun {
    std::vector<Sample> samples;
};
struct ReadLog : ImportResult {
    std::vector<ReadRun> runs;
};
inline ReadLog import_log(const std::string& path, const ImportRequest& options) {
    ReadLog log;
    static_cast<ImportResult&>(log) =
        stream_log(path, options, [&](ImportedRun&& run, SampleRecord& samples) {
            Sample sample = sample_like(run);
            ReadRun& read = log.runs.emplace_back(ReadRun{std::move(run), {}});
            samples.replay([&](const SampleRecord::Value& value) {
                const SampleRecord::Phase& phase = samples.phases()[value.phase];
                sample.phase = phase.name;
                sample.unit = phase.unit;
                sample.rank = value.rank;
                sample.step = value.step;
                sample.value = value.value;
                read.samples.push_back(sample);
            });
        });
    return log;
}
inline ReadLog import_log(const std::string& path, LogFormat format = LogFormat::automatic) {
    ImportRequest options;
    options.format = format;
    return import_log(path, options);
}

// (step, value) of one phase and rank, in the order of the log.
inline std::vector<std::pair<int, double>> series(const ReadRun& run, const std::string& phase,
                                                  int rank = -1) {
    std::vector<std::pair<int, double>> found;
    for (const Sample& s : run.samples)
        if (s.phase == phase && s.rank == rank) found.emplace_back(s.step, s.value);
    return found;
}

}  // namespace stepcast
