// The two kinds of failure that a user meets. A broken promise of ours is std::logic_error (exit 3).
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace stepcast {

// The user can fix it: position first, then found, then expected. Exit 1.
struct ConfigError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// What `work` gives; where it throws a ConfigError, one that begins with `place`.
template <class Work>
auto at_place(const std::string& place, Work work) -> decltype(work()) {
    try {
        return work();
    } catch (const ConfigError& e) {
        throw ConfigError(place + ": " + e.what());
    }
}

// A device or communication failed; names rank and task where known. Exit 2.
struct DeviceError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// ", did you mean \"x\"?" for the nearest of `valid` by edit distance, or "" when none is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> valid);

}  // namespace stepcast
