// Which thread of a grid each worker runs: a library of its own, as the thread-local variables of
// kernels, beside which it would be laid, are too many for the quick way to such a variable.
#include "tests/exec/cuda/emulation/fibers.h"

namespace emulation {

thread_local Position* running_position = nullptr;

}  // namespace emulation
