// Published measurements that the repository does not ship: the folder shared/truth beside or above
// the source tree. The suite passes without it.
#pragma once

#include <catch2/catch.hpp>

#include <filesystem>
#include <string>

#include "model/input/presets.h"

namespace stepcast {

// The folder shared/NAME; "" when it is not there.
inline std::string shared_folder(const std::string& name) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    for (fs::path at = fs::weakly_canonical(home_folder()).parent_path(); at.has_relative_path();
         at = at.parent_path())
        if (fs::is_directory(at / "shared" / name, ignored)) return (at / "shared" / name).string();
    return "";
}
inline std::string truth_folder() { return shared_folder("truth"); }
inline std::string truth_file(const std::string& name) {
    const std::string folder = truth_folder();
    const auto file = std::filesystem::path(folder) / name;
    return !folder.empty() && std::filesystem::exists(file) ? file.string() : "";
}

// For the first lines of a test that checks nothing without them: says so in the words that make
// ctest count the test as skipped (tests/CMakeLists.txt), not as passed.
inline bool is_absent(const std::string& path, const std::string& name) {
    if (!path.empty()) return false;
    WARN("skipped: " + name + " is not there");
    return true;
}
inline bool truth_is_absent() { return is_absent(truth_folder(), "shared/truth"); }

}  // namespace stepcast
