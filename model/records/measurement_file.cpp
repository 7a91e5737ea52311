#include "model/records/measurement_file.h"

#include <charconv>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "model/base/csv.h"
#include "model/base/numbers.h"

namespace stepcast {
namespace {

constexpr std::size_t write_at = std::size_t{1} << 20;

template <class Number>
void append_number(std::string& text, Number value) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text.append(digits, end);
}

// Most values are times in whole nanoseconds. Such a decimal (at most 15 digits) reads back as the
// same double and is several times faster to write than the general shortest text.
void append_value(std::string& text, double value) {
    if (!(value >= 0 && value < 1e6)) return append_number(text, value);
    const auto nanos = std::int64_t{std::llround(value * 1e9)};
    if (real(nanos) / 1e9 != value) return append_number(text, value);
    append_number(text, nanos / 1'000'000'000);
    std::int64_t rest = nanos % 1'000'000'000;
    if (rest == 0) return;
    char digits[10] = {'.'};
    for (int i = 9; i > 0; --i, rest /= 10) digits[i] = static_cast<char>('0' + rest % 10);
    std::size_t length = 10;
    while (digits[length - 1] == '0') --length;
    text.append(digits, length);
}

}  // namespace

MeasurementFile::MeasurementFile(const std::string& path)
    : file_(path), buffer_(write_measurements({})) {}

void MeasurementFile::begin_run(const Sample& like) {
    run_ = fmt::format("{},{},{},{},{},", csv_field(like.run_id), csv_field(like.system),
                       csv_field(like.model), like.experts, like.ranks);
}

void MeasurementFile::add(std::string_view phase, int rank, int step, double value,
                          std::string_view unit) {
    buffer_ += run_;
    buffer_ += phase.find_first_of(",\"\r\n") == std::string_view::npos
                   ? phase
                   : std::string_view(csv_field(phase));
    buffer_ += ',';
    append_number(buffer_, rank);
    buffer_ += ',';
    append_number(buffer_, step);
    buffer_ += ',';
    append_value(buffer_, value);
    buffer_ += ',';
    buffer_ += unit;
    buffer_ += '\n';
    ++rows_;
    if (buffer_.size() >= write_at) write();
}

void MeasurementFile::write() {
    file_.write(buffer_);
    buffer_.clear();
}

void MeasurementFile::finish() {
    write();
    file_.commit();
}

}  // namespace stepcast
