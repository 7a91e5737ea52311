#include "import/machine/gpu_samples.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "measured/medians.h"
#include "model/base/csv.h"
#include "model/base/plain_text.h"
#include "model/records/measurements.h"

namespace stepcast {
namespace {

constexpr const char* smi_query =
    "nvidia-smi --query-gpu=index,clocks.sm,clocks.max.sm,clocks_event_reasons.active "
    "--format=csv -l 1";

// nvmlClocksEventReason* (nvidia-ml-py 13, pynvml.py)
constexpr std::uint64_t idle = 0x1, power_limit = 0x4,
                        slowed_down = 0x8 | 0x20 | 0x40 | 0x80;  // hardware, heat (2), power brake

// Columns as nvidia-smi heads them, before the unit; older drivers say throttle, not event.
struct Columns {
    std::optional<std::size_t> gpu, clock, highest, reasons;
};
Columns columns_of(const CsvReader& in) {
    Columns found;
    for (std::size_t c = 0; c < in.fields().size(); ++c) {
        std::string name(trimmed(in.fields()[c]));
        name = name.substr(0, name.find(' '));
        if (name == "index") found.gpu = c;
        if (name == "clocks.current.sm") found.clock = c;
        if (name == "clocks.max.sm") found.highest = c;
        if (name == "clocks_event_reasons.active" || name == "clocks_throttle_reasons.active")
            found.reasons = c;
    }
    if (!found.clock || !found.highest)
        in.fail(fmt::format("has no column {}; expected the output, with its heads, of {}",
                            found.clock ? "clocks.max.sm" : "clocks.current.sm", smi_query));
    return found;
}

// "1410 MHz"
double megahertz(const CsvReader& in, std::size_t column) {
    const std::string text(trimmed(in.fields()[column]));
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const std::string unit(trimmed(end));
    if (value <= 0 || (!unit.empty() && unit != "MHz"))
        in.fail(fmt::format("\"{}\" is no clock; expected one like \"1410 MHz\"", text));
    return value;
}

}  // namespace

GpuSamples read_gpu_samples(const std::string& path) {
    CsvReader in(path);
    if (!in.next()) in.fail(fmt::format("is empty; expected the output of {}", smi_query));
    const Columns columns = columns_of(in);
    const std::size_t width = in.fields().size();
    std::map<std::string, std::vector<double>> clocks;  // by GPU
    GpuSamples found;
    while (in.next()) {
        if (in.fields().size() != width) break;  // cut off while it was written
        std::uint64_t reasons = 0;
        if (columns.reasons)
            reasons = std::strtoull(in.fields()[*columns.reasons].c_str(), nullptr, 16);
        if ((reasons & idle) != 0) continue;
        const std::string gpu = columns.gpu ? in.fields()[*columns.gpu] : "";
        clocks[gpu].push_back(megahertz(in, *columns.clock) / megahertz(in, *columns.highest));
        ++found.samples;
        found.at_power_limit += (reasons & power_limit) != 0;
        found.slowed_down += (reasons & slowed_down) != 0;
    }
    if (found.samples == 0) in.fail("has no sample of a GPU that works; sample during the run");
    for (auto& [gpu, shares] : clocks) found.clocks.push_back(median(std::move(shares)));
    found.at_power_limit /= found.samples;
    found.slowed_down /= found.samples;
    return found;
}

}  // namespace stepcast
