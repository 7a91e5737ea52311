// A measurements file written row by row: appears whole when it is finished, or not at all.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/measurements.h"

namespace stepcast {

class MeasurementFile {
public:
    explicit MeasurementFile(const std::string& path);  // writes the header beside it; throws ConfigError
    ~MeasurementFile();
    MeasurementFile(const MeasurementFile&) = delete;
    MeasurementFile& operator=(const MeasurementFile&) = delete;

    void begin_run(const Sample& like);  // whose run the rows that follow are
    void add(std::string_view phase, int rank, int step, double value, std::string_view unit);
    void add(const std::vector<Sample>& rows);
    void finish();  // throws ConfigError when the disk is full
    [[nodiscard]] std::size_t rows() const { return rows_; }

private:
    struct CloseFile {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    void write();
    [[noreturn]] void fail(const std::string& why) const;

    std::string path_, target_, part_, run_, buffer_;
    std::unique_ptr<std::FILE, CloseFile> file_;
    std::size_t rows_ = 0;
};

}  // namespace stepcast
