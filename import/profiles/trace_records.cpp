#include "import/profiles/trace_records.h"
#include "model/base/lists.h"
#include "model/base/text_search.h"

namespace stepcast {

// characters of an operator's sizes, types and strides
constexpr std::size_t longest_inputs = 4096;

std::uint32_t TextTable::add(std::string_view text) {
    std::string key(text.substr(0, longest));
    if (const auto known = value_in(numbers_, key)) return *known;
    if (full()) key = "(one of more names than are kept)";
    const auto [at, fresh] =
        numbers_.try_emplace(std::move(key), static_cast<std::uint32_t>(texts_.size()));
    if (fresh) {
        texts_.push_back(at->first);
        bytes_ += 2 * at->first.size() + 100;  // stored twice, with a node of the map
    }
    return at->second;
}

std::uint32_t TraceRecords::add_inputs(const OperatorInputs& of) {
    const std::string key = of.dims + "|" + of.types + "|" + of.strides + "|" + of.concrete;
    if (key.size() > longest_inputs) return 0;
    const bool full = inputs.full();
    const std::uint32_t number = inputs.add(key) + 1;
    if (number == operator_inputs.size()) operator_inputs.push_back(full ? OperatorInputs{} : of);
    return number;
}

bool launches_kernel(std::string_view name) {
    return begins_with_any(name,
                           {"cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchCooperativeKernel",
                            "hipLaunchKernel", "hipExtLaunchKernel", "hipExtModuleLaunchKernel",
                            "hipModuleLaunchKernel", "hipLaunchCooperativeKernel"});
}

bool waits_for_device(std::string_view name) {
    return name == "cudaMemcpy" || name == "hipMemcpy" ||
           begins_with_any(name,
                           {"cudaMemcpy_v", "cudaDeviceSynchronize", "cudaStreamSynchronize",
                            "cudaEventSynchronize", "hipDeviceSynchronize", "hipStreamSynchronize",
                            "hipEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize"});
}

bool launches_graph(std::string_view name) {
    return begins_with_any(name, {"cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"});
}

// Drops every second point beyond the limit: a plotted counter needs no more points than a screen
// has.
void TraceRecords::add_memory(const ProfiledMemory& point) {
    constexpr std::size_t most = 65536;
    if (memory_seen++ % memory_every != 0) return;
    std::vector<ProfiledMemory>& kept = profile.memory;
    kept.push_back(point);
    if (kept.size() < most) return;
    for (std::size_t i = 0; i < most / 2; ++i) kept[i] = kept[2 * i];
    kept.resize(most / 2);
    memory_every *= 2;
}

std::size_t TraceRecords::bytes() const {
    return host.size() * sizeof(HostSpan) + calls.size() * sizeof(DriverCall) +
           device.size() * sizeof(DeviceRecord) + steps.size() * sizeof(HostSpan) +
           profile.collectives.size() * sizeof(CollectiveCall);
}

void TraceRecords::keep_below(std::size_t most) {
    while (bytes() > most && window_end > first) {
        std::int64_t last = first;
        const auto latest = [&](const auto& records) {
            for (const auto& record : records) last = std::max(last, record.start);
        };
        latest(host);
        latest(calls);
        latest(device);
        window_end = first + std::max<std::int64_t>(1, (last - first) / 2);
        profile.shortened = true;
        const auto drop = [&](auto& records) {
            // on an empty container Boost 1.74's erase() increments a null pointer
            if (records.empty()) return;
            records.erase(
                std::remove_if(records.begin(), records.end(),
                               [&](const auto& record) { return record.start >= window_end; }),
                records.end());
        };
        drop(host);
        drop(calls);
        drop(device);
        drop(steps);
        // all start at the same time: keep nothing more
        if (window_end == first + 1 && bytes() > most) window_end = first;
    }
}

}  // namespace stepcast
