// cuDNN as a program finds it that cannot use it: it has a version, and gives no handle. Its plans
// are not emulated; this keeps the real library away from emulated memory.
#include <cstddef>

#include "tests/exec/cuda/emulation/machine.h"

extern "C" {

std::size_t cudnnGetVersion() {
    return static_cast<std::size_t>(emulation::setting("EMULATED_CUDNN_VERSION", 91900));
}
int cudnnCreate(void** handle) {
    *handle = nullptr;
    constexpr int not_initialized = 1001;
    return not_initialized;
}
}
