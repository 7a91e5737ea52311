#include "exec/host_machine.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include <sched.h>

#include "model/base/numbers.h"

namespace stepcast {

std::vector<int> allowed_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> cores;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int core = 0; core < CPU_SETSIZE; ++core)
            if (CPU_ISSET(as_index(core), &set)) cores.push_back(core);
    if (cores.empty()) cores.push_back(0);
    return cores;
}

void pin_to_core(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(as_index(core), &set);
    sched_setaffinity(0, sizeof set, &set);
}

Bytes last_level_cache() {
    // The highest cache index of core 0 is its last level; sizes read "32768K".
    double largest = 0;
    for (int index = 0; index < 8; ++index) {
        std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) +
                           "/size");
        double kibibytes = 0;
        if (file >> kibibytes) largest = std::max(largest, kibibytes * 1024.0);
    }
    return largest > 0 ? Bytes(largest) : Bytes(32.0 * 1024 * 1024);
}

namespace {

// The text behind the first "KEY .. : " of a file, or `otherwise`.
std::string field_of(const char* path, const char* key, const char* otherwise) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (const auto colon = line.find(": "); line.starts_with(key) && colon != std::string::npos)
            return line.substr(colon + 2);
    return otherwise;
}

}  // namespace

Bytes available_memory() {
    return Bytes(std::stod(field_of("/proc/meminfo", "MemAvailable", "0")) * 1024.0);
}
std::string processor_name() {
    return field_of("/proc/cpuinfo", "model name", "unknown processor");
}

std::string current_date() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

Seconds thread_cpu_time() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return Seconds(real(time.tv_sec) + 1e-9 * real(time.tv_nsec));
}

namespace {

struct Ticks {
    double idle = 0, all = 0;
};

// /proc/stat: "cpuN user nice system idle iowait irq softirq steal guest guest_nice"; guest is
// inside user.
Ticks read_ticks() {
    const std::vector<int> cores = allowed_cores();
    std::ifstream file("/proc/stat");
    Ticks ticks;
    for (std::string line; std::getline(file, line);) {
        std::istringstream fields(line);
        std::string name;
        fields >> name;
        const bool wanted = std::ranges::any_of(
            cores, [&](int core) { return name == "cpu" + std::to_string(core); });
        double value = 0;
        for (int field = 0; wanted && field < 8 && fields >> value; ++field) {
            ticks.all += value;
            if (field == 3 || field == 4) ticks.idle += value;
        }
    }
    return ticks;
}

}  // namespace

double idle_share(Seconds duration) {
    // BLAS workers spin after start-up; let them settle
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const Ticks before = read_ticks();
    std::this_thread::sleep_for(std::chrono::duration<double>(duration.si()));
    const Ticks after = read_ticks();
    return after.all > before.all ? (after.idle - before.idle) / (after.all - before.all) : 1.0;
}

}  // namespace stepcast
