// The two kinds of failure that a user meets. A bug in stepcast is a std::logic_error (exit 3).
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// An error that the user can fix. The text has the position, then what was found, then what was
// expected. Exit 1.
struct ConfigError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Returns the result of `work`. A ConfigError that `work` throws gets `place` as its beginning.
template <class Work>
auto at_place(const std::string& place, Work work) -> decltype(work()) {
    try {
        return work();
    } catch (const ConfigError& e) {
        throw ConfigError(place + ": " + e.what());
    }
}

// A device or communication failed. The text names rank and task where known. Exit 2.
struct DeviceError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The names of `valid` that a user may have meant by `word`, in either case of letters: that word;
// else up to three that it begins, the shortest first; else the nearest by edit distance, which
// comes first where it is a single letter. Empty if none is near.
std::vector<std::string> names_near(std::string_view word, std::span<const std::string> valid);

// ", did you mean \"x\" or \"y\"?" with those names, or "" if none is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> valid);

}  // namespace stepcast
