// Stands in for replay.cpp in a build without the libraries that read profiles.
#include "calibrate/replay.h"
#include "model/base/errors.h"

namespace stepcast {

// Used in builds without the libraries that read profiles.
Replay replay(const std::vector<Profile>&) {
    throw ConfigError(
        "this program was built without profiles (WITH_PROFILES: simdjson, SQLite, zlib)");
}

}  // namespace stepcast
