#include "early_checks.h"

#include <filesystem>

#include "model/errors.h"

namespace stepcast {

void make_folder(const std::string& folder) {
    std::error_code error;
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error) throw ConfigError(folder + ": cannot be made (" + error.message() + ")");
}

void make_folder_of(const std::string& file) { make_folder(std::filesystem::path(file).parent_path().string()); }

void require_other_file(const std::string& trace, const std::string& experiment) {
    std::error_code none;
    if (!trace.empty() && std::filesystem::equivalent(trace, experiment, none))
        throw ConfigError(trace + ": is the experiment; expected another file for --trace");
}

void require_device(const std::string& device) {
    if (device != "host" && device != "cuda")
        throw ConfigError("--device: \"" + device + "\" is no device; expected host or cuda");
}

}  // namespace stepcast
