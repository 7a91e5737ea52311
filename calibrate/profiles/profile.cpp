#include "calibrate/profiles/profile.h"

#include <array>

#include "calibrate/profiles/byte_stream.h"
#include "calibrate/profiles/trace_records.h"
#include "model/errors.h"

namespace stepcast {
namespace {

std::string beginning(const std::string& path) {
    ByteStream stream(path);
    std::string text(4096, '\0');
    text.resize(stream.read(text.data(), text.size()));
    return text;
}

}  // namespace

bool is_communication(std::string_view kernel) {
    constexpr std::array words{"nccl", "multimem_", "one_shot_all_reduce", "two_shot_all_reduce", "cross_device_reduce", "nvshmem",
                               "rccl", "deep_ep::", "allreduce_fusion", "quickreduce", "mscclpp"};
    if (kernel.starts_with("nccl") && kernel.find("Kernel") == std::string_view::npos) return false;
    for (const std::string_view word : words)
        if (kernel.find(word) != std::string_view::npos) return true;
    return false;
}

bool is_nsight(const std::string& path) { return beginning(path).starts_with(std::string("SQLite format 3\0", 16)); }

// A JSON object with the profiler's keys, or an array of events.
bool is_kineto(const std::string& path) {
    std::string text = beginning(path);
    if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos) return false;
    if (text[first] == '[') return text.find("\"ph\"", first) != std::string::npos;
    if (text[first] != '{') return false;
    for (const char* key : {"\"traceEvents\"", "\"schemaVersion\"", "\"deviceProperties\"", "\"distributedInfo\""})
        if (text.find(key) != std::string::npos) return true;
    return false;
}

std::vector<Profile> read_profiles(const std::string& path) {
    std::vector<Profile> all;
    if (is_kineto(path)) {
        all.push_back(link_records(read_kineto_records(path), path));
        return all;
    }
    if (is_nsight(path)) {
        for (int n = 0, processes = 1; n < processes; ++n) {
            TraceRecords records = read_nsight_records(path, n);
            processes = records.processes;
            all.push_back(link_records(std::move(records), path));
        }
        return all;
    }
    throw ConfigError(path + ": is neither a PyTorch profiler's trace (JSON, .json.gz) nor an Nsight Systems SQLite export"
                      "; a .nsys-rep becomes one by: nsys export --type sqlite FILE");
}

}  // namespace stepcast
