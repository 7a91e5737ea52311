// What of a list of tensors lives, in bytes as asked for.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/memory/lifetimes.h"

namespace stepcast {

// After each event.
inline std::vector<double> live_bytes(const Lifetimes& list) {
    std::vector<double> bytes;
    double now = 0;
    for (const AllocatorEvent& event : list.events) {
        const auto size = static_cast<double>(list.tensors.at(event.id).bytes);
        if (event.kind == AllocatorEvent::Kind::allocate) now += size;
        if (event.kind == AllocatorEvent::Kind::free) now -= size;
        bytes.push_back(now);
    }
    return bytes;
}
inline double peak_of(const Lifetimes& list) { return std::ranges::max(live_bytes(list)); }

}  // namespace stepcast
