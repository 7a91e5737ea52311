// What the operating system says about this machine: cores, caches, memory, idleness. Linux only.
#pragma once

#include <string>
#include <vector>

#include "model/base/units.h"

namespace stepcast {

std::vector<int> allowed_cores();  // on which this process may run
void pin_to_core(int core);        // pins the calling thread; best effort
Bytes last_level_cache();          // 32 MiB if the system does not tell
Bytes available_memory();
std::string processor_name();
std::string current_date();  // "2026-11-21T07:11:14Z"
Seconds thread_cpu_time();   // of the calling thread
// share of idle ticks of the allowed cores; sleeps for `duration`
double idle_share(Seconds duration);

}  // namespace stepcast
