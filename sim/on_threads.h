#pragma once
#include <cstddef>
#include <functional>

namespace stepcast {

// Runs `work` at the same time on `count` threads, one of which is the caller's; 0 means one thread
// for each core. Returns when all have ended, and then throws the first exception that `work` threw
// on any of them.
void on_threads(int count, const std::function<void()>& work);
// Calls `work` once with each number below `size`. A thread takes the next number when it is done
// with one.
void each_on_threads(int count, std::size_t size, const std::function<void(std::size_t)>& work);
int threads_or_cores(int count);  // `count` itself, or for 0 the number of cores

}  // namespace stepcast
