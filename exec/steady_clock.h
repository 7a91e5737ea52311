// The clock of everything that is executed: monotonic, with an origin that is arbitrary on each
// machine.
#pragma once

#include <chrono>
#include <cmath>

#include "model/base/units.h"

namespace stepcast {

inline Seconds steady_now() {
    return Seconds(
        std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// What to add to this clock to get another process's, whose time `ask` returns: from the middle of
// the quickest of several round trips.
inline constexpr int clock_trips = 20;
template <typename Ask>
Seconds offset_to(Ask ask) {
    Seconds offset, quickest(INFINITY);
    for (int trip = 0; trip < clock_trips; ++trip) {
        const Seconds sent = steady_now(), theirs = ask(), back = steady_now();
        if (back - sent >= quickest) continue;
        quickest = back - sent;
        offset = theirs - 0.5 * (sent + back);
    }
    return offset;
}

}  // namespace stepcast
