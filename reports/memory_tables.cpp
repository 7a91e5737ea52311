#include "reports/memory_tables.h"

#include <fmt/format.h>

#include "model/base/lists.h"

namespace stepcast {
namespace {

// "the backward of micro-batch 1, layer 3, attention, in step 2"
std::string moment_text(const TensorMoment& m) {
    if (m.step < 0) return fmt::format("{} before the first step", m.what);
    std::string text =
        m.phase == Phase::optimizer ? "the update" : fmt::format("the {}", to_string(m.phase));
    if (m.micro_batch >= 0) text += fmt::format(" of micro-batch {}", m.micro_batch);
    if (m.layer >= 0) text += fmt::format(", layer {}", m.layer);
    return text + fmt::format(", {}, in step {}", m.what, m.step + 1);
}

// Where it decides whether a step fits.
std::string driver_words(const AllocatorForecast& f) {
    if (!f.hangs_on_driver) return "";
    return fmt::format(
        "; it would {} if the driver gave memory without waiting for the device, which is not "
        "certain",
        f.failure ? "fit" : "not fit");
}

std::string failure_lines(const AllocatorForecast& f) {
    const Bytes available = f.capacity - f.context;
    if (f.capacity == Bytes(0)) return "";
    if (!f.failure)
        return wrapped(fmt::format(
            "  {} of {} are left beside the context and NCCL: fits{}{}", bytes_text(available),
            bytes_text(f.capacity),
            f.retries > 0
                ? fmt::format(", after {} requests were met by freeing cached memory", f.retries)
                : "",
            driver_words(f)));
    const auto& failed = *f.failure;
    return wrapped(
        fmt::format("  OUT OF MEMORY in {}: tried to allocate {}; {} of {} are left beside the "
                    "context and NCCL, {} are allocated, {} reserved but unallocated{}",
                    moment_text(failed.moment), bytes_text(failed.asked), bytes_text(available),
                    bytes_text(f.capacity), bytes_text(failed.allocated),
                    bytes_text(failed.reserved - failed.allocated), driver_words(f)));
}

std::string remedy_lines(const AllocatorForecast& f) {
    if (f.remedies.empty()) return "";
    std::string text = "  what would help (reserved at the peak):\n";
    for (const auto& r : f.remedies)
        text += fmt::format("    {} = {}: -{}, {}\n", r.key, r.value,
                            bytes_text(f.reserved - r.reserved), r.fits ? "fits" : "not enough");
    return text;
}

Table kinds_table(const AllocatorForecast& f) {
    Table table{"", {{"allocated at the peak", 22, true}, {"bytes"}, {"share"}}, {}};
    for (const auto& [kind, bytes] : f.kinds)
        table.rows.push_back(
            {{std::string(words_of(kind))}, bytes_cell(bytes), percent_cell(bytes / f.allocated)});
    return table;
}

// Layers that hold alike stand in one row.
Table layers_table(const AllocatorForecast& f) {
    Table table{
        "",
        {{"layers", 22, true}, {"weights and states"}, {"activations"}, {"temporaries, buffers"}},
        {}};
    for (std::size_t i = 0; i < f.layers.size();) {
        const auto& first = f.layers[i];
        std::size_t end = i + 1;
        const auto alike = [&](const AllocatorForecast::OfLayer& o) {
            return o.lasting == first.lasting && o.activations == first.activations &&
                   o.work == first.work;
        };
        while (first.layer >= 0 && end < f.layers.size() && alike(f.layers[end])) ++end;
        const int last = f.layers[end - 1].layer;
        table.rows.push_back({{first.layer < 0      ? "embedding and head"
                               : last > first.layer ? fmt::format("{} to {}", first.layer, last)
                                                    : std::to_string(first.layer)},
                              bytes_cell(first.lasting),
                              bytes_cell(first.activations),
                              bytes_cell(first.work)});
        i = end;
    }
    return table;
}

// What is on nobody's account in PyTorch.
Table process_table(const AllocatorForecast& f) {
    Table table{"", {{"beside the allocator", 22, true}, {"bytes"}}, {}};
    for (const auto& [what, bytes] : f.process)
        table.rows.push_back(
            {{what == "context" ? "CUDA's context" : "NCCL, " + what}, bytes_cell(bytes)});
    return table;
}

Table stages_table(const AllocatorForecast& f) {
    Table table{"", {{"stage", 22, true}, {"allocated"}, {"reserved"}}, {}};
    for (const std::size_t s : indices_of(f.stages))
        table.rows.push_back({{std::to_string(s)},
                              bytes_cell(f.stages[s].allocated),
                              bytes_cell(f.stages[s].reserved)});
    return table;
}

}  // namespace

std::string_view words_of(TensorKind kind) {
    switch (kind) {
        case TensorKind::work: return "temporaries";
        case TensorKind::gathered: return "gathered weights";
        case TensorKind::exchanged: return "sent and received";
        case TensorKind::workspaces: return "cuBLAS workspaces";
        default: return to_string(kind);
    }
}

std::string allocator_words(const AllocatorForecast& f) {
    return fmt::format("Two steps{}: allocated {}, reserved {} ({} more). Peak in {}.",
                       f.stages.size() > 1 ? fmt::format(", stage {}", f.stage) : "",
                       bytes_text(f.allocated), bytes_text(f.reserved),
                       percent_text(f.reserved / f.allocated - 1), moment_text(f.fullest));
}

std::vector<Table> allocator_tables(const AllocatorForecast& f) {
    std::vector<Table> tables{kinds_table(f), layers_table(f)};
    if (!f.process.empty()) tables.push_back(process_table(f));
    if (f.stages.size() > 1) tables.push_back(stages_table(f));
    return tables;
}

std::string allocator_table(const AllocatorForecast& f) {
    std::string text = wrapped(fmt::format(
        "memory as PyTorch's allocator sees it, two steps{}: allocated {}, reserved {} ({} more)",
        f.stages.size() > 1 ? fmt::format(", stage {}", f.stage) : "", bytes_text(f.allocated),
        bytes_text(f.reserved), percent_text(f.reserved / f.allocated - 1)));
    text += failure_lines(f) + remedy_lines(f);
    text += wrapped(fmt::format("  peak in {}", moment_text(f.fullest))) + "\n";
    text += text_of(kinds_table(f)) + "\n" + text_of(layers_table(f));
    if (!f.process.empty()) text += "\n" + text_of(process_table(f));
    if (f.stages.size() > 1) text += "\n" + text_of(stages_table(f));
    return text;
}

}  // namespace stepcast
