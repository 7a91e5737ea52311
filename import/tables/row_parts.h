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

std::string first_word(const std::string& text);  // "full (use_checkpoint true)" -> "full"
bool contains(std::string_view text, std::string_view part);

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
// Refuses a step that the columns value and unit contradict by over 2 %, whatever they count: times
// of a step, steps, sequences or tokens per time, of one GPU or of all. A run's total time says
// nothing of a step.
void check_value(const CaseRow& row, Seconds step);
// Refuses a step that contradicts TFLOP/s or a share of the peak (MFU) by over a factor of two.
void check_rate(const CaseRow& row, const Experiment& e, Seconds step);
// The peak of a rank's memory, allocated or else reserved.
void take_peak(const CaseRow& row, Case& result);

// A transformer that no preset experiment describes. Its columns give workload and split, its gpu
// column (or the cluster `named`) the machine, its framework the rest. Defaults are listed among
// the assumptions. Throws ConfigError, column first.
Case transformer_case(const CaseRow& row, const std::string& named, Shelf& shelf);

// Each fills one part of a case: its source, id and series; the measured step and its passes.
void name_after(const CaseRow& row, Case& result);
void take_measured(const CaseRow& row, Case& result);

// case_of() with a shelf of clusters that were already read.
Case case_of(const CaseRow& row, const std::string& cluster, Shelf& shelf);

// The split in the columns tp to gbs and recompute. What the row leaves open is chosen by the
// memory forecast for the workload, cluster and framework of `experiment`, and listed in
// `assumptions`. Throws ConfigError, column first.
// `room`: share of the device's memory that a forecast may take.
void set_split(const CaseRow& row, int ranks, double room, Experiment& experiment, Shelf& shelf,
               std::vector<std::string>& assumptions);
// Number of modules per layer that the row's recompute runs again, each under its own checkpoint
// (Megatron-Core).
double modules_again(const CaseRow& row, const Workload& workload, Shelf& shelf);
// Other plausible readings of what the row leaves open, besides the one chosen for `experiment`.
std::vector<Reading> readings_of_row(const CaseRow& row, const Experiment& experiment, double room);

// Choices that the row leaves open and that memory decides (forecast by sim/predict.h): people
// raise the micro-batch until it no longer fits, and recompute only what does not fit.

// The largest micro-batch that fits with the experiment's recompute and divides a replica's
// sequences; 1 when none fits.
int fitting_micro_batch(const Experiment& experiment);

struct ChosenRecompute {
    Recompute kind = Recompute::none;
    int layers = 0;  // as Parallelism::recompute_layers
    friend bool operator==(const ChosenRecompute&, const ChosenRecompute&) = default;
};
// Who publishes a recipe has made it fit by means that its table does not state, where a forecast
// is this little above the memory. Anybody else's step fits as it is forecast.
inline constexpr double recipe_room = 1.15;

// The least recompute that fits into `room` times the memory. Candidates in order: none, the scores
// of plain attention, then whole layers of a stage, as few as possible.
ChosenRecompute fitting_recompute(const Experiment& experiment, double room = 1);
// Of a step that ran: the least stage, of those that the framework has, with which it fits when all
// layers are computed again; 0 when none does.
int fitting_zero(const Experiment& experiment);

// The machine of the row, from its columns gpu, gpus and interconnect.

// The preset cluster for a device text: the name of a preset or of its device in any case, or a
// text that begins with the family of a shipped cluster ("H100-80GB-SXM"). Throws ConfigError with
// the known names.
std::string cluster_for(const std::string& gpu, Shelf& shelf);

// "A100-80GB-SXM (400 W)" and "DGX A100" give "a100". A text that names no known family gives its
// first word.
std::string device_family(const std::string& gpu, Shelf& shelf);

// A cluster of `ranks` ranks: the cluster `named`, or the one for the row's gpu column, with the
// device memory and network that the row states. It has whole nodes, or one node with fewer ranks.
// Defaults are listed in `assumptions`. If the row is of another device than `named`, the device
// and network of `named` stay as they are.
Cluster cluster_of_row(const CaseRow& row, int ranks, const std::string& named, Shelf& shelf,
                       std::vector<std::string>& assumptions);

// Assumes a random gate where routing was neither stated nor recorded; `why` is for example
// "routing not stated".
void add_random_gate(const std::string& why, std::vector<Override>& overrides,
                     std::vector<std::string>& assumptions);

// Overrides that put a run on `cluster` ("" = its experiment's own) with the ranks that it ran on
// (0 = not stated).
void add_machine(const std::string& cluster, const Cluster& own, int ranks,
                 std::vector<Override>& overrides, std::vector<std::string>& assumptions);

// The element type of the operands of matrix products, from the column precision. Throws
// ConfigError where it names none.
Dtype dtype_in(const CaseRow& row);

}  // namespace stepcast
