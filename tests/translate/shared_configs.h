// Real files of other tools, where a folder with them lies beside the project.
#pragma once

#include <filesystem>
#include <string>

#include "tests/truth.h"

namespace stepcast {

// "" where it is not there.
inline std::string shared_configs() {
    if (truth_folder().empty()) return "";
    const auto folder = std::filesystem::path(truth_folder()).parent_path() / "configs";
    return std::filesystem::is_directory(folder) ? folder.string() : "";
}

}  // namespace stepcast
