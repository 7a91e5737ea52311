// Keeps the samples of one run while its log is read, in 16 bytes each. What exceeds a limit goes
// to a temporary file: a run's name may come only with its last line, and a log of any size must be
// imported in bounded memory.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

class SampleRecord {
public:
    struct Phase {
        std::string name, unit;
    };
    struct Value {
        double value = 0;
        std::int32_t step = 0;
        std::int16_t rank = -1;
        std::uint16_t phase = 0;  // index into phases()
    };

    // the same name gives the same id
    std::uint16_t phase(std::string_view name, std::string_view unit = "s");
    // Adds a value of a step; step -1: of the whole run. Throws ConfigError when the disk is full.
    void add(std::uint16_t phase, int rank, int step, double value);
    void add(std::string_view name, int rank, int step, double value) {
        add(phase(name), rank, step, value);
    }

    [[nodiscard]] const std::vector<Phase>& phases() const { return phases_; }
    [[nodiscard]] int first_step() const { return first_step_; }  // -1 where there is none
    [[nodiscard]] int last_step() const { return last_step_; }
    // Passes the values to `take` in the order added; may be called repeatedly. After a replay
    // nothing may be added before clear().
    void replay(const std::function<void(const Value&)>& take);
    void clear();

private:
    void spill();

    std::vector<Phase> phases_;
    std::vector<Value> kept_;
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, std::fclose};
    std::size_t spilled_ = 0;
    int first_step_ = -1, last_step_ = -1;
};

}  // namespace stepcast
