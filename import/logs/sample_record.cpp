#include "import/logs/sample_record.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "model/base/errors.h"
#include "model/base/lists.h"

namespace stepcast {
namespace {

constexpr std::size_t most_kept = std::size_t{1} << 20;  // 16 MiB

[[noreturn]] void refuse_spill(const char* what) {
    throw ConfigError(std::string("import: a temporary file cannot be ") + what + " (" +
                      std::strerror(errno) + ")");
}

}  // namespace

std::uint16_t SampleRecord::phase(std::string_view name, std::string_view unit) {
    for (const std::size_t i : indices_of(phases_))
        if (phases_[i].name == name) return static_cast<std::uint16_t>(i);
    if (phases_.size() == std::numeric_limits<std::uint16_t>::max())
        throw ConfigError(
            "import: a run with more than 65535 kinds of values; is the format the right one?");
    phases_.push_back({std::string(name), std::string(unit)});
    return static_cast<std::uint16_t>(phases_.size() - 1);
}

void SampleRecord::add(std::uint16_t phase, int rank, int step, double value) {
    if (rank > std::numeric_limits<std::int16_t>::max())
        throw ConfigError("import: rank " + std::to_string(rank) +
                          " is above 32767; is the format the right one?");
    if (kept_.size() == most_kept) spill();
    last_step_ = std::max(last_step_, step);
    if (step >= 0 && (first_step_ < 0 || step < first_step_)) first_step_ = step;
    kept_.push_back({value, step, static_cast<std::int16_t>(rank), phase});
}

void SampleRecord::spill() {
    if (!file_) file_.reset(std::tmpfile());
    if (!file_) refuse_spill("made");
    if (std::fwrite(kept_.data(), sizeof(Value), kept_.size(), file_.get()) != kept_.size())
        refuse_spill("written");
    spilled_ += kept_.size();
    kept_.clear();
}

void SampleRecord::replay(const std::function<void(const Value&)>& take) {
    if (spilled_ > 0) {
        std::vector<Value> piece(4096);
        if (std::fseek(file_.get(), 0, SEEK_SET) != 0) refuse_spill("read");
        for (std::size_t left = spilled_; left > 0;) {
            const std::size_t count = std::min(left, piece.size());
            if (std::fread(piece.data(), sizeof(Value), count, file_.get()) != count)
                refuse_spill("read");
            for (std::size_t i = 0; i < count; ++i) take(piece[i]);
            left -= count;
        }
    }
    for (const Value& value : kept_) take(value);
}

void SampleRecord::clear() {
    phases_.clear();
    kept_.clear();
    file_.reset();
    spilled_ = 0;
    first_step_ = last_step_ = -1;
}

}  // namespace stepcast
