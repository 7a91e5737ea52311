// The clock of everything that is executed: monotonic, from a moment that only this machine knows.
#pragma once

#include <chrono>

#include "model/units.h"

namespace stepcast {

inline Seconds steady_now() {
    return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace stepcast
