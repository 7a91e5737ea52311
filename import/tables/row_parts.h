// Parts that turn a row of a table of training steps into an experiment. Internal to cases/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/tables/cases.h"
#include "import/tables/shelf.h"
#include "model/base/dtype.h"
#include "model/base/plain_text.h"
#include "model/experiment.h"

namespace stepcast {

// Reading cells as values. Errors begin with the column's name.

// Columns that each set exactly one key.
struct KeyColumn {
    const char *name, *key;
};
inline constexpr KeyColumn key_columns[] = {{"layers", "workload.layers"},
                                            {"hidden", "workload.hidden"},
                                            {"heads", "workload.heads"},
                                            {"kv_heads", "workload.kv_heads"},
                                            {"ffn", "workload.ffn"},
                                            {"vocab", "workload.vocab"},
                                            {"seq", "workload.seq"},
                                            {"experts", "workload.moe.experts"},
                                            {"topk", "workload.moe.top_k"},
                                            {"tp", "parallelism.tp"},
                                            {"pp", "parallelism.pp"},
                                            {"vp", "parallelism.vp"},
                                            {"dp", "parallelism.dp"},
                                            {"ep", "parallelism.ep"},
                                            {"cp", "parallelism.cp"},
                                            {"mbs", "parallelism.micro_batch"},
                                            {"gbs", "parallelism.global_batch"},
                                            {"moe_system", "parallelism.moe_system"}};

// Checks each of those cells against the type and range of its key, and the column gpus.
void check_ranges(const CaseRow& row);

// All functions below read the cells of RowWords::plain().
bool states(const CaseRow& row, const std::string& column);

// at least 1; empty if not stated
std::optional<int> count_in(const CaseRow& row, const std::string& column);
int count_in(const CaseRow& row, const std::string& column, int otherwise);
Seconds seconds_in(const CaseRow& row, const std::string& column);  // above 0

// not stated: off
bool is_on(const CaseRow& row, const std::string& column);

int count_of(double number);  // a number from a text as an int; ConfigError if out of range

// The number that ends just before position `at`, or the one that begins at the first digit after
// it.
std::optional<double> number_before(std::string_view text, std::size_t at);
std::optional<double> number_after(std::string_view text, std::size_t at);

// The number beside the first occurrence of `phrase`; empty if the phrase does not occur.
std::optional<double> number_before(std::string_view text, std::string_view phrase);
std::optional<double> number_after(std::string_view text, std::string_view phrase);

// Checks tp x pp x dp x cp against gpus, where both are stated.
void check_rank_product(const CaseRow& row);

// The step time, checked against the value that it was derived from.
Seconds measured_step(const CaseRow& row);

// The peak of a rank's memory, allocated or else reserved.
void take_peak(const CaseRow& row, Case& result);

// Choices that the row leaves open and that memory decides (forecast by sim/predict.h): people
// raise the micro-batch until it no longer fits, and recompute only what does not fit.

struct ChosenRecompute {
    Recompute kind = Recompute::none;
    int layers = 0;  // as Parallelism::recompute_layers
    friend bool operator==(const ChosenRecompute&, const ChosenRecompute&) = default;
};
// Who publishes a recipe has made it fit by means that its table does not state, where a forecast
// is this little above the memory. Anybody else's step fits as it is forecast.
inline constexpr double recipe_room = 1.15;

// The machine of the row, from its columns gpu, gpus and interconnect.

// The element type of the operands of matrix products, from the column precision. Throws
// ConfigError where it names none.
Dtype dtype_in(const CaseRow& row);

}  // namespace stepcast
