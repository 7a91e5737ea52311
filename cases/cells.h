// Cells of a case row as values. Complaints begin with the column. Internal to cases/.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cases/cases.h"
#include "model/files/plain_text.h"

namespace stepcast {

// Columns that are one key each.
struct KeyColumn {
    const char *name, *key;
};
std::span<const KeyColumn> key_columns();
// Each of their cells, and gpus, against type and range of its key.
void check_ranges(const CaseRow& row);

std::string first_word(const std::string& text);  // "full (use_checkpoint true)" -> "full"
bool contains(std::string_view text, std::string_view part);

bool states(const CaseRow& row, const std::string& column);                  // not empty, "n/a" or "not stated .."
std::optional<int> count_in(const CaseRow& row, const std::string& column);  // at least 1; not stated: nothing
int count_in(const CaseRow& row, const std::string& column, int otherwise);
Seconds seconds_in(const CaseRow& row, const std::string& column);  // above 0
bool is_on(const CaseRow& row, const std::string& column);          // "on (assumed)", "yes"; not stated: off

int count_of(double number);  // of a note, as an int; ConfigError beyond
// The number that ends just before position `at`, or begins at the first digit after it.
std::optional<double> number_before(std::string_view text, std::size_t at);
std::optional<double> number_after(std::string_view text, std::size_t at);
// The same next to the first place where the text has this phrase; nothing where it has none.
std::optional<double> number_before(std::string_view text, std::string_view phrase);
std::optional<double> number_after(std::string_view text, std::string_view phrase);

// tp x pp x dp x cp against gpus, where both are stated.
void check_rank_product(const CaseRow& row);
// The step, checked against the value that it was derived from, where the unit is a time or tokens per second of one rank.
Seconds measured_step(const CaseRow& row);
// "peak allocated 66.55 GiB measured", "peak reserved 50.18 GiB on rank 0" in the notes.
std::optional<Bytes> measured_peak(const CaseRow& row);

}  // namespace stepcast
