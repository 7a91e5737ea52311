#include "model/machine/capability.h"

#include "model/machine/generation.h"

namespace stepcast {

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

}  // namespace stepcast
