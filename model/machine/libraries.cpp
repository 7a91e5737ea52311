#include "model/machine/libraries.h"

#include "model/input/fields.h"
#include "model/input/presets.h"
#include "model/machine/generation.h"

namespace stepcast {
namespace {

struct LackFile {
    KEY_NAMED(std::vector<Lack>, lacks, {}, "lack", "");
};

}  // namespace

std::span<const Lack> known_lacks() {
    static const std::vector<Lack> lacks =
        read_table<LackFile>(libraries_path(), "a file of what libraries lack").lacks;
    return lacks;
}

int capability(const Gpu& gpu) {
    switch (generation(gpu)) {
        case Generation::other: return 0;
        case Generation::volta: return 70;
        case Generation::ampere: return 80;
        case Generation::hopper: return 89;
        case Generation::blackwell: return 100;
        case Generation::blackwell_ultra: return 103;
    }
    return 0;
}

const Lack* lack_of(const Gpu& gpu, std::string_view key, std::string_view value) {
    const int has = capability(gpu);
    if (has == 0) return nullptr;
    for (const Lack& lack : known_lacks())
        if (has < lack.capability && lack.key == key && lack.value == value) return &lack;
    return nullptr;
}

}  // namespace stepcast
