// One target a reader: takes any bytes and must answer with a value or an error of the user's;
// anything else is a finding.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stepcast {

struct FuzzTarget {
    std::string_view name;  // and its corpus: tests/fuzz/corpus/NAME
    void (*read)(const std::string& bytes);
};
std::span<const FuzzTarget> fuzz_targets();
const FuzzTarget* find_fuzz_target(std::string_view name);

// Calls the target. Throws what is a finding: everything but ConfigError and DeviceError.
void try_bytes(const FuzzTarget& target, const std::string& bytes);

}  // namespace stepcast
