#include "reports/kernel_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "measured/medians.h"
#include "model/base/csv.h"
#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/records/measurements.h"
#include "model/records/provenance.h"
#include "reports/compare.h"
#include "reports/forecast_tables.h"

namespace stepcast {
namespace {

using Rows = std::vector<KernelComparison>;

// Groups the rows by key, in the order of the keys' first rows.
template <typename KeyOf>
std::vector<std::pair<std::string, Rows>> grouped(const Rows& rows, KeyOf key_of) {
    std::vector<std::pair<std::string, Rows>> groups;
    std::map<std::string, std::size_t> index;
    for (const KernelComparison& row : rows) {
        const auto [at, fresh] = index.emplace(key_of(row), groups.size());
        if (fresh) groups.emplace_back(at->first, Rows{});
        groups[at->second].second.push_back(row);
    }
    return groups;
}

// Size classes, ascending: by the payload of collectives, by the time of other kernels, which tells
// whether latency or rate dominates.
constexpr std::array sizes{
    "below 20 us",      "20 to 200 us", "0.2 to 2 ms", "above 2 ms", "collectives below 64 KiB",
    "64 KiB to 16 MiB", "above 16 MiB"};
const char* size_of(const KernelComparison& k) {
    if (k.ranks > 0)
        return sizes[k.bytes < Bytes(64 << 10) ? 4 : k.bytes < Bytes(16 << 20) ? 5 : 6];
    const double us = 1e6 * k.measured.si();
    return sizes[us < 20 ? 0 : us < 200 ? 1 : us < 2000 ? 2 : 3];
}

// `first`: the columns that name what a row is about. The error columns behind them are the same in
// every table.
Table summary_table(std::vector<Column> first) {
    for (const Column& column :
         {Column{"rows", 6}, {"median", 8}, {"mean", 8}, {"bias", 8}, {"worst", 9}, {"inside", 8}})
        first.push_back(column);
    return {"", std::move(first), {}};
}
void add_row(Table& table, std::vector<Cell> first, const KernelSummary& s) {
    for (const Cell& cell :
         {count_cell(s.predicted), percent_cell(s.median_ape), percent_cell(s.mape),
          signed_percent_cell(s.bias), signed_percent_cell(s.worst),
          Cell{s.inside_interval ? percent_text(*s.inside_interval) : "-"}})
        first.push_back(cell);
    table.rows.push_back(std::move(first));
}

std::string name_of(const KernelSummary& s) {
    return fmt::format("{}{}{} on {}", s.kind, s.dtype.empty() ? "" : " ", s.dtype, s.device);
}

std::vector<std::string> refusals(const KernelComparisons& kernels) {
    std::vector<std::string> lines;
    for (const KernelRefusal& r : kernels.refused)
        add_line(lines, "{} row{} of {} refused: {}", r.rows, r.rows == 1 ? "" : "s",
                 r.device.empty() ? "no device" : r.device, r.reason);
    return lines;
}

std::vector<std::string> evidence_lines(const Rows& rows) {
    std::vector<std::string> lines;
    for (const Evidence evidence : all_evidence) {
        const Rows chosen = of_evidence(rows, evidence);
        if (chosen.empty()) continue;
        const KernelSummary s = kernel_summary_of(chosen);
        add_line(lines, "{}: {}, median error {}, mean {}, bias {}, worst {}", meaning_of(evidence),
                 s.predicted, percent_text(s.median_ape), percent_text(s.mape),
                 signed_percent_text(s.bias), signed_percent_text(s.worst));
    }
    return lines;
}

std::string clusters_line(const Rows& rows) {
    std::set<std::string> pairs;
    for (const KernelComparison& k : rows)
        pairs.insert(fmt::format("{} on {}", k.device, k.cluster));
    return fmt::format("predicted by cluster: {}", joined(pairs, ", "));
}

// "" if the cluster has constants for every kernel by its name.
std::string stand_ins(const Rows& rows) {
    std::map<std::string, int> counts;
    for (const KernelComparison& k : rows)
        if (!k.stand_in.empty())
            ++counts[fmt::format("{} as {} on {}", k.kernel, k.stand_in, k.cluster)];
    std::vector<std::string> parts;
    for (const auto& [what, count] : counts)
        parts.push_back(fmt::format("{} ({} row{})", what, count, count == 1 ? "" : "s"));
    return parts.empty()
               ? ""
               : fmt::format("kernels without constants under their name, estimated as another: {}",
                             joined(parts, "; "));
}

}  // namespace

KernelSummary kernel_summary_of(const Rows& rows) {
    KernelSummary s;
    if (rows.empty()) return s;
    s.kind = rows.front().kind;
    s.device = rows.front().device;
    s.dtype = rows.front().dtype;
    s.rows = s.predicted = as_int(rows.size());
    std::vector<double> absolute;
    int with_interval = 0, inside = 0;
    for (const KernelComparison& k : rows) {
        const double error = relative_error(k);
        absolute.push_back(std::abs(error));
        s.mape += std::abs(error) / s.rows;
        s.bias += error / s.rows;
        if (std::abs(error) > std::abs(s.worst)) s.worst = error;
        if (!(k.p10 < k.p90)) continue;
        ++with_interval;
        inside += k.p10 <= k.measured && k.measured <= k.p90;
    }
    s.median_ape = median(absolute);
    if (with_interval > 0) s.inside_interval = inside / real(with_interval);
    return s;
}

std::vector<KernelSummary> kernel_summaries(const KernelComparisons& kernels) {
    std::vector<KernelSummary> all;
    for (const auto& [key, rows] : grouped(kernels.rows, [](const KernelComparison& k) {
             return k.kind + "\n" + k.device + "\n" + k.dtype;
         }))
        all.push_back(kernel_summary_of(rows));
    return all;
}

std::string kernel_table(const KernelComparisons& kernels) {
    std::string text;
    std::size_t width = 30;
    for (const KernelSummary& s : kernel_summaries(kernels))
        width = std::max(width, name_of(s).size());
    if (!kernels.rows.empty()) {
        Table by_kind = summary_table({{"kernels and collectives", width, true}}),
              by_size = summary_table({{"by size", width, true}});
        for (const KernelSummary& s : kernel_summaries(kernels))
            add_row(by_kind, {{name_of(s)}}, s);
        for (const char* size : sizes) {
            const Rows rows =
                where(kernels.rows, [&](const KernelComparison& k) { return size_of(k) == size; });
            if (!rows.empty()) add_row(by_size, {{size}}, kernel_summary_of(rows));
        }
        by_size.rows.push_back({{""}});
        add_row(by_size, {{"all"}}, kernel_summary_of(kernels.rows));
        text += text_of(by_kind) + "\n" + text_of(by_size);
        for (const std::string& sentence : evidence_lines(kernels.rows)) text += wrapped(sentence);
        text += wrapped(clusters_line(kernels.rows));
        if (const std::string sentence = stand_ins(kernels.rows); !sentence.empty())
            text += wrapped(sentence);
    }
    for (const std::string& sentence : refusals(kernels)) text += wrapped(sentence);
    return text;
}

PageSection kernel_section(const KernelComparisons& kernels) {
    Table table = summary_table({{"kind", 0, true}, {"device", 0, true}, {"dtype", 0, true}});
    table.columns.back().name = "inside p10..p90";
    for (const KernelSummary& s : kernel_summaries(kernels))
        add_row(table, {{s.kind}, {s.device}, {s.dtype}}, s);
    PageSection section{.title = "Kernels and collectives",
                        .tables = {table},
                        .sentences = evidence_lines(kernels.rows)};
    if (!kernels.rows.empty()) section.sentences.push_back(clusters_line(kernels.rows));
    if (std::string sentence = stand_ins(kernels.rows); !sentence.empty())
        section.sentences.push_back(std::move(sentence));
    for (std::string& sentence : refusals(kernels))
        section.sentences.push_back(std::move(sentence));
    return section;
}

std::string kernel_csv(const KernelComparisons& kernels) {
    std::string text =
        "kind,device,dtype,cluster,shape,ranks,bytes,flop,measured_s,predicted_s,p10_s,p90_s,error,"
        "evidence\n";
    for (const KernelComparison& k : kernels.rows)
        text += fmt::format(
            "{},{},{},{},{},{},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.6g},{}\n",
            spreadsheet_field(k.kind), spreadsheet_field(k.device), spreadsheet_field(k.dtype),
            spreadsheet_field(k.cluster), spreadsheet_field(k.name), k.ranks, k.bytes.si(),
            k.work.si(), k.measured.si(), k.predicted.si(), k.p10.si(), k.p90.si(),
            relative_error(k), to_string(k.evidence));
    return text;
}

}  // namespace stepcast
