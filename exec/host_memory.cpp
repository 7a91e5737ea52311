#include "exec/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "exec/footprint.h"
#include "model/base/refuse.h"

namespace stepcast {

namespace {

constexpr std::size_t line_floats = 16;  // 64 B, a cache line

std::size_t whole_lines(std::size_t count) {
    return (count + line_floats - 1) / line_floats * line_floats;
}

}  // namespace

Region::Region(std::size_t floats) : size_(whole_lines(std::max<std::size_t>(floats, 1))) {
    // Uses huge pages if the system has them, so that page tables do not disturb the timings.
    constexpr std::size_t huge_page = 1UL << 21;
    const std::size_t bytes = (size_ * sizeof(float) + huge_page - 1) / huge_page * huge_page;
    data_.reset(static_cast<float*>(std::aligned_alloc(huge_page, bytes)));
    if (!data_) throw std::bad_alloc();
    madvise(data_.get(), bytes, MADV_HUGEPAGE);
}

std::span<float> Region::take(std::size_t count) {
    if (next_ + count > size_) next_ = 0;
    const std::span<float> taken(data_.get() + next_, count);
    next_ += whole_lines(count);
    return taken;
}

Operands take(HostMemory& memory, const Op& op, std::size_t index, std::size_t count) {
    const Footprint sizes = footprint(op, index, count);
    Operands at;
    const auto from = [](Region& region) {
        return [&region](double floats) { return region.take(static_cast<std::size_t>(floats)); };
    };
    std::ranges::transform(sizes.inputs, at.in.begin(), from(memory.input));
    std::ranges::transform(sizes.outputs, at.out.begin(), from(memory.output));
    return at;
}

void fill_random(std::span<float> values, std::uint64_t seed) {
    // A 64-bit linear congruential generator (Knuth's constants); only its upper 24 bits are used.
    std::uint64_t state = seed * 2 + 1;
    for (float& value : values) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        value = static_cast<float>(state >> 40) * 0x1p-23f - 1.0f;
    }
}

MemoryPlan plan_memory(const TaskGraph& graph, int ranks_here, Bytes cache, Bytes available) {
    double most_input = 0, most_output = 0;
    TaskId widest = 0;
    for (TaskId task = 0; task < graph.size(); ++task) {
        const std::size_t count = participants(graph.places(task)).size();
        for (std::size_t index = 0; index < count; ++index) {
            const Footprint one = footprint(graph.op(task), index, count);
            if (one.input() + one.output() > most_input + most_output) widest = task;
            most_input = std::max(most_input, one.input());
            most_output = std::max(most_output, one.output());
        }
    }
    // One and a half times the cache, over all ranks, but at most 256 MiB a region on machines with
    // huge caches.
    constexpr double most = 256.0 * 1024 * 1024;
    const double cold = std::min(1.5 * cache.si() / ranks_here, most) / sizeof(float);
    const double input = std::max(most_input, cold), output = std::max(most_output, cold);
    const Bytes needed(ranks_here * (input + output) * sizeof(float));
    if (!(needed <= available))
        refuse(
            "execute: {} ranks here need {} (largest task {} \"{}\"), the host has {}; take "
            "fewer ranks or smaller shapes",
            ranks_here, to_string(needed), widest, graph.name(widest), to_string(available));
    return {static_cast<std::size_t>(input) + line_floats,
            static_cast<std::size_t>(output) + line_floats};
}

HostMemory allocate(const MemoryPlan& plan, int rank) {
    HostMemory memory{Region(plan.input), Region(plan.output)};
    fill_random(memory.input.all(), static_cast<std::uint64_t>(rank) + 1);
    std::fill(memory.output.all().begin(), memory.output.all().end(), 0.0f);
    return memory;
}

}  // namespace stepcast
