// The samples of one run while its log is read: 16 bytes each, and in a temporary file what exceeds a bound, so that a log
// of any size is imported in bounded memory though a run is named only by its last line.
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

    std::uint16_t phase(std::string_view name, std::string_view unit = "s");  // the same id for the same name
    // A value of a step; step -1 states something of the whole run. Throws ConfigError when the disk is full.
    void add(std::uint16_t phase, int rank, int step, double value);
    void add(std::string_view name, int rank, int step, double value) { add(phase(name), rank, step, value); }

    [[nodiscard]] const std::vector<Phase>& phases() const { return phases_; }
    [[nodiscard]] int first_step() const { return first_step_; }  // -1 where there is none
    [[nodiscard]] int last_step() const { return last_step_; }
    // In the order added, as often as asked; a record that was replayed is not written on before clear().
    void replay(const std::function<void(const Value&)>& take);
    void clear();

private:
    struct CloseFile {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    void spill();

    std::vector<Phase> phases_;
    std::vector<Value> kept_;
    std::unique_ptr<std::FILE, CloseFile> file_;
    std::size_t spilled_ = 0;
    int first_step_ = -1, last_step_ = -1;
};

}  // namespace stepcast
