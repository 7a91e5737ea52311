// Published measurements that the repository does not ship: the folder shared/truth beside or above the source tree. The
// suite passes without it.
#pragma once

#include <filesystem>
#include <string>

#include "model/presets.h"

namespace stepcast {

// "" when it is not there.
inline std::string truth_folder() {
    namespace fs = std::filesystem;
    std::error_code ignored;
    for (fs::path at = fs::weakly_canonical(home_folder()).parent_path(); at.has_relative_path(); at = at.parent_path())
        if (fs::is_directory(at / "shared" / "truth", ignored)) return (at / "shared" / "truth").string();
    return "";
}
inline std::string truth_file(const std::string& name) {
    const std::string folder = truth_folder();
    const auto file = std::filesystem::path(folder) / name;
    return !folder.empty() && std::filesystem::exists(file) ? file.string() : "";
}

}  // namespace stepcast
