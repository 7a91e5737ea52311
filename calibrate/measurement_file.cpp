#include "calibrate/measurement_file.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "model/csv.h"
#include "model/errors.h"
#include "model/whole_files.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t write_at = std::size_t{1} << 20;

template <class Number>
void append(std::string& text, Number value) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text.append(digits, end);
}

}  // namespace

MeasurementFile::MeasurementFile(const std::string& path) : path_(path), target_(rename_target(path)) {
    std::error_code error;
    if (fs::is_directory(path)) fail("is a folder");
    if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) fs::create_directories(folder, error);
    if (error) fail(error.message());
    part_ = target_ + ".part-" + std::to_string(getpid());
    file_.reset(std::fopen(part_.c_str(), "wb"));
    if (!file_) fail(std::strerror(errno));
    buffer_ = write_measurements({});
}

MeasurementFile::~MeasurementFile() {
    std::error_code ignored;
    file_.reset();
    if (!part_.empty()) fs::remove(part_, ignored);
}

void MeasurementFile::fail(const std::string& why) const {
    throw ConfigError(path_ + ": cannot be written (" + why + ")");
}

void MeasurementFile::begin_run(const Sample& like) {
    run_ = fmt::format("{},{},{},{},{},", csv_field(like.run_id), csv_field(like.system), csv_field(like.model),
                       like.experts, like.ranks);
}

void MeasurementFile::add(std::string_view phase, int rank, int step, double value, std::string_view unit) {
    buffer_ += run_;
    buffer_ += phase.find_first_of(",\"\r\n") == std::string_view::npos ? phase : std::string_view(csv_field(phase));
    buffer_ += ',';
    append(buffer_, rank);
    buffer_ += ',';
    append(buffer_, step);
    buffer_ += ',';
    append(buffer_, value);
    buffer_ += ',';
    buffer_ += unit;
    buffer_ += '\n';
    ++rows_;
    if (buffer_.size() >= write_at) write();
}

void MeasurementFile::add(const std::vector<Sample>& rows) {
    for (const Sample& row : rows) {
        begin_run(row);
        add(row.phase, row.rank, row.step, row.value, row.unit);
    }
}

void MeasurementFile::write() {
    if (std::fwrite(buffer_.data(), 1, buffer_.size(), file_.get()) != buffer_.size()) fail(std::strerror(errno));
    buffer_.clear();
}

void MeasurementFile::finish() {
    write();
    if (std::fclose(file_.release()) != 0) fail(std::strerror(errno));
    std::error_code error;
    fs::rename(part_, target_, error);
    if (error) fail(error.message());
    part_.clear();
}

}  // namespace stepcast
