// Stands in for the readers of profiles in a build without their libraries.
#include "import/profiles/import_profiles.h"
#include "model/base/errors.h"

namespace stepcast {

// Used in builds without the libraries that read profiles. Import of logs works there nevertheless.
bool are_profiles(const std::vector<std::string>&) { return false; }

namespace {
[[noreturn]] void refuse() {
    throw ConfigError(
        "this program was built without profiles (WITH_PROFILES: simdjson, SQLite, zlib)");
}
}  // namespace

std::vector<std::string> import_profiles(const ProfileImport&) { refuse(); }
std::vector<Profile> read_job(const std::vector<std::string>&, std::vector<std::string>&) {
    refuse();
}
std::vector<RankUse> read_rank_use(const std::string&) { refuse(); }
NcclTestsLog read_nccl_tests(const std::string&, const NcclTestsContext&) { refuse(); }

}  // namespace stepcast
