#include "import/logs/opt_prime_log.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "import/logs/dialects.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"

namespace stepcast {
namespace {

// Models by the class and number of parameters that the log states.
struct KnownModel {
    std::string_view kind;
    double parameters;
    std::string_view name;
};
constexpr std::array known_models{KnownModel{"LlamaForCausalLM", 1'235'814'400, "llama-3.2-1b"},
                                  KnownModel{"LlamaForCausalLM", 3'212'749'824, "llama-3.2-3b"},
                                  KnownModel{"LlamaForCausalLM", 8'030'261'248, "llama-3-8b"},
                                  KnownModel{"LlamaForCausalLM", 6'738'415'616, "llama-2-7b"}};

std::string model_of(const std::string& kind, double parameters) {
    for (const KnownModel& known : known_models)
        if (kind == known.kind && parameters == known.parameters) return std::string(known.name);
    const std::string name = lower_case(kind.substr(0, kind.find("For")));
    return parameters > 0 ? fmt::format("{}-{:.0f}", name, parameters) : name;
}

// Finds the rank of a layer line. A layer that is cut in two appears on two stages with different
// numbers of modules, so (layer, ops) names the stage. Its owner is the rank that most often
// printed the last header before it; interleaved lines are rarely wrong about that.
class LayerOwners {
public:
    using Key = std::pair<std::string, int>;
    void vote(const Key& key, int rank) { ++votes_[key][rank]; }
    void settle() {
        for (const auto& [key, by_rank] : votes_) {
            const auto most = std::ranges::max_element(
                by_rank, {}, [](const auto& votes) { return votes.second; });
            owner_[key] = most->first;
            ++layers_[most->first];
        }
        votes_.clear();
    }
    [[nodiscard]] std::optional<int> owner(const Key& key) const {
        const auto found = value_in(owner_, key);
        return found ? std::optional(*found) : std::nullopt;
    }
    [[nodiscard]] int layers_of(int rank) const {
        return layers_.contains(rank) ? layers_.at(rank) : 0;
    }

private:
    std::map<Key, std::map<int, int>> votes_;
    std::map<Key, int> owner_;
    std::map<int, int> layers_;
};

// A piece of a line: the header of a stage's block, a layer of it, or the time of a step.
struct OptPrimeEvent {
    enum class Kind : std::uint8_t { header, layer, batch } kind = Kind::header;
    int rank = -1, step = -1, ops = 0;
    std::string layer = {};
    double seconds = 0;
    long line = 0;
};
// after so many events the owner of each layer is decided
constexpr std::size_t learned_after = 4000;

class OptPrimeLog {
public:
    OptPrimeLog(const std::string& path, const TakeRun& take) : log_{path, take} {}

    LineUse take(const LogLine& line) {
        if (line.text.empty()) return LineUse::skipped;
        if (line.text.starts_with("| epoch")) return read_batch(line);
        if (read_block_pieces(line)) return LineUse::used;
        return read_other(line.text);
    }

    void finish(long lines) {
        close();
        log_.require_one(lines,
                         "\"[rank:R stage:S] .. forward time .. - step N\", \"layer[L]: total=..\" "
                         "and \"ms/batch\" lines");
    }

private:
    // What a rank has printed for its newest step.
    struct Stage {
        int step, layers;
        double sum;
    };

    // Reads any number of "[rank:0 stage:0] .. forward time .. - step 2" and "  layer[5]:
    // total=10.070ms, ops=32, .." in one line.
    bool read_block_pieces(const LogLine& line) {
        if (line.text[0] != '[' && !line.text.starts_with("  layer[")) return false;
        bool any = false;
        LineCursor cursor(line.text);
        while (!cursor.at_end()) {
            std::optional<OptPrimeEvent> event;
            if (cursor.word("[rank:"))
                event = read_header(cursor, line.number);
            else if (cursor.word("layer["))
                event = read_layer(cursor);
            if (!event) break;
            event->line = line.number;
            push(std::move(*event));
            any = true;
        }
        return any;
    }

    std::optional<OptPrimeEvent> read_header(LineCursor& cursor, long line) const {
        const auto rank = cursor.integer();
        if (!rank || *rank < 0 || !cursor.find("forward time") || !cursor.find("- step"))
            return std::nullopt;
        const auto step = cursor.integer();
        if (!step || *step < 0) return std::nullopt;
        if (*rank > most_ranks || *step > most_steps)
            log_.refuse(
                line, fmt::format("rank {} in step {} is absurd; expected at most {} and {}", *rank,
                                  *step, most_ranks, most_steps));
        return OptPrimeEvent{.rank = *rank, .step = *step};
    }

    static std::optional<OptPrimeEvent> read_layer(LineCursor& cursor) {
        const std::string_view name = cursor.rest().substr(0, cursor.rest().find(']'));
        if (name.size() > 64 || !cursor.find("]: total=")) return std::nullopt;
        const auto time = cursor.number();
        if (!time || *time < 0 || !cursor.word("ms, ops=")) return std::nullopt;
        const auto ops = cursor.integer();
        if (!ops || !cursor.find("avg/op=") || !cursor.number() || !cursor.word("ms"))
            return std::nullopt;
        return OptPrimeEvent{.kind = OptPrimeEvent::Kind::layer,
                             .ops = *ops,
                             .layer = std::string(name),
                             .seconds = seconds_of_milliseconds(*time)};
    }

    // "| epoch   1 |     9/  323 batches | lr 0.00 | ms/batch 1669.95 | loss .."
    LineUse read_batch(const LogLine& line) {
        LineCursor cursor(line.text);
        cursor.find("|");
        if (!cursor.find("|")) return LineUse::unknown;
        const auto number = cursor.integer();
        if (!number || !cursor.find("ms/batch")) return LineUse::unknown;
        const auto time = cursor.number();
        if (!time || *time <= 0 || *number > most_steps) return LineUse::unknown;
        push({.kind = OptPrimeEvent::Kind::batch,
              .step = *number,
              .layer = {},
              .seconds = seconds_of_milliseconds(*time),
              .line = line.number});
        return LineUse::used;
    }

    LineUse read_other(std::string_view text) {
        LineCursor cursor(text);
        if (cursor.word("> World size:")) {
            if (events_ > 0) close();
            const auto ranks = cursor.integer();
            if (ranks && *ranks > 0) log_.run.ranks = *ranks;
            return ranks ? LineUse::used : LineUse::unknown;
        }
        if (cursor.word("> Total parameters in model:")) {
            if (events_ > 0) close();
            const auto count = cursor.grouped_number();
            parameters_ = count.value_or(0);
            return count ? LineUse::used : LineUse::unknown;
        }
        if (cursor.word(">> model class name:")) {
            cursor.word("");
            kind_ = cursor.rest().substr(0, 80);
            return LineUse::used;
        }
        for (const char* known : {">", "-- node.op:", "--- key:", "n.op:", "*****", "###", "# rank",
                                  "---", "stage2rank", "SEQUENTIAL mode", "GPU mode",
                                  "special_nodes:", "rank:", "length:", "===", "[rank:"})
            if (LineCursor(text).word(known)) return LineUse::skipped;
        return LineUse::unknown;
    }

    void push(OptPrimeEvent event) {
        if (events_++ == 0) log_.run.first_line = event.line;
        log_.run.last_line = event.line;
        if (event.kind == OptPrimeEvent::Kind::header) last_header_ = event.rank;
        if (settled_) return apply(event);
        if (event.kind == OptPrimeEvent::Kind::layer && last_header_ >= 0)
            owners_.vote({event.layer, event.ops}, last_header_);
        waiting_.push_back(std::move(event));
        if (waiting_.size() == learned_after) settle();
    }

    void settle() {
        owners_.settle();
        settled_ = true;
        for (const OptPrimeEvent& event : waiting_) last_rank_ = std::max(last_rank_, event.rank);
        for (const OptPrimeEvent& event : waiting_) apply(event);
        waiting_.clear();
    }

    void apply(const OptPrimeEvent& event) {
        switch (event.kind) {
            case OptPrimeEvent::Kind::header:
                check_complete(event.rank);
                stages_[event.rank] = {event.step, 0, 0};
                break;
            case OptPrimeEvent::Kind::layer: apply_layer(event); break;
            case OptPrimeEvent::Kind::batch: apply_batch(event); break;
        }
    }

    // A step with only some of a stage's layers gets no sum; notes this.
    void check_complete(int rank) {
        const auto stage = value_in(stages_, rank);
        if (!stage || stage->layers == owners_.layers_of(rank)) return;
        if (log_.run.notes.size() < 8)
            add_line(log_.run.notes,
                     "{}:{}: rank {} names {} of its {} layers in step {}; no sum of that step",
                     log_.path, log_.run.last_line, rank, stage->layers, owners_.layers_of(rank),
                     stage->step);
    }

    void apply_layer(const OptPrimeEvent& event) {
        const auto rank = owners_.owner({event.layer, event.ops});
        const auto stage = rank ? stages_.find(*rank) : stages_.end();
        if (stage == stages_.end()) {
            ++orphans_;
            return;
        }
        Stage& told = stage->second;
        const bool number = event.layer.find_first_not_of("0123456789") == std::string::npos;
        log_.add((number ? "layer" : "") + event.layer + ".forward", *rank, told.step,
                 event.seconds);
        told.sum += event.seconds;
        if (++told.layers == owners_.layers_of(*rank))
            log_.add("timed.forward", *rank, told.step, seconds_of_milliseconds(told.sum * 1e3));
    }

    // The last stage prints its layers after a step's forward, and ms/batch after the step. If the
    // first such line is not of the first step, it also covers the steps before, so it is no
    // sample.
    void apply_batch(const OptPrimeEvent& event) {
        const auto last = value_in(stages_, last_rank_);
        if (batch_step_ < 0) {
            batch_step_ = last ? last->step : event.step;
            if (batch_step_ > 1) {
                add_line(log_.run.notes,
                         "{}:{}: the first ms/batch spans the steps up to {}, set-up "
                         "included; it is no sample of one",
                         log_.path, event.line, batch_step_);
                return;
            }
        } else {
            ++batch_step_;
        }
        log_.add("step", -1, batch_step_, event.seconds);
        ++log_.run.steps;
    }

    void close() {
        if (!settled_) settle();
        log_.run.system = "opt-prime";
        log_.run.model = model_of(kind_, parameters_);
        if (log_.run.ranks == 0) log_.run.ranks = last_rank_ + 1;
        if (orphans_ > 0)
            add_line(log_.run.notes, "{} layer lines left out: nothing says whose they are",
                     orphans_);
        for (const auto& [rank, stage] : stages_) check_complete(rank);
        log_.close(events_ > 0);
        waiting_.clear();
        owners_ = {};
        stages_.clear();
        settled_ = false;
        last_header_ = last_rank_ = batch_step_ = -1;
        events_ = orphans_ = 0;
    }

    OpenRun log_;
    std::string kind_;
    double parameters_ = 0;
    std::vector<OptPrimeEvent> waiting_;
    LayerOwners owners_;
    bool settled_ = false;
    std::map<int, Stage> stages_;
    int last_header_ = -1, last_rank_ = -1;  // rank of the newest header; highest rank seen
    int batch_step_ = -1;
    long events_ = 0, orphans_ = 0;
};

}  // namespace

LineCounts import_opt_prime(const std::string& path, const TakeRun& take) {
    return read_whole(path, OptPrimeLog(path, take));
}

}  // namespace stepcast
