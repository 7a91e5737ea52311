// One program for all targets; STEPCAST_FUZZ names the one (scripts/fuzz.sh).
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const stepcast::FuzzTarget* const target = [] {
        const char* name = std::getenv("STEPCAST_FUZZ");
        const auto* found = stepcast::find_fuzz_target(name != nullptr ? name : "");
        if (found == nullptr)
            std::fputs("STEPCAST_FUZZ names no target of tests/fuzz/targets.cpp\n", stderr),
                std::exit(2);
        return found;
    }();
    stepcast::try_bytes(*target, {reinterpret_cast<const char*>(data), size});
    return 0;
}
