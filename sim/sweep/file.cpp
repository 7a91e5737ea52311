#include "sim/sweep/file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "model/base/csv.h"
#include "model/base/errors.h"
#include "model/base/whole_files.h"

namespace stepcast {

SweepFile::SweepFile(const std::string& folder, const std::vector<VariedKey>& keys)
    : path_(folder + "/sweep.csv") {
    if (!std::filesystem::exists(path_))
        for (const char* name : {"top.csv", "summary.md", "report.html"})
            if (std::filesystem::exists(folder + "/" + name))
                throw ConfigError(
                    fmt::format("{}/{}: is of no sweep, as no sweep.csv lies next to it; expected "
                                "another --out, or that it is moved",
                                folder, name));
    std::string head;
    for (const VariedKey& key : keys) head += csv_field(key.name) + ",";
    write_whole({{path_, head + "step_s,refused\n"}});
    file_ = std::fopen(path_.c_str(), "a");
    if (!file_) throw ConfigError(path_ + ": cannot be written (" + std::strerror(errno) + ")");
}

SweepFile::~SweepFile() {
    if (file_) std::fclose(file_);
}

void SweepFile::add(const SimulatedPoint& point, const Settings& settings) {
    std::string line;
    for (const auto& [key, value] : settings) line += csv_field(value) + ",";
    const bool counts = point.refused.empty();
    line += fmt::format("{},{}\n", counts ? fmt::format("{}", point.step.si()) : "",
                        csv_field(point.refused));
    if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() || std::fflush(file_) != 0)
        throw ConfigError(path_ + ": cannot be written (" + std::strerror(errno) + ")");
}

}  // namespace stepcast
