#include "model/records/provenance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>

#include "model/base/characters.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/stamp.h"
#include "model/experiment.h"
#include "model/input/presets.h"
#include "model/records/table_row.h"

namespace stepcast {
namespace {

// What was measured: the first of these columns that a row states. Derived numbers beside it add no
// information.
constexpr std::array measured_columns{
    "step_s",    "time_us",      "time_us_per_call",  "value",
    "forward_s", "peak_bytes",   "peak_reserved_gib", "allocated_gib",
    "median_us", "measured_gib", "sustained_us"};
// What it was measured at. Words count only if they say what was timed.
constexpr std::array setting_columns{"layers", "hidden",     "seq",
                                     "gpus",   "tp",         "pp",
                                     "cp",     "ep",         "mbs",
                                     "gbs",  // steps
                                     "batch",  "m",          "n",
                                     "k",      "groups",     "rows",
                                     "width",  "count",      "calls",  // kernels
                                     "heads",  "kv_heads",   "head_dim",
                                     "seq_q",  "seq_k",      "causal",
                                     "window", "tokens",     "tokens_per_rank",
                                     "ranks",  "nodes",      "bytes",
                                     "sms",  // collectives
                                     "inter",  "num_tokens", "topk",
                                     "top_k",  "experts",    "tp_in_expert",
                                     "d",      "h",     // expert layers
                                     "rank",   "step",  // samples
                                     "op",     "dtype",      "kind",
                                     "pass",   "phase",      "distribution",  // words
                                     "system", "precision"};

constexpr int bits = 36, letters = 6, hashes_a_line = 20;
constexpr int number_bits = 6;  // of them, the lowest: the measured number
constexpr double number_step = 1.02;
constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// "8192", "8192.0" and "8.192e3" become the same number. Other text only loses blanks and capitals.
std::string normal(std::string_view text) {
    std::string plain = lower_case(std::string(text));
    std::erase_if(plain, [](char c) { return c == ' ' || c == '\t'; });
    const auto number = as_number<double>(plain);
    return number ? fmt::format("{:.6g}", *number) : plain;
}

void add_fitted_rows(const Cluster& cluster, std::set<std::string>& visited,
                     std::vector<RowHash>& rows) {
    if (cluster.fitted) rows = joined(std::move(rows), cluster.fitted->rows);
    for (const std::string& base : words_of(cluster.inherits))
        if (visited.insert(base).second) add_fitted_rows(stated_cluster(base), visited, rows);
}

bool holds_any(const std::vector<RowHash>& sorted, const std::vector<RowHash>& rows) {
    return std::ranges::any_of(rows, [&](RowHash row) { return known_among(sorted, row); });
}

std::vector<RowHash> read_seen_rows() {
    std::ifstream in(home_folder() + "/model/presets/seen_rows.txt");
    std::vector<RowHash> rows;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with('#')) continue;
        append(rows, read_hash_line(line));
    }
    return joined(std::move(rows), {});
}

}  // namespace

RowHash row_hash(std::string_view settings, double measured) {
    constexpr RowHash numbers = RowHash{1} << number_bits;
    std::uint64_t hash = fnv1a(settings);
    hash = ((hash >> (bits - number_bits)) ^ hash) & ((RowHash{1} << (bits - number_bits)) - 1);
    const double steps = std::floor(std::log(measured) / std::log(number_step));
    const auto number = static_cast<RowHash>(static_cast<std::int64_t>(steps)) % numbers;
    return (std::max<std::uint64_t>(hash, 1) << number_bits) | number;
}

std::string gpu_word(std::string_view text) {
    std::string word;
    for (const char c : lower_case(std::string(text)) + " ") {
        if (is_letter_or_digit(c)) {
            word += c;
            continue;
        }
        if (word.find_first_of("0123456789") != std::string::npos) return word;
        word.clear();
    }
    return "";
}

RowHash row_hash(const std::function<std::string(std::string_view column)>& cell) {
    for (const std::string_view measured : measured_columns) {
        const std::string text = normal(cell(measured));
        if (text.empty()) continue;
        const auto number = as_number<double>(text);
        if (!number || !(*number > 0)) return 0;
        // Seconds, microseconds and bytes of one run are different columns of it.
        std::string settings(measured);
        for (const std::string_view column : setting_columns)
            if (const std::string value = normal(cell(column)); !value.empty() && value != "1")
                settings += fmt::format(" {}={}", column, value);
        if (const std::string gpu = gpu_word(cell("gpu")); !gpu.empty()) settings += " gpu=" + gpu;
        return row_hash(settings, *number);
    }
    return 0;
}

RowHash row_hash(const Sample& s) {
    return row_hash([&](std::string_view column) -> std::string {
        if (column == "value") return fmt::format("{}", s.value);
        if (column == "experts" || column == "ranks")
            return std::to_string(column == "ranks" ? s.ranks : s.experts);
        if (column == "rank" || column == "step")
            return std::to_string(column == "step" ? s.step : s.rank);
        if (column == "system") return s.system;
        return column == "phase" ? s.phase : "";
    });
}

RowHash row_hash(const Experiment& e, std::string_view gpu, Seconds measured) {
    const auto& w = e.workload;
    const auto& p = e.parallelism;
    const std::string settings = fmt::format(
        "step layers={} hidden={} seq={} tp={} pp={} dp={} cp={} ep={} mbs={} gbs={} dtype={} "
        "gpu={}",
        w.layers, w.hidden, w.seq, p.tp, p.pp, p.dp, p.cp, p.ep, p.micro_batch,
        sequences_of_step(p), to_string(w.dtype), gpu_word(gpu));
    return row_hash(settings, measured.si());
}

bool known_among(const std::vector<RowHash>& sorted, RowHash row) {
    constexpr RowHash numbers = RowHash{1} << number_bits;
    const RowHash settings = row & ~(numbers - 1);
    return std::ranges::any_of(std::array<RowHash, 3>{0, 1, numbers - 1}, [&](RowHash step) {
        return std::ranges::binary_search(sorted, settings | ((row + step) % numbers));
    });
}

std::vector<RowHash> step_rows(const std::vector<Sample>& samples) {
    std::vector<RowHash> rows;
    for (const Sample& s : samples)
        if (s.phase == "step" && s.rank == -1) rows.push_back(row_hash(s));
    return joined(std::move(rows), {});
}

std::vector<std::string> hash_lines(const std::vector<RowHash>& rows) {
    std::vector<std::string> lines;
    for (const std::size_t i : indices_of(rows)) {
        if (i % hashes_a_line == 0) lines.emplace_back();
        for (int shift = bits - 6; shift >= 0; shift -= 6)
            lines.back() += alphabet[(rows[i] >> shift) & 63];
    }
    return lines;
}

std::vector<RowHash> read_hash_line(std::string_view line) {
    std::vector<RowHash> rows;
    if (line.size() % letters != 0)
        refuse("{} letters; expected {} of each row's hash", line.size(), letters);
    for (const std::size_t i : indices_of(line)) {
        const auto digit = alphabet.find(line[i]);
        if (digit == std::string_view::npos)
            refuse("'{}' is no letter of a hash; expected A-Z a-z 0-9 - _", line[i]);
        if (i % letters == 0) rows.push_back(0);
        rows.back() = (rows.back() << 6) | digit;
    }
    return rows;
}

std::vector<RowHash> rows_of_file(const std::string& path) {
    CsvReader csv(path);
    std::vector<RowHash> rows;
    if (!csv.next_after_comments()) return rows;
    TableRow row(csv);
    const bool sample = row.has("run_id") && row.has("phase");
    while (row.next())
        if (!sample || (row.text("phase") == "step" && row.text("rank") == "-1"))
            rows.push_back(row.hash());
    return joined(std::move(rows), {});
}

std::vector<RowHash> joined(std::vector<RowHash> a, const std::vector<RowHash>& b) {
    append(a, b);
    if (!std::ranges::is_sorted(a)) std::ranges::sort(a);  // files list them in order
    a.erase(std::unique(a.begin(), a.end()), a.end());
    if (!a.empty() && a.front() == 0) a.erase(a.begin());
    return a;
}

std::vector<RowHash> fitted_rows(const Cluster& cluster) {
    std::set<std::string> visited;
    std::vector<RowHash> rows;
    add_fitted_rows(cluster, visited, rows);
    return rows;
}

const std::vector<RowHash>& seen_rows() {
    static const std::vector<RowHash> rows = read_seen_rows();
    return rows;
}

Evidence evidence_of(const std::vector<RowHash>& rows, const std::vector<RowHash>& fitted,
                     const std::vector<RowHash>& seen) {
    return holds_any(fitted, rows) ? Evidence::fitted
           : holds_any(seen, rows) ? Evidence::seen
                                   : Evidence::unseen;
}

}  // namespace stepcast
