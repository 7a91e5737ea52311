#include "sim/memory/lifetimes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/machine/libraries.h"
#include "model/transformer/rank_shape.h"
#include "model/transformer/schedule.h"
#include "sim/memory/flat_list.h"
#include "sim/memory/gathered_weights.h"
#include "sim/memory/tensor_recorder.h"
#include "sim/memory/transformer_memory.h"
#include "sim/memory/unit_tape.h"
#include "sim/memory/weight_tensors.h"

namespace stepcast {
namespace {

constexpr int steps_written = 2;
// cuBLAS takes a workspace for each thread that issues products, the forward's and the backward's,
// from the allocator and within the thread's first product, whose result is there already; grouped
// ones run on four streams (ATen/cuda/CUDAContextLight.h: cublas_handle_stream_to_workspace;
// CublasHandlePool.cpp: getCurrentCUDABlasHandle).
constexpr int streams_of_experts = 3;  // beside the first
// of torch.distributed's first bucket (_DEFAULT_FIRST_BUCKET_BYTES), so that it leaves early
constexpr double first_bucket = 1 * mebibyte;

using GatherPass = GatheredWeights::Direction;

// A layer or an end of the model in its chunk.
struct UnitPlace {
    const UnitTape* tape = nullptr;
    int layer = -1;
    bool again = false;  // computed again before its backward
};

// The experiment with as many micro-batches as it takes to repeat: the others find what an earlier
// one found. Where the host is ahead of the device it takes longer, because every segment that
// comes from the driver waits for the device.
Parallelism shortened(const Parallelism& p, bool is_ahead) {
    const int all = micro_batches(p);
    if (traits(p.schedule).forwards_first) return p;
    const int in_flight = p.pp * chunks_per_stage(p) * directions(p);
    int enough = std::max(is_ahead ? 16 : 8, 3 * in_flight);
    enough = (enough + p.pp - 1) / p.pp * p.pp;  // whole rounds
    if (all <= enough || all % p.pp != 0) return p;
    Parallelism shorter = p;
    shorter.global_batch = p.dp * p.micro_batch * enough;
    return shorter;
}

// of the units that share a stream of the replay, which has 32
constexpr int passes_a_stream = 2, exchange_streams = 24;

// Whether the host gets ahead of the device, by runtime.host_lead layers. PyTorch frees what an
// asynchronous collective used only when the device has passed it (record_stream). Steps end with
// the host waiting, and in one or two micro-batches it does not get ahead: so say nanotron's
// published peaks, of which six are of so few.
bool is_ahead(const Experiment& e) {
    constexpr int settled = 3;
    return splits_sequence(e.parallelism) && micro_batches(e.parallelism) >= settled &&
           e.runtime.host_lead > 0;
}

class StepWriter : public TensorRecorder {
public:
    StepWriter(const Experiment& e, const Routing& routing, int stage)
        : e_(e), c_{e, rank_shape(e), rank_groups(e), routing} {
        const auto s = as_index(stage);
        order_ = schedule_orders(shortened(e.parallelism, is_ahead(e)))[s];
        chunks_ = chunks_by_stage(paths_of(e.workload, e.parallelism), e.parallelism.pp)[s];
        for (const Chunk& chunk : chunks_) units_.push_back(units_of_chunk(chunk));
        if (is_ahead(e)) lead_ = e.runtime.host_lead * launches_of_layer();
        trained_ = trained_weights();
        if (e.parallelism.zero == 3 && shards_gradients())
            gathers_.emplace(*this, gathered_units(), by_module_ && e.workload.tied,
                             by_module_ ? e.runtime.reuse_distance * c_.shape.element().si() : 0);
        if (has_flat_gradients(e)) flat_.emplace(*this, c_, trained_);
    }

    Lifetimes write() {
        make_lasting();
        for (step = 0; step < steps_written; ++step) {
            if (step == 1) rebuild_buckets();
            if (step == 1 && e_.run.cuda_graph)
                out.events.push_back({AllocatorEvent::Kind::capture, 0, 0, 0});
            for (const Slot& slot : order_) run(slot);
            update();
        }
        return std::move(out);
    }

private:
    // --- units

    const UnitTape* tape(UnitKind kind, int number) {
        const auto found = tapes_.find(kind);
        if (found != tapes_.end()) return &found->second;
        UnitTape made = kind == UnitKind::embedding ? embedding_tape(c_)
                        : kind == UnitKind::head    ? head_tape(c_)
                                                    : layer_tape(c_, number);
        return &tapes_.emplace(kind, std::move(made)).first->second;
    }
    std::vector<UnitPlace> units_of_chunk(const Chunk& chunk) {
        std::vector<UnitPlace> units;
        if (chunk.embedding) units.push_back({tape(UnitKind::embedding, 0), -1, false});
        for (int l = chunk.first; l < chunk.last; ++l)
            units.push_back({tape(kind_of_layer(e_.workload, l), l), l,
                             recomputes_layers(e_.parallelism) && l < chunk.again});
        if (chunk.head) units.push_back({tape(UnitKind::head, 0), -1, false});
        return units;
    }

    RankWeights trained_weights() {
        RankWeights all;
        for_units([&](const UnitTape& tape) { all += tape.weights.trained; });
        return all;
    }

    // What each unit gathers: by modules, or all at once.
    std::vector<UnitModules> gathered_units() {
        std::vector<UnitModules> units;
        const double element = c_.shape.element().si();
        for (const UnitPlace& unit : units_.front()) {
            UnitModules& of = units.emplace_back(unit.tape->what, unit.again);
            if (by_module_) {
                of.bytes = module_bytes(*unit.tape);
                continue;
            }
            const RankWeights& trained = unit.tape->weights.trained;
            const double common = in_common(c_, trained),
                         frozen = in_common(c_, unit.tape->weights.frozen);
            of.bytes = {element * (common + frozen)};
            if (common > 0)
                for (const std::int64_t matrix : unit.tape->matrices)
                    of.parameters.push_back(real(matrix) * element * common / trained.all());
            if (frozen > 0) of.parameters.push_back(element * frozen);
        }
        if (by_module_ || e_.parallelism.pp > 1) return units;
        // torchtitan's loss is its loop's, and it keeps the weights of the logits until the
        // backward (0.2.2, models/llama3/infra/parallelize.py: apply_fsdp)
        if (composes(e_, Composed::loss))
            join_ends(units);
        else
            units.back().stays = true;
        return units;
    }

    // The first unit has the weights of both ends.
    static void join_ends(std::vector<UnitModules>& units) {
        UnitModules &first = units.front(), &last = units.back();
        first.bytes.front() += last.bytes.front();
        append(first.parameters, std::exchange(last.parameters, {}));
        first.stays = true;
        last.bytes.front() = 0;
    }

    // --- events

    // Collectives are on a stream of their own, which passes when the device has caught up with the
    // host.
    TensorIds bring(const std::string& what, const TensorList& sizes) {
        TensorIds ids = make_all(TensorKind::exchanged, what, sizes);
        wait_for_device(ids);
        return ids;
    }
    void wait_for_device(const TensorIds& ids) {
        for (const TensorId id : ids) use_on(id, exchange_stream());
    }
    [[nodiscard]] std::uint8_t exchange_stream() const {
        const int group = lead_ > 0 ? passes_ / passes_a_stream : 0;
        return static_cast<std::uint8_t>(first_exchange_stream + group % exchange_streams);
    }
    void begin_pass(std::size_t unit) {
        unit_ = unit;
        const std::uint8_t before = exchange_stream();
        ++passes_;
        if (lead_ == 0 || exchange_stream() != before) waiting_.push_back({before, issued_});
        while (!waiting_.empty() && waiting_.front().issued + lead_ <= issued_) {
            let_pass(waiting_.front().stream);
            waiting_.pop_front();
        }
        issued_ += launches_[phase == Phase::forward ? 0 : 1];
    }
    // Of a forward and a backward; the ends of the model count as a layer.
    int launches_of_layer() {
        const UnitTape& tape = *units_.front()[units_.front().size() / 2].tape;
        launches_ = {launches_of(tape, Phase::forward), launches_of(tape, Phase::backward)};
        return launches_[0] + launches_[1];
    }
    void wait_for_all() {
        for (const Waiting& one : waiting_) let_pass(one.stream);
        let_pass(exchange_stream());
        waiting_.clear();
    }
    // Of the unit's backward; the larger one replaces the other.
    void take_buffer(const OperatorTape& op) {
        auto& [bytes, id] = buffers_.at(op.sums ? 1 : 0);
        if (op.buffer <= bytes) return;
        if (bytes > 0) free(id);
        bytes = op.buffer;
        id = make(TensorKind::exchanged, "gathers", real(bytes));
    }

    // --- what lasts

    [[nodiscard]] double share(const UnitTape& tape, int from) const {
        const double all = tape.weights.trained.all();
        return all > 0 ? shared_out(c_, tape.weights.trained, from) / all : 1;
    }
    // of a weight, both together
    [[nodiscard]] Bytes moments() const { return moment_bytes(e_, size_of(trained_dtype(e_))); }
    [[nodiscard]] bool frees() const { return frees_gradients(e_) && !sends_gradients_to_host(e_); }
    [[nodiscard]] bool shards_gradients() const { return brings_each_pass(c_); }

    template <class Call>
    void for_units(Call&& call) {
        for (const auto& units : units_)
            for (const UnitPlace& unit : units) {
                layer = unit.layer;
                call(*unit.tape);
            }
        layer = -1;
    }

    // A row's tensors of the unit.
    void make_row(const WeightTensors& row, const UnitTape& tape, TensorIds& ids) {
        const HeldWeights held = held_by(tape.weights, layer >= 0);
        const double all = shared_out(c_, elements_of(c_, row.of, held), row.from);
        if (all <= 0 || row.each <= Bytes(0)) return;
        const std::string what = row.what != nullptr ? row.what : tape.what;
        const int copies = layer >= 0 ? row.copies_in_layers : row.copies;
        const auto add = [&](double elements) {
            for (int copy = 0; copy < copies; ++copy)
                ids.push_back(make(row.kind, what, elements * row.each.si()));
        };
        if (!row.by_matrix) return add(all);
        for (const std::int64_t elements : tape.matrices)
            add(real(elements) * share(tape, row.from));
    }
    // Unit by unit those of a kind that are made before the first step, unless flat tensors are in
    // their place.
    void make_rows(TensorKind kind) {
        TensorIds ids;
        for_units([&](const UnitTape& tape) {
            for (const WeightTensors& row : rows_)
                if (row.kind == kind && row.made == WeightTensors::Made::before &&
                    !(flat_ && kind != TensorKind::gradients && is_trained(row)))
                    make_row(row, tape, ids);
        });
    }
    TensorIds make_row(const WeightTensors& row) {
        TensorIds ids;
        for_units([&](const UnitTape& tape) { make_row(row, tape, ids); });
        return ids;
    }

    void make_lasting() {
        for_weight_tensors(c_, [&](const WeightTensors& row) { rows_.push_back(row); });
        if (flat_) flat_->make_weights(each(TensorKind::weights));
        make_rows(TensorKind::weights);
        if (flat_) flat_->make_gradients();
        if (!frees() && !(flat_ && e_.parallelism.zero > 1)) make_rows(TensorKind::gradients);
        if (flat_) flat_->make_masters(each(TensorKind::optimizer));
        make_rows(TensorKind::optimizer);
        // what the exchange of gradients in another type holds
        const bool wider = size_of(gradient_type(e_)) > c_.shape.element();
        if (is_eager(e_) && !e_.runtime.gradients.fused_accumulation && e_.parallelism.zero == 0 &&
            wider && c_.groups.data_context.size() > 1)
            buckets_ = make_buckets();
        if (e_.parallelism.pp > 1)
            for (const char* what : {"received", "sent"})
                make(TensorKind::exchanged, what, c_.shape.outer().si());
    }
    // Of the first row of a kind: what flat tensors take for a trained weight.
    [[nodiscard]] Bytes each(TensorKind kind) const {
        const auto row = std::ranges::find(rows_, kind, &WeightTensors::kind);
        return row != rows_.end() && is_trained(*row) ? row->each : Bytes(0);
    }
    static bool is_trained(const WeightTensors& row) {
        return row.of == WeightTensors::Of::trained || row.of == WeightTensors::Of::wide;
    }

    // From the last matrix to the first; a bucket closes with the matrix that fills it
    // (torch/csrc/distributed/c10d/reducer.cpp: compute_bucket_assignment_by_size).
    TensorIds make_buckets() {
        TensorIds buckets;
        double filled = 0, most = first_bucket;
        const auto close = [&] {
            if (filled > 0) buckets.push_back(make(TensorKind::gradients, "buckets", filled));
            filled = 0;
            most = bucket_bytes(e_).si();
        };
        for (auto units = units_.rbegin(); units != units_.rend(); ++units)
            for (auto unit = units->rbegin(); unit != units->rend(); ++unit)
                for (auto matrix = unit->tape->matrices.rbegin();
                     matrix != unit->tape->matrices.rend(); ++matrix) {
                    filled += real(*matrix) * c_.shape.element().si();
                    if (filled >= most) close();
                }
        close();
        return buckets;
    }
    // In the order in which gradients came, before the second step's first forward, the old ones
    // are still there (torch/nn/parallel/distributed.py: _pre_forward).
    void rebuild_buckets() {
        if (buckets_.empty()) return;
        TensorIds rebuilt = make_buckets();
        free(buckets_);
        buckets_ = std::move(rebuilt);
    }

    // --- passes

    void run(const Slot& slot) {
        micro_batch = slot.micro_batch;
        const auto chunk = as_index(slot.chunk);
        const std::pair key{slot.chunk, slot.micro_batch};
        const auto& units = units_[chunk];
        phase = slot.pass == Pass::forward ? Phase::forward : Phase::backward;
        if (slot.pass == Pass::forward) {
            for (std::size_t i = 0; i < units.size(); ++i) {
                layer = units[i].layer;
                begin_casts(casts_[key].emplace_back(), *units[i].tape);
                begin_pass(i);
                forward(units[i], kept_[key]);
                if (casts_again(units[i])) free(casts_[key].back());
            }
            free_cache(units, key);
            free(leaving_);
        } else if (slot.pass == Pass::weight_backward) {
            put_off_weights(units, key);
        } else {
            const bool split = slot.pass == Pass::input_backward;
            for (std::size_t i = units.size(); i-- > 0;) {
                layer = units[i].layer;
                if (units[i].again)
                    begin_casts(casts_[key].back(), *units[i].tape);
                else
                    casts_now_ = &casts_[key].back();
                begin_pass(i);
                backward(units[i], kept_[key], split);
                free_last_of(casts_[key]);
                if (split)
                    put_off_[key].push_back(make(TensorKind::activations, units[i].tape->what,
                                                 real(units[i].tape->put_off)));
            }
            free(chain_);
            if (flat_ && !split) flat_->end_backward();
            free(passing_weight_gradients_);
        }
        layer = micro_batch = -1;
    }

    // What a compiled layer computes again it casts again (torch/_functorch/partitioners.py: a
    // checkpoint's nodes must be recomputed); automatic casting has a cache that outlasts the
    // layer, up to the end of the forward, and another one for each layer that runs again.
    [[nodiscard]] bool casts_again(const UnitPlace& unit) const {
        return unit.again && !casts_weights(e_);
    }
    void free_cache(const std::vector<UnitPlace>& units, const std::pair<int, int>& key) {
        if (!casts_weights(e_)) return;
        for (std::size_t i = 0; i < units.size(); ++i)
            if (units[i].again) free(casts_[key][i]);
    }
    // Under automatic casting a product casts its own matrix, and its backward lets go of the copy
    // once the context of the forward has ended; looking up words is no product, so that an
    // embedding is cast for the logits alone (aten/src/ATen/autocast_mode.h: the list of
    // lower_precision_fp). Otherwise, and of adapters, which are no products of the list, a unit
    // begins with all copies.
    void begin_casts(TensorIds& casts, const UnitTape& tape) {
        casts_now_ = &casts;
        const bool by_product = casts_weights(e_) && e_.workload.adapter_rank == 0,
                   looks_up = tape.what == "embedding" && !e_.workload.tied;
        if (!makes_casts(e_) || by_product || looks_up) return;
        for (const std::int64_t elements : tape.matrices)
            casts.push_back(cast(real(elements) * share(tape, 3) * c_.shape.element().si()));
    }
    [[nodiscard]] bool is_cast(const OperatorTape& op) const {
        return casts_weights(e_) && op.is_product && op.weight_gradient > 0;
    }
    TensorId cast(double bytes) { return make(TensorKind::weights, "cast", bytes); }
    void free_last_of(std::vector<TensorIds>& units) {
        free(units.back());
        units.pop_back();
    }

    // ZeRO 3 gathers the weights of a unit before its pass; in a backward before what computes it
    // again. A loss of the training loop's own is no part of the unit that it follows.
    void begin_unit(GatherPass direction) {
        if (gathers_ && !by_module_) gathers_->before(unit_, 0, direction);
    }
    void end_unit(GatherPass direction) {
        if (gathers_ && !by_module_) gathers_->after(unit_, 0, direction);
    }
    static bool is_loss(const OperatorTape& op) { return op.what == "loss"; }
    // Models of Transformers make their loss themselves, and FSDP wraps their layers alone, so that
    // the ends are the whole model's, whose weights stay from the forward to the backward (torch
    // 2.11, fully_shard/_fsdp_state.py: _lazy_init, the root's reshard_after_forward).
    [[nodiscard]] bool ends_in_root() const {
        return !by_module_ && gathers_ && e_.parallelism.pp == 1 && composes(e_, Composed::loss);
    }

    void forward(const UnitPlace& unit, TensorIds& kept) {
        begin_unit(GatherPass::forward);
        const bool alternate = e_.parallelism.recompute == Recompute::alternate;
        TensorIds& waits = leaves(unit) ? leaving_ : kept;
        if (unit.again)
            waits.push_back(make(TensorKind::activations, "input", real(unit.tape->input)));
        run_forward(*unit.tape, unit.again, alternate, waits, GatherPass::forward);
        if (leaves(unit)) let_leave(0);
        end_unit(GatherPass::forward);
    }
    // What a unit keeps goes to the host; the ends of the model keep theirs (trl 1.16: NoOpManager
    // around the head).
    [[nodiscard]] bool leaves(const UnitPlace& unit) const {
        return e_.run.offload_activations != ActivationOffload::none && unit.layer >= 0;
    }
    // The last `read` ones are those that the next operator reads.
    void let_leave(std::size_t read) {
        if (e_.run.offload_activations == ActivationOffload::overlapped)
            read = std::max<std::size_t>(read, tensors_leaving);
        while (leaving_.size() > read) {
            free(leaving_.front());
            leaving_.erase(leaving_.begin());
        }
    }

    // What runs again runs in the thread of its backward.
    void take_workspace() {
        bool& has = has_workspace_.at(phase == Phase::backward ? 1 : 0);
        if (has) return;
        has = true;
        const bool grouped = e_.workload.moe.experts > 0 && phase == Phase::forward;
        for (int i = 0; i < (grouped ? streams_of_experts : 1); ++i)
            make(TensorKind::workspaces, "products", product_workspace(e_.cluster.gpu).si());
    }

    // The first `count` of what an operator keeps; what it passes, and the others, go on their way
    // from the first of them, which it reads, to its result.
    TensorIds make_held(const OperatorTape& op, TensorKind kind, std::size_t count) {
        TensorIds held, last;
        const auto pass = [&](std::int64_t bytes) {
            const TensorId next = make(TensorKind::work, op.what, real(bytes));
            free(last);
            last.push_back(next);
        };
        for (std::size_t i = 0; i < std::max<std::size_t>(1, count); ++i) {
            if (i < count) held.push_back(make(kind, op.what, real(op.kept[i])));
            if (i > 0) continue;
            for (std::size_t j = count; j < op.kept.size(); ++j) pass(op.kept[j]);
            for (const std::int64_t bytes : op.passing) pass(bytes);
            free(last);
        }
        return held;
    }

    // `passing`: nothing lasts until the backward but what an alternate recompute keeps
    void run_forward(const UnitTape& tape, bool passing, bool alternate, TensorIds& kept,
                     GatherPass direction) {
        TensorIds before, now;  // freed once the next operator has run
        std::size_t module = 0;
        for (const BlockTape& block : tape.blocks) {
            for (const OperatorTape& op : block.operators) {
                const bool gathers = by_module_ && op.weight_gradient > 0;
                if (gathers) gathers_->before(unit_, module, direction);
                // an eager host's sums are synchronous: PyTorch records no stream for them
                TensorIds brought = op.sums && e_.runtime.host_lead > 0
                                        ? make_all(TensorKind::exchanged, op.what, op.brought)
                                        : bring(op.what, op.brought);
                const TensorKind kind =
                    op.what == "loss" ? TensorKind::logits : TensorKind::activations;
                TensorIds made;
                if (op.made_first) made = make_all(TensorKind::work, op.what, op.made);
                if (is_cast(op))
                    casts_now_->push_back(cast(real(op.weight_gradient) * share(tape, 3)));
                const std::size_t stay = op.kept.size() - (passing ? op.for_backward : 0);
                TensorIds held = make_held(op, passing ? TensorKind::work : kind, stay);
                if (passing) {
                    now = std::move(held);
                    if (alternate)
                        for (const TensorId id : make_all(kind, op.what, op.rerun))
                            kept.push_back(id);
                } else {
                    append(kept, held);
                    now = make_all(TensorKind::work, op.what, op.again);
                }
                if (!op.made_first) made = make_all(TensorKind::work, op.what, op.made);
                now.insert(now.end(), made.begin(), made.end());
                if (op.is_product) take_workspace();
                free(before);
                free(brought);
                if (!passing && &kept == &leaving_) let_leave(op.kept.size());
                if (gathers) gathers_->after(unit_, module++, direction);
                std::swap(before, now);
            }
        }
        free(before);
    }

    void backward(const UnitPlace& unit, TensorIds& kept, bool split) {
        const UnitTape& tape = *unit.tape;
        TensorIds again;
        TensorIds& stack = unit.again ? again : kept;
        const bool returns = leaves(unit) && !unit.again;
        TensorIds next;  // comes from the host meanwhile
        bool begun = ends_in_root() || !is_loss(tape.blocks.back().operators.back());
        if (begun) begin_unit(GatherPass::backward);
        if (unit.again && leaves(unit)) {
            kept.push_back(make(TensorKind::activations, "input", real(tape.input)));
            next.push_back(make(TensorKind::activations, "input", real(tape.input)));
        }
        if (unit.again) run_forward(tape, false, false, again, GatherPass::rerun);
        module_ = by_module_ ? module_bytes(tape).size() : 0;
        for (auto block = tape.blocks.rbegin(); block != tape.blocks.rend(); ++block) {
            TensorIds chain;
            for (const OperatorTape& op : block->operators)
                for (const TensorId id : make_all(TensorKind::activations, op.what, op.again))
                    made_again_.push_back(id);
            for (auto op = block->operators.rbegin(); op != block->operators.rend(); ++op) {
                if (returns) bring_back(*op);
                if (!begun && !is_loss(*op)) {
                    begun = true;
                    begin_unit(GatherPass::backward);
                }
                run_backward(*op, chain, split);
                if (is_cast(*op)) free_last(*casts_now_, 1);
                if (!returns) free_last(stack, op->kept.size());
            }
            const TensorId result = make(TensorKind::work, "residual", real(block->result));
            free(chain);
            free(chain_);
            chain_.push_back(result);
        }
        free(returned_);
        if (unit.again) free_last(kept, 1 + rerun_tensors(tape));
        free(next);
        end_unit(GatherPass::backward);
        if (shards_gradients() && !split && !flat_) reduce(tape);
    }
    [[nodiscard]] std::size_t rerun_tensors(const UnitTape& tape) const {
        if (e_.parallelism.recompute != Recompute::alternate) return 0;
        std::size_t count = 0;
        for (const BlockTape& block : tape.blocks)
            for (const OperatorTape& op : block.operators) count += op.rerun.size();
        return count;
    }

    // From the host: what the operator reads; the device has passed what the one before has read.
    void bring_back(const OperatorTape& op) {
        TensorIds back = make_all(TensorKind::activations, op.what, op.kept);
        if (back.empty()) return;
        free(returned_);
        returned_ = std::move(back);
    }

    void run_backward(const OperatorTape& op, TensorIds& chain, bool split) {
        const bool gathers = by_module_ && op.weight_gradient > 0;
        if (gathers) gathers_->before(unit_, --module_, GatherPass::backward);
        take_buffer(op);
        if (op.buffer > 0 && op.sums) wait_for_device(chain.empty() ? chain_ : chain);
        TensorIds brought = bring(op.what, op.brought_back);
        TensorIds work = make_all(TensorKind::work, op.what, op.work);
        TensorIds gradients = make_all(TensorKind::work, op.what, op.gradients);
        if (op.is_product) take_workspace();
        if (op.buffer > 0 && !op.sums) wait_for_device(gradients);
        if (op.weight_gradient > 0 && !split) weight_gradient(op);
        if (op.gradient_in_turns && !split)
            free(make(TensorKind::work, op.what, real(op.weight_gradient)));
        if (!gradients.empty()) {
            free(chain);
            chain = std::move(gradients);
        }
        free(work);
        free(brought);
        if (gathers) gathers_->after(unit_, module_, GatherPass::backward);
        free_last(made_again_, op.again.size());
    }

    // --- gradients of weights

    // The unit that runs is an end of the model whose weights are the other end's, too: what the
    // logits make of their gradient waits for the embedding's.
    [[nodiscard]] bool shares_table(const OperatorTape& op) const {
        return e_.workload.tied && e_.parallelism.pp == 1 && layer < 0 &&
               real(op.weight_gradient) == std::ceil(table_gradient(c_).si());
    }
    [[nodiscard]] bool layer_is_head() const { return units_.front()[unit_].tape->what == "head"; }

    void weight_gradient(const OperatorTape& op) {
        const auto bytes = real(op.weight_gradient);
        const Bytes element = c_.shape.element();
        const bool of_table = shares_table(op);
        if (flat_ && flat_->add(op.what, bytes / element.si(), of_table && layer_is_head())) return;
        if (shards_gradients()) {
            unit_gradients_.push_back(make(TensorKind::work, op.what, bytes));
        } else if (frees()) {
            const auto key = std::pair{layer, of_table ? "table" : op.what};
            if (!own_gradients_.contains(key)) {
                own_gradients_[key] = make(TensorKind::gradients, op.what,
                                           bytes * (size_of(trained_gradients(e_)) / element));
                return;
            }
            free(make(TensorKind::work, op.what, bytes));
        } else if (e_.runtime.gradients.fused_accumulation && layer >= 0) {
            // a dummy for each shape; experts have one for all
            const double one = bytes / real(op.weight_tensors);
            if (dummies_.insert(std::llround(one)).second)
                make(TensorKind::work, "weight gradient", one);
        } else if (is_eager(e_) && size_of(gradient_type(e_)) > element) {
            // added to the wide ones when the backward has ended
            passing_weight_gradients_.push_back(make(TensorKind::work, op.what, bytes));
        } else {
            free(make(TensorKind::work, op.what, bytes));
        }
    }

    // A unit's gradients are copied into one tensor, once the one before it has gone; of the
    // reduced the rank's piece stays or is added to an earlier one (torch 2.11, _fully_shard/
    // _fsdp_param_group.py: post_backward; _fsdp_collectives.py: foreach_reduce).
    void reduce(const UnitTape& tape) {
        RankWeights weights = tape.weights.trained;
        if (ends_in_root() && layer < 0) {
            root_weights_ += weights;
            append(root_gradients_, std::exchange(unit_gradients_, {}));
            if (layer_is_head()) return;
            weights = std::exchange(root_weights_, {});
            std::swap(unit_gradients_, root_gradients_);
        }
        const double elements = in_common(c_, weights);
        if (elements == 0) return free(unit_gradients_);
        const Bytes type = size_of(trained_gradients(e_));
        free(in_flight_);
        in_flight_.push_back(make(TensorKind::exchanged, "gradients", elements * type.si()));
        free(unit_gradients_);
        const auto key = std::pair{layer, tape.what};
        const double piece = shared_out(c_, weights, 2) * type.si();
        if (frees() && !own_gradients_.contains(key))
            own_gradients_[key] = make(TensorKind::gradients, tape.what, piece, reduce_stream);
        else
            free(make(TensorKind::exchanged, "gradients", piece, reduce_stream));
    }

    void put_off_weights(const std::vector<UnitPlace>& units, std::pair<int, int> key) {
        for (std::size_t i = units.size(); i-- > 0;) {
            layer = units[i].layer;
            for (const BlockTape& block : units[i].tape->blocks)
                for (const OperatorTape& op : block.operators)
                    if (op.weight_gradient > 0) weight_gradient(op);
            if (shards_gradients() && !flat_) reduce(*units[i].tape);
            free(put_off_[key][units.size() - 1 - i]);  // read by these gradients alone
        }
        if (flat_) flat_->end_backward();
        put_off_[key].clear();
        free(passing_weight_gradients_);
    }

    void update() {
        phase = Phase::optimizer;
        free(in_flight_);
        wait_for_all();
        flat_ ? update_flat() : update_each();
        if (e_.runtime.optimizer.flat_gathers) gather_flat();
        for (const auto& [key, id] : own_gradients_) free(id);
        own_gradients_.clear();
    }

    void make_moments() {
        for (const WeightTensors& row : rows_)
            if (step == 0 && row.made == WeightTensors::Made::in_first_update) make_row(row);
    }
    void update_each() {
        TensorIds passing;
        for (const WeightTensors& row : rows_) {
            if (row.made == WeightTensors::Made::in_first_update && step == 0) make_row(row);
            if (row.made != WeightTensors::Made::in_updates) continue;
            for (const TensorId id : make_row(row)) passing.push_back(id);
        }
        free(passing);
    }
    void update_flat() {
        TensorIds whole;
        for (const auto& [key, id] : own_gradients_) whole.push_back(id);
        own_gradients_.clear();
        const bool muon = e_.workload.optimizer == Optimizer::muon;
        if (muon) make_moments();
        flat_->update(whole, muon ? Bytes(0) : moments());
    }

    // One of each rank's part, one of this rank's, and one of all in which the collective works
    // (torch.distributed.all_gather of a list).
    void gather_flat() {
        const int ranks = c_.groups.shard.size();
        if (e_.parallelism.zero != 1 || ranks == 1) return;
        double all = 0, part = 0;
        for_units([&](const UnitTape& tape) {
            all += tape.weights.trained.all();
            part += shared_out(c_, tape.weights.trained, 1);
        });
        const double each = c_.shape.element().si();
        TensorIds flat;
        for (int i = 0; i <= ranks; ++i)
            flat.push_back(make(TensorKind::exchanged, "gathered weights", part * each));
        flat.push_back(make(TensorKind::exchanged, "gathered weights", all * each));
        free(flat);
    }

    const Experiment& e_;
    LayerContext c_;
    std::map<UnitKind, UnitTape> tapes_;
    Order order_;
    std::vector<Chunk> chunks_;
    std::vector<WeightTensors> rows_;
    std::vector<std::vector<UnitPlace>> units_;

    std::array<bool, 2> has_workspace_{};  // the thread of forwards, that of backwards
    int passes_ = 0;                       // of units
    std::array<int, 2> launches_{};        // of a layer's forward and backward
    long issued_ = 0, lead_ = 0;           // launches; how many the host is ahead of the device
    struct Waiting {
        std::uint8_t stream = 0;
        long issued = 0;  // when its last pass had been
    };
    std::deque<Waiting> waiting_;  // streams that the device has not passed
    std::array<std::pair<std::int64_t, TensorId>, 2> buffers_{};  // bytes: of inputs, of gradients
    // by chunk and micro-batch; casts of each unit that the forward has passed
    std::map<std::pair<int, int>, TensorIds> kept_, put_off_;
    std::map<std::pair<int, int>, std::vector<TensorIds>> casts_;
    TensorIds* casts_now_ = nullptr;  // of the unit that runs
    RankWeights trained_;
    std::optional<GatheredWeights> gathers_;
    bool by_module_ = brings_modules(c_);
    std::optional<FlatList> flat_;
    std::size_t unit_ = 0, module_ = 0;  // that run, where modules gather
    TensorIds chain_;                    // the gradient of the residual stream
    TensorIds made_again_;          // by selective recompute, for the block whose backward runs
    TensorIds leaving_, returned_;  // of what layers keep: on its way to the host, and back
    TensorIds in_flight_, unit_gradients_, passing_weight_gradients_;
    std::map<std::pair<int, std::string>, TensorId> own_gradients_;
    std::set<std::int64_t> dummies_;
    TensorIds buckets_;
    RankWeights root_weights_;  // of the ends that are reduced together
    TensorIds root_gradients_;
};

}  // namespace

Lifetimes lifetimes_of(const Experiment& e, const Routing& routing, int stage) {
    if (e.workload.kind != Workload::Kind::transformer)
        throw std::logic_error("lifetimes_of: of transformers only");
    const Experiment as_run = as_eager(e);
    return StepWriter(as_run, routing, stage).write();
}

}  // namespace stepcast
