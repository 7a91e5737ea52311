#include "startup.h"

#include <dlfcn.h>
#include <malloc.h>

namespace stepcast {

void close_blas_threads() {
    using Close = int (*)();
    // Only the build of OpenBLAS with threads of its own has it.
    if (const auto close = reinterpret_cast<Close>(dlsym(RTLD_DEFAULT, "blas_thread_shutdown_"))) close();
}

void keep_freed_memory() {
    constexpr int largest = 1 << 30;  // bytes; mallopt takes an int
    mallopt(M_MMAP_THRESHOLD, largest);
    mallopt(M_TRIM_THRESHOLD, largest);
    mallopt(M_TOP_PAD, 16 << 20);
}

}  // namespace stepcast
