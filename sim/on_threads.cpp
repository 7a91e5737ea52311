#include "sim/on_threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "model/base/numbers.h"

namespace stepcast {

int threads_or_cores(int count) {
    return count > 0 ? count : as_int(std::max(1U, std::thread::hardware_concurrency()));
}

void on_threads(int count, const std::function<void()>& work) {
    std::exception_ptr failure;
    std::mutex mutex;
    const auto guarded = [&] {
        try {
            work();
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (!failure) failure = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> others;
        for (int t = 1; t < threads_or_cores(count); ++t) others.emplace_back(guarded);
        guarded();
    }
    if (failure) std::rethrow_exception(failure);
}

void each_on_threads(int count, std::size_t size, const std::function<void(std::size_t)>& work) {
    std::atomic<std::size_t> next = 0;
    on_threads(count, [&] {
        for (std::size_t i = next++; i < size; i = next++) work(i);
    });
}

}  // namespace stepcast
