// Makes rows of measurements, and writes a file of them row by row. The file appears complete when
// it is finished, or not at all.
#pragma once

#include <string>
#include <string_view>

#include "model/base/whole_files.h"
#include "model/records/measurements.h"

namespace stepcast {

struct SamplePlace {
    std::string_view phase;
    int rank = -1, step = -1;  // -1: all
};
// `like` as the sample of another phase, rank and step.
inline Sample sample_of(Sample like, const SamplePlace& of, double value, std::string_view unit) {
    like.phase = of.phase;
    like.rank = of.rank;
    like.step = of.step;
    like.value = value;
    like.unit = unit;
    return like;
}

class MeasurementFile {
public:
    explicit MeasurementFile(const std::string& path);  // throws ConfigError

    void begin_run(const Sample& like);  // the following rows belong to the run of `like`
    void add(std::string_view phase, int rank, int step, double value, std::string_view unit);
    void finish();  // throws ConfigError when the disk is full
    [[nodiscard]] std::size_t rows() const { return rows_; }

private:
    void write();

    WholeFile file_;
    std::string run_, buffer_;
    std::size_t rows_ = 0;
};

}  // namespace stepcast
