// A stand-in of the driver's management library: a clock that is held down as often, and
// processes as many, as a test asks for.
#include "tests/exec/cuda/emulation/machine.h"

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) {
    static int one = 0;
    *device = &one;
    return 0;
}
int nvmlDeviceGetMaxClockInfo(void*, unsigned, unsigned* megahertz) {
    *megahertz = 1000;
    return 0;
}
int nvmlDeviceGetClockInfo(void*, unsigned, unsigned* megahertz) {
    *megahertz = 900;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) {
    constexpr int insufficient_size = 7;
    *count = static_cast<unsigned>(emulation::setting("EMULATED_NVML_PROCESSES", 1));
    return *count > 0 ? insufficient_size : 0;
}
int nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* reasons) {
    *reasons = static_cast<unsigned long long>(emulation::setting("EMULATED_NVML_REASONS", 0));
    return 0;
}
}
