#include "exec/cuda/clocks.h"

#include <algorithm>

#include <fmt/format.h>

#include "exec/steady_clock.h"

namespace stepcast {

namespace {

// Declarations from nvml.h, which not every toolkit has.
using Status = int;
constexpr Status success = 0, no_room = 7;
constexpr unsigned int sm_clock = 1;
struct Reason {
    unsigned long long bits;
    const char* what;
};
// The software power cap; software and hardware thermal slowdown; hardware slowdown and power
// brake.
constexpr Reason known_reasons[] = {
    {0x4, "the power limit"}, {0x20 | 0x40, "heat"}, {0x8 | 0x80, "the hardware"}};
using Init = Status();
using FindByBus = Status(const char* bus, void** device);
using ReadClock = Status(void* device, unsigned int type, unsigned int* megahertz);
using ReadReasons = Status(void* device, unsigned long long* reasons);
// With no room for them it only counts, and answers that there is no room.
using CountProcesses = Status(void* device, unsigned int* count, void* processes);

}  // namespace

Clocks::Clocks(const std::string& pci_bus) : library_("libnvidia-ml.so.1"), pci_bus_(pci_bus) {
    const auto init = library_.find<Init>("nvmlInit_v2");
    const auto find = library_.find<FindByBus>("nvmlDeviceGetHandleByPciBusId_v2");
    const auto most = library_.find<ReadClock>("nvmlDeviceGetMaxClockInfo");
    if (init == nullptr || find == nullptr || init() != success) return;
    if (find(pci_bus.c_str(), &device_) != success) device_ = nullptr;
    if (device_ != nullptr && most != nullptr && most(device_, sm_clock, &most_) != success)
        most_ = 0;
}

void Clocks::look() {
    constexpr Seconds pause(0.2);
    if (device_ == nullptr || steady_now() - last_look_ < pause) return;
    last_look_ = steady_now();
    unsigned int clock = 0;
    if (const auto read = library_.find<ReadClock>("nvmlDeviceGetClockInfo");
        read != nullptr && read(device_, sm_clock, &clock) == success)
        clocks_.push_back(clock);
    unsigned int processes = 0;
    if (const auto all = library_.find<CountProcesses>("nvmlDeviceGetComputeRunningProcesses_v3");
        all != nullptr) {
        const Status status = all(device_, &processes, nullptr);
        if (status == success || status == no_room) processes_ = std::max(processes_, processes);
    }
    auto read = library_.find<ReadReasons>("nvmlDeviceGetCurrentClocksEventReasons");
    if (read == nullptr)
        read = library_.find<ReadReasons>("nvmlDeviceGetCurrentClocksThrottleReasons");
    unsigned long long reasons = 0;
    if (read == nullptr || read(device_, &reasons) != success) return;
    for (std::size_t i = 0; i < held_down_.size(); ++i)
        held_down_[i] += (reasons & known_reasons[i].bits) != 0;
}

std::vector<std::string> Clocks::doubts() const {
    std::vector<std::string> doubts;
    if (processes_ > 1)
        doubts.push_back(fmt::format(
            "{} processes computed on GPU {}: its times are those of a GPU that is shared",
            processes_, pci_bus_));
    if (clocks_.empty()) return doubts;
    std::vector<unsigned int> sorted = clocks_;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < held_down_.size(); ++i)
        if (held_down_[i] > 0)
            doubts.push_back(
                fmt::format("throttled: {} held the clock of GPU {} down in {} of {} looks (median "
                            "{} of {} MHz)",
                            known_reasons[i].what, pci_bus_, held_down_[i], clocks_.size(),
                            sorted[sorted.size() / 2], most_));
    return doubts;
}

}  // namespace stepcast
