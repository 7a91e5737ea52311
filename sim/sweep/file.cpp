#include "sim/sweep/file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/stamp.h"
#include "model/base/whole_files.h"
#include "model/routing.h"
#include "sim/sweep/records.h"

namespace stepcast {
namespace {

constexpr std::string_view first_line = "# stepcast sweep 1";

std::string head(const SweepQuestion& q) {
    std::string text = fmt::format("{}\n# question: {}\n# experiment: {} on {}\n", first_line,
                                   fingerprint(q), q.experiment.name, q.experiment.cluster.name);
    for (const Axis& axis : q.axes)
        text += fmt::format("# vary: {}={}\n", axis.key, fmt::join(axis.values, ","));
    for (const Constraint& c : q.where) text += fmt::format("# where: {}\n", c.text);
    text +=
        fmt::format("# objective: {}{}, top {}\n{}\n", to_string(q.objective),
                    q.second ? "," + std::string(to_string(*q.second)) : "", q.top, record_columns);
    return text;
}

[[noreturn]] void refuse_other(const std::string& path, const std::string& text) {
    throw ConfigError(path + (text.starts_with(first_line)
                                  ? ": holds another sweep: its experiment, --vary, --where, "
                                    "--objective, --top, what the "
                                    "routing file holds or the program's version differ; expected "
                                    "the same, or another --out"
                                  : ": is no file of a sweep; expected another --out"));
}

}  // namespace

std::string fingerprint(const SweepQuestion& q) {
    std::string text;
    for (const KeyDoc& key : key_docs())
        if (key.kind != "preset") text += key.key + "=" + get_key(q.experiment, key.key) + "\n";
    text += "version " STEPCAST_VERSION "\n";
    std::vector<std::string> routings{q.experiment.routing.file};
    for (const Axis& axis : q.axes)
        if (axis.key == "routing.file")
            routings.insert(routings.end(), axis.values.begin(), axis.values.end());
    for (const std::string& routing : routings)
        if (const std::string file = routing_parts(routing).first; !file.empty())
            text += "routing " + stamp_of(read_text(file, "a routing file", any_size)) + "\n";
    for (const Axis& axis : q.axes)
        text += fmt::format("{}={}\n", axis.key, fmt::join(axis.values, ","));
    if (std::ranges::any_of(q.axes, lays_preset))
        for (const Override& one : q.stated) text += "stated " + one.key + "=" + one.value + "\n";
    for (const Constraint& c : q.where) text += c.text + "\n";
    if (q.within) text += "within\n";
    for (const Offer& offer : q.training ? q.training->market.offers : std::vector<Offer>())
        text += fmt::format("{} {}\n", offer.gpu, offer.price_per_gpu_hour);
    text += fmt::format("{} {} {}", to_string(q.objective), q.second ? to_string(*q.second) : "",
                        q.top);
    return stamp_of(text);
}

SweepFile::SweepFile(const std::string& folder, const SweepQuestion& question, bool resume)
    : path_(folder + "/sweep.csv"), kept_(head(question)) {
    if (!std::filesystem::exists(path_))
        for (const char* name : {"top.csv", "summary.md", "report.html"})
            if (std::filesystem::exists(folder + "/" + name))
                throw ConfigError(
                    fmt::format("{}/{}: is of no sweep, as no sweep.csv lies next to it; expected "
                                "another --out, or "
                                "that it is moved",
                                folder, name));
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw ConfigError(folder + ": cannot be made (" + error.message() + ")");
    if (std::filesystem::exists(path_)) {
        read(read_text(path_, "a file of a sweep", any_size));
        if (!resume && !is_complete_)
            throw ConfigError(
                path_ +
                ": holds a sweep that was not finished; expected --resume to go on with it, or "
                "another --out");
        if (!resume) {
            kept_ = head(question);
            rounds_.clear();
            simulated_.clear();
        }
    }
    write_whole({{path_, kept_}});
    kept_.clear();
    file_ = std::fopen(path_.c_str(), "a");
    if (!file_) throw ConfigError(path_ + ": cannot be written (" + std::strerror(errno) + ")");
}

SweepFile::~SweepFile() {
    if (file_) std::fclose(file_);
}

void SweepFile::append(const std::string& lines) {
    if (std::fwrite(lines.data(), 1, lines.size(), file_) != lines.size() ||
        std::fflush(file_) != 0)
        throw ConfigError(path_ + ": cannot be written (" + std::strerror(errno) + ")");
}

std::optional<Screened> SweepFile::round(std::uint64_t number) const {
    const auto found = rounds_.find(number);
    return found == rounds_.end() ? std::nullopt : std::optional(found->second);
}

const SimulatedPoint* SweepFile::simulated(PointId id) const {
    const auto found = simulated_.find(id);
    return found == simulated_.end() ? nullptr : &found->second;
}

void SweepFile::add_round(std::uint64_t number, const Screened& screened) {
    append(records_of(screened) + record_of("round", number));
}

void SweepFile::add(const SimulatedPoint& p, const Settings& settings) {
    append(record_of(p, settings));
}

void SweepFile::complete() { append(record_of("complete")); }

// Reads up to the last whole line. The lines of a round count only if the line that ends the round
// follows.
void SweepFile::read(const std::string& text) {
    const std::string expected = kept_.substr(0, kept_.find("# experiment"));
    if (expected.starts_with(text)) return;  // the file was cut off within its head
    if (!text.starts_with(expected)) refuse_other(path_, text);
    SweepJobResult known;
    std::string of_round;
    std::size_t row = 0;
    for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
        ++row;
        const std::string whole = text.substr(at, end + 1 - at);
        if (whole.front() == '#' || whole.starts_with("record,")) continue;
        try {
            const RecordFields record =
                record_fields(std::string_view(whole).substr(0, whole.size() - 1));
            if (record.front() == "complete") {
                is_complete_ = true;
            } else if (record.front() == "round") {
                rounds_[count_in(record)] = std::exchange(known.screened, {});
                kept_ += std::exchange(of_round, {}) + whole;
            } else {
                read_record(record, known);
                (known.simulated.empty() ? of_round : kept_) += whole;
                for (SimulatedPoint& point : std::exchange(known.simulated, {}))
                    simulated_[point.id] = std::move(point);
            }
        } catch (const ConfigError& error) {
            throw ConfigError(fmt::format("{}:{}: {}", path_, row, error.what()));
        }
    }
}

}  // namespace stepcast
