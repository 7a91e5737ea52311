// The kernels of training libraries (exec/cuda/library_kernels.h): for gpu_ops.
#pragma once

namespace stepcast {

// Against their definitions in double precision.
void test_library_passes();
// States the bytes that each moves and, with `times`, its share of the rate at which CUDA copies as
// many; shapes are large then, and otherwise small and run once.
void compare_with_copies(bool times);

}  // namespace stepcast
