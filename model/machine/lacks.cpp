#include "model/machine/lacks.h"

#include <vector>

#include "model/input/fields.h"
#include "model/input/presets.h"
#include "model/machine/capability.h"

namespace stepcast {
namespace {

struct LackFile {
    KEY_NAMED(std::vector<Lack>, lacks, {}, "lack", "");
};

}  // namespace

std::span<const Lack> known_lacks() {
    static const LackFile file =
        read_table<LackFile>(lacks_path(), "a file of what libraries lack on a device");
    return file.lacks;
}

const Lack* lack_of(const Gpu& gpu, std::string_view key, std::string_view value) {
    const int has = capability(gpu);
    if (has == 0) return nullptr;
    for (const Lack& lack : known_lacks())
        if (has < lack.capability && lack.key == key && lack.value == value) return &lack;
    return nullptr;
}

}  // namespace stepcast
