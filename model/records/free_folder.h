// Whether a folder may take a run: what lies there already is a run's, or someone's.
#pragma once

#include <string>

namespace stepcast {

inline constexpr const char* begun_file = "run.begun";  // from the start of a run to its first sample

// Made where it is not there; a descriptor of it. Throws ConfigError.
int opened_folder(const std::string& folder);

// Why a run may not be written here, or "". What a run left that ended before its first sample may be replaced.
std::string not_free(const std::string& folder);

}  // namespace stepcast
