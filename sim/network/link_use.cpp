#include "sim/network/link_use.h"

#include <limits>

namespace stepcast {

// Demands below the level leave the rest to the others. Each pass finds more of them, until there
// are no more.
double fair_level(std::span<const double> demands) {
    double sum = 0;
    for (const double demand : demands) sum += demand;
    if (sum <= 1) return std::numeric_limits<double>::infinity();
    double level = 0;
    for (bool rises = true; rises;) {
        double left = 1;
        int above = 0;
        for (const double demand : demands) {
            if (demand <= level)
                left -= demand;
            else
                ++above;
        }
        if (above == 0) return level;
        const double next = left / above;
        rises = next > level;
        level = next;
    }
    return level;
}

}  // namespace stepcast
