#include "model/records/free_folder.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "model/errors.h"

namespace stepcast {

namespace fs = std::filesystem;

int opened_folder(const std::string& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw ConfigError(folder + ": cannot be made (" + error.message() + ")");
    const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0) throw ConfigError(folder + ": cannot be opened (" + std::strerror(errno) + ")");
    return opened;
}

std::string not_free(const std::string& folder) {
    const fs::path root(folder);
    if (fs::exists(root / "run.toml")) return "holds a run already";
    if (fs::exists(root / begun_file)) return "";
    for (const char* name : {"experiment.toml", "cluster.toml", "framework.toml", "routing.csv", "run.csv", "estimates.csv",
                             "trace_0000.csv", "report.html"})
        if (fs::exists(root / name)) return std::string("holds a ") + name + " that is of no run and would be overwritten";
    return "";
}

}  // namespace stepcast
