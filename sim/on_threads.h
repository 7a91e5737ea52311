#pragma once
#include <cstddef>
#include <functional>

namespace stepcast {

// Runs `work` on this many threads at once, the caller's own among them, until all of them return; 0: one for each core.
// What `work` throws on any of them is thrown here after the last has ended, the first of several.
void on_threads(int count, const std::function<void()>& work);
// The same with each number below `size`, once: a thread takes the next when it is done with one.
void each_on_threads(int count, std::size_t size, const std::function<void(std::size_t)>& work);
int threads_or_cores(int count);  // as it is, or for 0 one for each core

}  // namespace stepcast
