#pragma once
#include <functional>

namespace stepcast {

// Runs `work` on this many threads at once, the caller's own among them, until all of them return; 0: one for each core.
// What `work` throws on any of them is thrown here after the last has ended, the first of several.
void on_threads(int count, const std::function<void()>& work);
int threads_or_cores(int count);  // as it is, or for 0 one for each core

}  // namespace stepcast
