#include "import/logs/moe_phases.h"

#include <array>

#include <fmt/format.h>

#include "import/logs/block_attribution.h"
#include "import/logs/moe_log.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

// The texts before the times in a line, and the phases that the times belong to. Ends at the first
// entry without a text.
struct Label {
    const char *text = nullptr, *phase = nullptr;
};
using Labels = std::array<Label, 5>;

// The line's times in seconds; empty if the line has anything else.
std::vector<double> read_labelled(LineCursor cursor, const Labels& labels) {
    std::vector<double> values;
    for (const Label& label : labels) {
        if (label.text == nullptr) break;
        const std::optional<double> value =
            cursor.word(label.text) ? cursor.number() : std::nullopt;
        if (!value) return {};
        values.push_back(*value * 1e-3);
    }
    return cursor.at_end() ? values : std::vector<double>{};
}

class PhaseLog {
public:
    PhaseLog(const std::string& path, const TakeRun& take) : moe_{{path, take}} {}

    LineUse take(const LogLine& line) {
        const bool summary = moe_.open && has(line.text, "[Summary]");
        if (line.text.starts_with("STEP-") && moe_.open) end_step(line.number);
        if (summary) attribute();
        if (const std::optional<LineUse> shared = moe_.take(line, system_)) {
            if (summary) system_.clear();
            wait_rank_.reset();
            return *shared;
        }
        const LineUse use = rank_line(line);
        if (!just_waited_) wait_rank_.reset();
        just_waited_ = false;
        return use;
    }
    void finish(long last) { moe_.finish(last); }

private:
    LineUse rank_line(const LogLine& line) {
        const std::string_view text = line.text;
        if (text.empty()) return LineUse::skipped;
        switch (text.front()) {
            case 'A': return text.starts_with("AG,") ? kernel(line, true) : LineUse::unknown;
            case 'G': return text.starts_with("GA,") ? kernel(line, false) : LineUse::unknown;
            case 'b': return text.starts_with("block_info") ? block_info(line) : LineUse::unknown;
            case 'c': return device_line(line);
            case 's': return text == "start" ? LineUse::skipped : LineUse::unknown;
            case 'r': return text.starts_with("rank:") ? LineUse::skipped : LineUse::unknown;
            case 'p':
            case 'f':
            case 'L': return labelled_values(line);
            default: break;
        }
        if (text.front() >= '0' && text.front() <= '9') return numbered_line(line);
        return module_dump(text);
    }

    LineUse block_info(const LogLine& line) {
        LineCursor cursor(line.text);
        cursor.word("block_info");
        const std::optional<int> blocks = cursor.integer(), remote = cursor.integer();
        if (!blocks || !remote || !cursor.at_end()) return LineUse::unknown;
        need_run(line);
        if (*blocks < 1 || *remote < 0 || *remote > *blocks) {
            moe_.log.refuse(
                line.number,
                fmt::format(
                    "block_info {} {}: expected blocks of at least 1 and remote blocks among them",
                    *blocks, *remote));
        }
        step_.blocks.push_back({*blocks, *remote});
        return LineUse::used;
    }

    LineUse kernel(const LogLine& line, bool gather) {
        LineCursor cursor(line.text.substr(3));
        const std::optional<double> ratio = cursor.number();
        if (!ratio || !cursor.word(",")) return LineUse::unknown;
        const std::optional<double> time = cursor.number();
        if (!time || *time < 0 || !cursor.word(",")) return LineUse::unknown;
        need_run(line);
        step_.kernels.push_back({gather, *ratio, *time * 1e-3});
        return LineUse::used;
    }

    // "cuda:R" alone, or "cuda:R process time:X, a: X, b: X, c: X, d: X".
    LineUse device_line(const LogLine& line) {
        static constexpr Labels values{{{"process time:", "process_time"},
                                        {", a:", "process_time.a"},
                                        {", b:", "process_time.b"},
                                        {", c:", "process_time.c"},
                                        {", d:", "process_time.d"}}};
        LineCursor cursor(line.text);
        if (!cursor.word("cuda:")) return LineUse::unknown;
        const std::optional<int> rank = cursor.integer();
        if (rank && cursor.at_end()) return LineUse::skipped;
        const std::vector<double> found = read_labelled(cursor, values);
        if (found.empty()) return LineUse::unknown;
        need_run(line);
        if (!is_rank(rank)) return LineUse::unknown;
        for (const std::size_t i : indices_of(found)) moe_.add(values[i].phase, *rank, found[i]);
        return LineUse::used;
    }

    // "R wait time: X", or the bare block count that the same rank prints next.
    LineUse numbered_line(const LogLine& line) {
        LineCursor cursor(line.text);
        const std::optional<int> first = cursor.integer();
        if (!first) return LineUse::unknown;
        if (cursor.at_end()) {
            if (wait_rank_) step_.sightings.push_back({*wait_rank_, *first});
            return wait_rank_ ? LineUse::used : LineUse::skipped;
        }
        if (!cursor.word("wait time:")) return LineUse::unknown;
        const std::optional<double> value = cursor.number();
        if (!value || !cursor.at_end()) return LineUse::unknown;
        need_run(line);
        if (!is_rank(first)) return LineUse::unknown;
        moe_.add("wait_time", *first, *value * 1e-3);
        wait_rank_ = first;
        just_waited_ = true;
        return LineUse::used;
    }

    // Lines of labelled times that do not name their rank, with the log's spelling errors.
    LineUse labelled_values(const LogLine& line) {
        static constexpr Labels lines[] = {
            {{{"perpare first forward gemm:", "prepare_first_forward_gemm"},
              {",  fisrt gemm forward duration:", "first_forward_gemm"}}},
            {{{"forward:", "layer_forward"}}},
            {{{"Linear 2 Backward:", "linear_2_backward"},
              {", second_gemm:", "second_backward_gemm"}}},
            {{{"perpare first backward gemm:", "prepare_first_backward_gemm"},
              {",  fisrt gemm backward duration:", "first_backward_gemm"},
              {",  weight grad:", "weight_grad"},
              {",  other:", "backward_other"}}},
            {{{"Linear 1 Backward:", "linear_1_backward"}}}};
        for (const Labels& labels : lines) {
            const std::vector<double> found = read_labelled(LineCursor(line.text), labels);
            if (found.empty()) continue;
            need_run(line);
            for (const std::size_t i : indices_of(found)) moe_.add(labels[i].phase, -1, found[i]);
            return LineUse::used;
        }
        return LineUse::unknown;
    }

    LineUse module_dump(std::string_view text) {
        if (has(text, "MixMOETransformerMLP(")) {
            system_ = "mix_moe";
            return LineUse::used;
        }
        LineCursor cursor(text);
        if (cursor.at_end() || cursor.word("(") || cursor.word(")") ||
            cursor.word("DistributedDataParallel(") || cursor.word("end end end")) {
            return LineUse::skipped;
        }
        return LineUse::unknown;
    }

    void end_step(long line) {
        if (step_.blocks.empty() && step_.kernels.empty()) {
            moe_.log.refuse(line, fmt::format("step {} has no block_info, AG or GA line before it; "
                                              "without the phases of ranks "
                                              "the format is moe-steps",
                                              moe_.log.run.steps));
        }
        steps_.push_back(std::move(step_));
        step_ = {};
    }

    // Finds the rank of every AG and GA line. A rank prints two of each in a step: the first is
    // forward, the second backward.
    void attribute() {
        ImportedRun& run = moe_.log.run;
        const std::vector<std::vector<BlockTotals>> by_step = assign_blocks(steps_, run.ranks);
        long unattributed = 0;
        for (const std::size_t s : indices_of(steps_)) {
            std::vector<std::vector<double>> times(as_index(2 * run.ranks));
            std::size_t named = 0;
            for (const StepTrace::Kernel& kernel : steps_[s].kernels) {
                const std::optional<int> rank = rank_of_ratio(by_step[s], kernel.ratio);
                if (rank)
                    times[as_index(2 * *rank + (kernel.gather ? 0 : 1))].push_back(kernel.seconds);
            }
            for (const std::size_t i : indices_of(times)) {
                if (times[i].size() != 2) continue;
                named += 2;
                const bool gather = i % 2 == 0;
                const int rank = as_int(i / 2), step = as_int(s);
                moe_.log.add(gather ? "AG.forward" : "GA.forward", rank, step, times[i][0]);
                moe_.log.add(gather ? "AG.backward" : "GA.backward", rank, step, times[i][1]);
            }
            unattributed += static_cast<long>(steps_[s].kernels.size() - named);
        }
        if (unattributed > 0) {
            add_line(run.notes,
                     "{} AG and GA lines left out: their remote share belongs to no rank or "
                     "to several, or a "
                     "step does not print two of a kind for the rank",
                     unattributed);
        }
        const std::optional<SteadyBlocks> steady = steady_blocks(by_step);
        if (!steady) {
            run.notes.push_back(
                "routing not recorded: no steady step shows which rank computes which blocks");
        } else {
            run.routing = Routing{run.ranks, run.experts, {}, steady->totals};
            if (steady->agreeing < steady->steps) {
                add_line(run.notes,
                         "routing varies or is not stated in every step: {} of {} steady "
                         "steps have the blocks kept",
                         steady->agreeing, steady->steps);
            }
        }
        steps_.clear();
        step_ = {};
    }

    bool is_rank(std::optional<int> rank) {
        return rank && *rank >= 0 && *rank < moe_.log.run.ranks;
    }
    void need_run(const LogLine& line) {
        if (!moe_.open)
            moe_.log.refuse(
                line.number,
                "a rank's phase line outside a run; expected a \"[Benchmark] ..\" line before it");
    }

    MoeLog moe_;
    std::string system_;
    StepTrace step_;
    std::vector<StepTrace> steps_;
    std::optional<int> wait_rank_;
    bool just_waited_ = false;
};

}  // namespace

LineCounts import_moe_phases(const std::string& path, const TakeRun& take) {
    return read_whole(path, PhaseLog(path, take));
}

}  // namespace stepcast
