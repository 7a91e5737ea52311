#include "sim/sweep/file.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <type_traits>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/files/plain_text.h"
#include "model/files/stamp.h"
#include "model/files/whole_files.h"

namespace stepcast {
namespace {

constexpr std::string_view first_line = "# stepcast sweep 1";
constexpr std::string_view columns =
    "record,base,inner,step_s,lower_s,estimate_s,peak_bytes,tokens,price_per_s,ranks,count,text";
constexpr std::size_t column_count = 12;

// One line of the file; what a record has not stays empty.
struct Record {
    std::string_view kind;
    std::string base = {}, inner = {}, step = {}, lower = {}, estimate = {}, peak = {}, tokens = {}, price = {},
                ranks = {}, count = {}, text = {};
};
std::string line(const Record& r) {
    std::string text;
    for (const char c : r.text) text += c == '"' ? std::string("\"\"") : std::string(1, c);
    return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}\n", r.kind, r.base, r.inner, r.step, r.lower, r.estimate,
                       r.peak, r.tokens, r.price, r.ranks, r.count, text.empty() ? "" : '"' + text + '"');
}
template <class T>
std::string exact(T value) {
    if constexpr (requires { value.si(); })
        return fmt::format("{}", value.si());
    else
        return fmt::format("{}", value);
}

template <class T>
T number(std::string_view text) {
    const auto value = as_number<T>(text);
    if (!value) throw ConfigError(fmt::format("\"{}\" is no number", text));
    if constexpr (std::is_floating_point_v<T>)
        if (!std::isfinite(*value) || *value < 0)
            throw ConfigError(fmt::format("\"{}\" is no time or size; expected 0 or more", text));
    return *value;
}

std::string lines_of(std::uint64_t number, const Screened& s) {
    std::string text;
    for (const Candidate& c : s.candidates)
        text += line({.kind = "candidate",
                      .base = exact(c.id.base),
                      .inner = exact(c.id.inner),
                      .lower = exact(c.lower),
                      .estimate = exact(c.estimate),
                      .peak = exact(c.peak),
                      .tokens = exact(c.tokens),
                      .price = exact(c.price),
                      .ranks = exact(c.ranks)});
    const auto count = [&](std::string_view kind, std::uint64_t points, std::string_view reason) {
        text += line({.kind = kind, .count = exact(points), .text = std::string(reason)});
    };
    for (const auto& [reason, points] : s.illegal) count("illegal", points, reason);
    for (const auto& [reason, points] : s.infeasible) count("infeasible", points, reason);
    for (const auto& [at, step] : s.cells)
        text += line({.kind = "cell", .base = exact(at.first), .inner = exact(at.second), .estimate = exact(step)});
    count("bounded_away", s.bounded_away, "");
    count("legal", s.legal, "");
    count("round", number, "");
    return text;
}

// The fields of a line; text in quotes may hold commas, and "" for a quote.
std::vector<std::string> fields_of(std::string_view text) {
    std::vector<std::string> fields(1);
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '"' && quoted && i + 1 < text.size() && text[i + 1] == '"')
            fields.back() += text[++i];
        else if (c == '"')
            quoted = !quoted;
        else if (c == ',' && !quoted)
            fields.emplace_back();
        else
            fields.back() += c;
    }
    return fields;
}

std::string head(const SweepQuestion& q) {
    std::string text = fmt::format("{}\n# question: {}\n# experiment: {} on {}\n", first_line, fingerprint(q),
                                   q.experiment.name, q.experiment.cluster.name);
    for (const Axis& axis : q.axes) text += fmt::format("# vary: {}={}\n", axis.key, fmt::join(axis.values, ","));
    for (const Constraint& c : q.where) text += fmt::format("# where: {}\n", c.text);
    text += fmt::format("# objective: {}{}, top {}\n{}\n", to_string(q.objective),
                        q.second ? "," + std::string(to_string(*q.second)) : "", q.top, columns);
    return text;
}

// A record of a round's screening; false for another kind.
bool read_screened(const std::vector<std::string>& f, Screened& screened) {
    const std::string& kind = f.front();
    const auto count = [&] { return number<std::uint64_t>(f[10]); };
    if (kind == "candidate")
        screened.candidates.push_back({.id = {number<std::uint64_t>(f[1]), number<std::uint64_t>(f[2])},
                                       .lower = Seconds(number<double>(f[4])),
                                       .estimate = Seconds(number<double>(f[5])),
                                       .peak = Bytes(number<double>(f[6])),
                                       .tokens = number<double>(f[7]),
                                       .price = number<double>(f[8]),
                                       .ranks = number<int>(f[9])});
    else if (kind == "cell")
        screened.cells[{number<int>(f[1]), number<int>(f[2])}] = Seconds(number<double>(f[5]));
    else if (kind == "illegal")
        screened.illegal[f[11]] = count();
    else if (kind == "infeasible")
        screened.infeasible[f[11]] = count();
    else if (kind == "bounded_away")
        screened.bounded_away = count();
    else if (kind == "legal")
        screened.legal = count();
    else
        return false;
    return true;
}

[[noreturn]] void refuse_other(const std::string& path, const std::string& text) {
    throw ConfigError(path + (text.starts_with(first_line)
                                  ? ": holds another sweep: its experiment, --vary, --where, --objective or --top "
                                    "differ; expected the same, or another --out"
                                  : ": is no file of a sweep; expected another --out"));
}

}  // namespace

std::string fingerprint(const SweepQuestion& q) {
    std::string text;
    for (const KeyDoc& key : key_docs())
        if (key.kind != "preset") text += key.key + "=" + get_key(q.experiment, key.key) + "\n";
    for (const Axis& axis : q.axes) text += fmt::format("{}={}\n", axis.key, fmt::join(axis.values, ","));
    for (const Constraint& c : q.where) text += c.text + "\n";
    if (q.within) text += "within\n";
    text += fmt::format("{} {} {}", to_string(q.objective), q.second ? to_string(*q.second) : "", q.top);
    return stamp_of(text);
}

SweepFile::SweepFile(const std::string& folder, const SweepQuestion& question, bool resume)
    : path_(folder + "/sweep.csv"), kept_(head(question)) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw ConfigError(folder + ": cannot be made (" + error.message() + ")");
    if (std::filesystem::exists(path_)) {
        read(read_text(path_, "a file of a sweep", any_size));
        if (!resume && !is_complete_)
            throw ConfigError(path_ +
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
    if (std::fwrite(lines.data(), 1, lines.size(), file_) != lines.size() || std::fflush(file_) != 0)
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

void SweepFile::add_round(std::uint64_t number, const Screened& screened) { append(lines_of(number, screened)); }

void SweepFile::add(const SimulatedPoint& p, const Settings& settings) {
    std::string text;
    for (const auto& [key, value] : settings) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
    append(line({.kind = p.refused.empty() ? "simulated" : "refused",
                 .base = exact(p.id.base),
                 .inner = exact(p.id.inner),
                 .step = exact(p.step),
                 .text = p.refused.empty() ? text : p.refused}));
}

void SweepFile::complete() { append(line({.kind = "complete"})); }

// Lines count up to the last whole one; those of a round only with the line that ends it.
void SweepFile::read(const std::string& text) {
    const std::string expected = kept_.substr(0, kept_.find("# experiment"));
    if (expected.starts_with(text)) return;  // cut off before it held anything
    if (!text.starts_with(expected)) refuse_other(path_, text);
    Screened screened;
    std::string of_round;
    std::size_t row = 0;
    for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
        ++row;
        const std::string whole = text.substr(at, end + 1 - at);
        const std::vector<std::string> f = fields_of(std::string_view(whole).substr(0, whole.size() - 1));
        if (whole.front() == '#' || f.front() == "record") continue;
        try {
            if (f.size() != column_count)
                throw ConfigError(fmt::format("{} fields, expected {}", f.size(), column_count));
            const std::string& kind = f.front();
            if (kind == "simulated" || kind == "refused") {
                const PointId id{number<std::uint64_t>(f[1]), number<std::uint64_t>(f[2])};
                simulated_[id] = {id, Seconds(number<double>(f[3])), kind == "refused" ? f[11] : ""};
                kept_ += whole;
                continue;
            }
            if (kind == "complete") {
                is_complete_ = true;
                continue;
            }
            of_round += whole;
            if (kind == "round") {
                rounds_[number<std::uint64_t>(f[10])] = std::exchange(screened, {});
                kept_ += std::exchange(of_round, {});
            } else if (!read_screened(f, screened)) {
                throw ConfigError("\"" + kind + "\" is no record");
            }
        } catch (const ConfigError& error) {
            throw ConfigError(fmt::format("{}:{}: {}", path_, row, error.what()));
        }
    }
}

}  // namespace stepcast
