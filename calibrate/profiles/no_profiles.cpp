#include "calibrate/profiles/import_profiles.h"
#include "model/errors.h"

namespace stepcast {

// A build without the libraries that read profiles: logs are imported as ever.
bool are_profiles(const std::vector<std::string>&) { return false; }

std::vector<std::string> import_profiles(const ProfileImport&) {
    throw ConfigError("import: this program was built without profiles (WITH_PROFILES: simdjson, SQLite, zlib)");
}

}  // namespace stepcast
