#include "import/tables/cases.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "import/tables/row_parts.h"
#include "import/tables/stated_value.h"
#include "model/base/characters.h"
#include "model/base/csv.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/text_search.h"
#include "model/input/keys.h"

namespace stepcast {
namespace {

const std::vector<std::string> header_columns{
    "source",     "case_id",   "model",     "layers",    "hidden",
    "heads",      "kv_heads",  "ffn",       "vocab",     "seq",
    "experts",    "topk",      "gpus",      "gpu",       "interconnect",
    "tp",         "pp",        "vp",        "dp",        "ep",
    "cp",         "sp",        "zero",      "mbs",       "gbs",
    "recompute",  "precision", "metric",    "value",     "unit",
    "step_s",     "ref",       "notes",     "forward_s", "backward_s",
    "moe_system", "routing",   "framework", "dispatch",  "overlap_experts"};

void check_header(const CsvReader& csv) {
    const auto& header = csv.fields();
    const auto has = [&](const char* name) { return contains(header, name); };
    if (!has("model") && !has("step_s"))
        csv.fail(
            fmt::format("found header \"{},..\" of {} columns; expected cases (model,step_s,.. as "
                        "in docs/files.md) or kernels (m,n,k,dtype,time_us and "
                        "others, as in docs/files.md)",
                        header.front(), header.size()));
    for (const auto& name : header) {
        if (!contains(header_columns, name)) {
            const auto hint = did_you_mean(name, header_columns);
            csv.fail("\"" + name + "\" is no column of a cases file" +
                     (hint.empty() ? "; docs/files.md lists them" : hint));
        }
        if (std::count(header.begin(), header.end(), name) > 1)
            csv.fail("column " + name + " is there twice");
    }
    for (const char* required : {"model", "step_s"})
        if (!has(required))
            csv.fail(fmt::format("column {} is missing; expected a cases file as in docs/files.md",
                                 required));
}

}  // namespace

const std::string& CaseRow::cell(const std::string& column) const {
    static const std::string empty;
    const auto found = cells.find(column);
    return found == cells.end() ? empty : found->second;
}

std::vector<CaseRow> read_cases(const std::string& path) {
    CsvReader csv(path);
    if (!csv.next()) csv.fail("is empty; expected a cases file as in docs/files.md");
    check_header(csv);
    const auto header = csv.fields();
    std::vector<CaseRow> rows;
    while (csv.next()) {
        csv.expect_fields(header.size());
        CaseRow row{path, csv.line(), {}};
        for (std::size_t i = 0; i < header.size(); ++i) row.cells[header[i]] = csv.fields()[i];
        rows.push_back(std::move(row));
    }
    return rows;
}

namespace {

double required_number(const CaseRow& row, const std::string& column) {
    return at_place(column, [&] { return csv_number(row.cell(column)); });
}

}  // namespace

void check_ranges(const CaseRow& row) {
    constexpr int most_gpus = 1 << 20;
    if (count_in(row, "gpus", 1) > most_gpus)
        throw ConfigError(
            fmt::format("gpus: {} is out of range; expected 1 to {}", row.cell("gpus"), most_gpus));
    Experiment scratch;
    for (const auto& column : key_columns) {
        const auto& text = row.cell(column.name);
        if (states(row, column.name))
            at_place(column.name, [&] { assign_text(*find_key(column.key), scratch, text); });
    }
}

bool states(const CaseRow& row, const std::string& column) { return !row.cell(column).empty(); }

std::optional<int> count_in(const CaseRow& row, const std::string& column) {
    const auto& text = row.cell(column);
    if (!states(row, column)) return std::nullopt;
    return at_place(column, [&] { return csv_int(text, 1); });
}

int count_in(const CaseRow& row, const std::string& column, int otherwise) {
    return count_in(row, column).value_or(otherwise);
}

bool is_on(const CaseRow& row, const std::string& column) {
    const auto& word = row.cell(column);
    if (word == "on") return true;
    if (word.empty() || word == "off") return false;
    throw ConfigError(column + ": \"" + row.cell(column) + "\" is neither on nor off");
}

Seconds seconds_in(const CaseRow& row, const std::string& column) {
    const double value = required_number(row, column);
    constexpr double most = 1e6;  // seconds, about eleven days
    if (!(value > 0 && value <= most))
        throw ConfigError(
            fmt::format("{}: {} is out of range; expected more than 0 and at most {:.0f} seconds",
                        column, row.cell(column), most));
    return Seconds(value);
}

namespace {

// Number in a note. A value above any possible number of weights must be a mistake in the row.
double number_of(std::string_view digits) {
    double value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (read.ec != std::errc() || value > 1e15)
        throw ConfigError(
            fmt::format("notes: {}.. is out of range; expected a number of at most 1e15",
                        digits.substr(0, 12)));
    return value;
}

}  // namespace

int count_of(double number) {
    if (number > 1e9)
        throw ConfigError(
            fmt::format("notes: {:.0f} is out of range; expected a count of at most 1e9", number));
    return static_cast<int>(number);
}

std::optional<double> number_before(std::string_view text, std::size_t at) {
    std::size_t begin = at;
    while (begin > 0 && is_number_character(text[begin - 1])) --begin;
    if (begin == at || !is_digit(text[begin])) return std::nullopt;
    return number_of(text.substr(begin, at - begin));
}

std::optional<double> number_after(std::string_view text, std::size_t at) {
    while (at < text.size() && !is_digit(text[at])) ++at;
    std::size_t end = at;
    while (end < text.size() && is_number_character(text[end])) ++end;
    if (end == at) return std::nullopt;
    return number_of(text.substr(at, end - at));
}

std::optional<double> number_before(std::string_view text, std::string_view phrase) {
    return has(text, phrase) ? number_before(text, text.find(phrase)) : std::nullopt;
}

std::optional<double> number_after(std::string_view text, std::string_view phrase) {
    return has(text, phrase) ? number_after(text, text.find(phrase)) : std::nullopt;
}

void check_rank_product(const CaseRow& row) {
    constexpr double most = 1 << 20;
    const auto of = [&](const char* column) { return static_cast<long>(count_in(row, column, 1)); };
    double ranks = 1;
    for (const char* column : {"tp", "pp", "dp", "cp"}) ranks *= real(of(column));
    if (ranks > most)
        throw ConfigError(
            fmt::format("tp {} x pp {} x dp {} x cp {} = {:.0f} ranks; expected at most {:.0f}",
                        of("tp"), of("pp"), of("dp"), of("cp"), ranks, most));
    if (row.cell("gpus").empty() || row.cell("dp").empty()) return;
    const auto product = static_cast<long>(ranks);
    if (product != of("gpus"))
        throw ConfigError(fmt::format("tp {} x pp {} x dp {} x cp {} = {} ranks, but gpus is {}",
                                      of("tp"), of("pp"), of("dp"), of("cp"), product, of("gpus")));
}

Seconds measured_step(const CaseRow& row) {
    if (row.cell("step_s").empty()) throw ConfigError("step_s: missing; nothing to compare with");
    const Seconds step = seconds_in(row, "step_s");
    check_value(row, step);
    return step;
}

void take_peak(const CaseRow& row, Case& result) {
    for (const char* name : {"peak_gib", "reserved_gib"})
        if (!result.measured_peak && states(row, name)) {
            result.measured_peak = parse_bytes(row.cell(name) + " GiB");
            result.measured_reserved = name == std::string_view("reserved_gib");
        }
}

Dtype dtype_in(const CaseRow& row) {
    const auto& named = row.cell("precision");
    for (std::size_t i = 0; i < name_list<Dtype>.size(); ++i)
        if (name_list<Dtype>[i] == named) return static_cast<Dtype>(i);
    throw ConfigError(
        "precision: \"" + named +
        "\" names no dtype that is modelled; expected fp32, tf32, fp16, bf16, fp8 or fp4");
}

}  // namespace stepcast
