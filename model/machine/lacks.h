// Which values of an experiment's keys libraries lack on a device, and what stands in for them:
// model/presets/lacks.toml.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/cluster.h"

namespace stepcast {

struct Lack {
    KEY(std::string, key, {}, "key of an experiment");
    KEY(std::string, value, {}, "its value that a library lacks below `capability`");
    KEY(int, capability, 0, "least compute capability: 80", 0, 1000);
    KEY(std::string, instead, {}, "the default there; empty: none");
    KEY(std::string, source, {}, "where this is said");
};
std::span<const Lack> known_lacks();

// The rule by which the device lacks this value of the key; nullptr if it has it.
const Lack* lack_of(const Gpu& gpu, std::string_view key, std::string_view value);

}  // namespace stepcast
