// Published measurements that the repository does not ship: the folder shared/truth beside or above it.
#pragma once

#include <filesystem>
#include <string>

#include "model/presets.h"

namespace stepcast {

// "" when it is not there; the suite passes without it.
inline std::string truth_file(const std::string& name) {
    for (auto folder = std::filesystem::weakly_canonical(home_folder()); folder != folder.root_path();
         folder = folder.parent_path())
        if (const auto file = folder / "shared" / "truth" / name; std::filesystem::exists(file)) return file.string();
    return "";
}

}  // namespace stepcast
