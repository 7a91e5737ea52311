// Values on a GPU and on the host, and what is right of them: for gpu_ops.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "exec/cuda/cuda_memory.h"

namespace stepcast {

using Doubles = std::vector<double>;

extern std::atomic<int> wrong;  // ranks are threads
void expect(bool right, const std::string& what);

Doubles download(const void* data, Element element, std::size_t count);

// Random values on the GPU, and what they are.
struct Values {
    CudaBlock block;
    Doubles values;
};
Values random_values(Element element, std::size_t count, std::uint64_t seed);
CudaBlock block_of(const std::vector<float>& values);

// Of what `launch` puts on the default stream: the median of 15, without three before; seconds.
double time_of_launch(const std::function<void()>& launch);

// Distance of two vectors relative to the second's length.
double distance(const Doubles& found, const Doubles& expected);

}  // namespace stepcast
