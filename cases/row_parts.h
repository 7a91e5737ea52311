// A row of a table of training steps, cell by cell and part by part, as the experiment that it is of. Internal to cases/.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cases/cases.h"
#include "cases/shelf.h"
#include "model/dtype.h"
#include "model/experiment.h"
#include "model/files/plain_text.h"

namespace stepcast {

// Cells of a case row as values. Complaints begin with the column.

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

// A transformer that no preset experiment describes: workload and split from the row's columns, the machine from its gpu column (or the cluster `named`); what it does not
// state from its framework, each listed among the assumptions. Throws ConfigError, column first.
Case transformer_case(const CaseRow& row, const std::string& named, Shelf& shelf);

// The parts of a case that stand in columns of their own: source, id and series; the measured step and its passes; cells that
// say of themselves that they are assumed.
void name_after(const CaseRow& row, Case& result);
void take_measured(const CaseRow& row, Case& result);
void add_assumed(const CaseRow& row, std::vector<std::string>& assumptions);

// case_of() with clusters already read.
Case case_of(const CaseRow& row, const std::string& cluster, Shelf& shelf);

// How a transformer splits its work: the columns tp .. gbs and recompute; `experiment` has its workload, cluster and framework, from which follows what memory
// decides. What is not stated is listed in `assumptions`. Throws ConfigError, column first.
Parallelism split_of(const CaseRow& row, int ranks, const Experiment& experiment,
                     std::vector<std::string>& assumptions);
// Modules of a layer that the row's recompute makes again by themselves, each under a checkpoint of its own (Megatron-Core).
double modules_again(const CaseRow& row, const Workload& workload);
// How else what the row leaves open may be read, next to the experiment that was made of it.
std::vector<Reading> readings_of_row(const CaseRow& row, const Experiment& experiment);

// What a row leaves open and memory decides, as sim/predict.h foretells it: people raise the micro-batch until it no longer fits,
// and recompute only what does not fit.

// The largest divisor of the sequences of a replica that fits with the experiment's recompute; 1 when none does.
int fitting_micro_batch(const Experiment& experiment);

struct ChosenRecompute {
    Recompute kind = Recompute::none;
    int layers = 0;  // as Parallelism::recompute_layers
    friend bool operator==(const ChosenRecompute&, const ChosenRecompute&) = default;
};
// The least that fits into `room` of the memory: none, then the scores of plain attention, then whole layers of a
// stage, as few as possible.
inline constexpr double usual_room = 1.15;  // what comes so near was made to fit by other means
ChosenRecompute fitting_recompute(const Experiment& experiment, double room = usual_room);

// Rows that train something else than all weights on full sequences.

// Adapters next to frozen weights (LoRA, PEFT) are set in the workload; fine-tuning of all weights is the work of
// pretraining on sequences that are packed full. Both are listed in `assumptions`. Throws ConfigError for work that is no
// training step (inference, preference optimisation).
void set_other_work(const CaseRow& row, Workload& workload, std::vector<std::string>& assumptions);

// The machine that it ran on, from its gpu, gpus and interconnect columns.

// The preset cluster for a device text: a preset's or its device's own name in any case, or a text that begins with the
// family of a shipped cluster ("H100-80GB-SXM"). Throws ConfigError naming what there is.
std::string cluster_for(const std::string& gpu, Shelf& shelf);

// A cluster of `ranks` ranks after the row: the named one, or the one for its gpu column, with the device's memory and
// the network that the row states; whole nodes, or one node with fewer ranks. What is not stated is listed in
// `assumptions`. The device and network of a row on another device than `named` are left as they are.
Cluster cluster_of_row(const CaseRow& row, int ranks, const std::string& named, Shelf& shelf,
                       std::vector<std::string>& assumptions);

// What stands for a routing that was not stated or recorded ("routing not stated").
void add_random_gate(const std::string& why, std::vector<Override>& overrides, std::vector<std::string>& assumptions);

// The overrides that put a run on `cluster`, or on its experiment's own (""), with the ranks that it ran on (0 = not stated).
void add_machine(const std::string& cluster, const Cluster& own, int ranks, std::vector<Override>& overrides,
                 std::vector<std::string>& assumptions);

// The element type that a row's precision column names, of the operands of matrix products: "fp8 current scaling", "FP8-MX", "float8 (linears)" -> fp8; "NVFP4" -> fp4; "16-mixed"
// -> fp16. Throws ConfigError where the text names none.
Dtype dtype_in(const CaseRow& row);

}  // namespace stepcast
