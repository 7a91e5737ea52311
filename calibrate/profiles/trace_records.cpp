#include "calibrate/profiles/trace_records.h"

#include <algorithm>

namespace stepcast {

std::uint32_t TextTable::add(std::string_view text) {
    const auto [at, fresh] = numbers_.try_emplace(std::string(text), static_cast<std::uint32_t>(texts_.size()));
    if (fresh) texts_.emplace_back(text);
    return at->second;
}

std::uint32_t TraceRecords::add_inputs(const OperatorInputs& of) {
    const std::uint32_t number = inputs.add(of.dims + "|" + of.types + "|" + of.strides + "|" + of.concrete) + 1;
    if (number == operator_inputs.size()) operator_inputs.push_back(of);
    return number;
}

bool launches_kernel(std::string_view name) {
    return name.starts_with("cudaLaunchKernel") || name.starts_with("cuLaunchKernel") ||
           name.starts_with("cudaLaunchCooperativeKernel") || name.starts_with("hipLaunchKernel") ||
           name.starts_with("hipExtLaunchKernel") || name.starts_with("hipExtModuleLaunchKernel") ||
           name.starts_with("hipModuleLaunchKernel") || name.starts_with("hipLaunchCooperativeKernel");
}

bool waits_for_device(std::string_view name) {
    for (const std::string_view call : {"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "hipDeviceSynchronize",
                                        "hipStreamSynchronize", "hipEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize"})
        if (name.starts_with(call)) return true;
    return name == "cudaMemcpy" || name == "hipMemcpy" || name.starts_with("cudaMemcpy_v");
}

bool launches_graph(std::string_view call) {
    return call.starts_with("cudaGraphLaunch") || call.starts_with("cuGraphLaunch") || call.starts_with("hipGraphLaunch");
}

// A counter needs no more points than a screen: beyond the most every second one is let go.
void TraceRecords::add_memory(const ProfiledMemory& point) {
    constexpr std::size_t most = 65536;
    if (memory_seen++ % memory_every != 0) return;
    memory.push_back(point);
    if (memory.size() < most) return;
    for (std::size_t i = 0; i < most / 2; ++i) memory[i] = memory[2 * i];
    memory.resize(most / 2);
    memory_every *= 2;
}

std::size_t TraceRecords::bytes() const {
    return host.size() * sizeof(HostSpan) + calls.size() * sizeof(DriverCall) + device.size() * sizeof(DeviceRecord) +
           collectives.size() * sizeof(CollectiveCall);  // deques: what they hold is what they take
}

void TraceRecords::keep_below(std::size_t most) {
    while (bytes() > most) {
        std::int64_t last = first + 1;
        const auto latest = [&](const auto& records) {
            for (const auto& record : records) last = std::max(last, record.start);
        };
        latest(host);
        latest(calls);
        latest(device);
        window_end = first + (last - first) / 2;
        shortened = true;
        const auto drop = [&](auto& records) {
            std::erase_if(records, [&](const auto& record) { return record.start >= window_end; });
            records.shrink_to_fit();
        };
        drop(host);
        drop(calls);
        drop(device);
        if (window_end <= first + 1) return;
    }
}

}  // namespace stepcast
