// What the driver's management library (NVML) reports of a GPU while it works: its clock, what
// holds the clock down, and how many processes compute on it. The library is looked for at run
// time; without it there are no doubts.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "exec/shared_library.h"
#include "model/base/units.h"

namespace stepcast {

class Clocks {
public:
    explicit Clocks(const std::string& pci_bus);

    // Asks the driver, at most every fifth of a second. To be called while the GPU works.
    void look();
    // "throttled: the power limit held the clock of GPU 0000:17:00.0 down in 7 of 20 looks (median
    // 1395 of 1980 MHz)", "3 processes computed on GPU 0000:17:00.0 ...".
    [[nodiscard]] std::vector<std::string> doubts() const;

private:
    SharedLibrary library_;
    std::string pci_bus_;
    void* device_ = nullptr;
    unsigned int most_ = 0;  // MHz
    std::vector<unsigned int> clocks_;
    std::array<int, 3> held_down_{};  // looks, by reason
    unsigned int processes_ = 0;      // the most of any look; containers hide those outside
    Seconds last_look_;
};

}  // namespace stepcast
