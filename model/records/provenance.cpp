#include "model/records/provenance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "model/errors.h"
#include "model/experiment.h"
#include "model/files/plain_text.h"
#include "model/files/stamp.h"
#include "model/presets.h"
#include "model/records/table_row.h"

namespace stepcast {
namespace {

// What was measured: the first of these columns that a row states. Derived numbers beside it add no information.
constexpr std::array measured_columns{"step_s",    "time_us",      "time_us_per_call",  "value",
                                      "forward_s", "peak_bytes",   "peak_reserved_gib", "allocated_gib",
                                      "median_us", "measured_gib", "sustained_us"};
// What it was measured at. Words count only if they say what was timed.
constexpr std::array setting_columns{
    "layers", "hidden",     "seq",      "gpus",  "tp",      "pp",           "cp",     "ep",     "mbs",
    "gbs",                                                                                                // steps
    "batch",  "m",          "n",        "k",     "groups",  "rows",         "width",  "count",  "calls",  // kernels
    "heads",  "kv_heads",   "head_dim", "seq_q", "seq_k",   "causal",       "window", "tokens", "tokens_per_rank",
    "ranks",  "nodes",      "bytes",    "sms",                                              // collectives
    "inter",  "num_tokens", "topk",     "top_k", "experts", "tp_in_expert", "d",      "h",  // expert layers
    "rank",   "step",                                                                       // samples
    "op",     "dtype",      "kind",     "pass",  "phase",   "distribution"};                // words

constexpr int bits = 36, letters = 6, hashes_a_line = 20;
constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// "8192", "8192.0" and "8.192e3" become the same number. Other text only loses blanks and capitals.
std::string normal(std::string_view text) {
    std::string plain = lower_case(std::string(text));
    std::erase_if(plain, [](char c) { return c == ' ' || c == '\t'; });
    const auto number = as_number<double>(plain);
    return number ? fmt::format("{:.6g}", *number) : plain;
}

RowHash folded_hash(std::string_view text) {
    std::uint64_t hash = fnv1a(text);
    hash = (hash >> bits) ^ (hash & ((1ULL << bits) - 1));
    return hash == 0 ? 1 : hash;
}

void add_fitted_rows(const Cluster& cluster, std::set<std::string>& visited, std::vector<RowHash>& rows) {
    if (cluster.fitted) rows = joined(std::move(rows), cluster.fitted->rows);
    for (const std::string& base : words_of(cluster.inherits))
        if (visited.insert(base).second) add_fitted_rows(read_cluster(base), visited, rows);
}

bool holds_any(const std::vector<RowHash>& sorted, const std::vector<RowHash>& rows) {
    return std::ranges::any_of(rows, [&](RowHash row) { return std::ranges::binary_search(sorted, row); });
}

std::vector<RowHash> read_seen_rows() {
    std::ifstream in(home_folder() + "/model/presets/seen_rows.txt");
    std::vector<RowHash> rows;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with('#')) continue;
        std::ranges::copy(read_hash_line(line), std::back_inserter(rows));
    }
    return joined(std::move(rows), {});
}

}  // namespace

RowHash row_hash(const std::function<std::string(std::string_view column)>& cell) {
    std::string content;
    for (const std::string_view column : measured_columns)
        if (const std::string text = cell(column); !text.empty()) {
            content = fmt::format("{}={}", column, normal(text));
            break;
        }
    if (content.empty()) return 0;
    for (const std::string_view column : setting_columns)
        if (const std::string text = normal(cell(column)); !text.empty())
            content += fmt::format(" {}={}", column, text);
    return folded_hash(content);
}

RowHash row_hash(const Sample& s) {
    return row_hash([&](std::string_view column) -> std::string {
        if (column == "value") return fmt::format("{}", s.value);
        if (column == "experts" || column == "ranks") return std::to_string(column == "ranks" ? s.ranks : s.experts);
        if (column == "rank" || column == "step") return std::to_string(column == "step" ? s.step : s.rank);
        return column == "phase" ? s.phase : "";
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
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (i % hashes_a_line == 0) lines.emplace_back();
        for (int shift = bits - 6; shift >= 0; shift -= 6) lines.back() += alphabet[(rows[i] >> shift) & 63];
    }
    return lines;
}

std::vector<RowHash> read_hash_line(std::string_view line) {
    std::vector<RowHash> rows;
    if (line.size() % letters != 0)
        throw ConfigError(fmt::format("{} letters; expected {} of each row's hash", line.size(), letters));
    for (std::size_t i = 0; i < line.size(); ++i) {
        const auto digit = alphabet.find(line[i]);
        if (digit == std::string_view::npos)
            throw ConfigError(fmt::format("'{}' is no letter of a hash; expected A-Z a-z 0-9 - _", line[i]));
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
        if (!sample || (row.text("phase") == "step" && row.text("rank") == "-1")) rows.push_back(row.hash());
    return joined(std::move(rows), {});
}

std::string rows_text(const std::vector<std::string>& paths) {
    if (paths.empty()) throw ConfigError("list rows: no file; expected tables of measurements");
    std::vector<RowHash> rows;
    for (const std::string& path : paths) rows = joined(std::move(rows), rows_of_file(path));
    return fmt::format("{}\n", fmt::join(hash_lines(rows), "\n"));
}

std::vector<RowHash> joined(std::vector<RowHash> a, const std::vector<RowHash>& b) {
    a.insert(a.end(), b.begin(), b.end());
    std::sort(a.begin(), a.end());
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
    return holds_any(fitted, rows) ? Evidence::fitted : holds_any(seen, rows) ? Evidence::seen : Evidence::unseen;
}

}  // namespace stepcast
