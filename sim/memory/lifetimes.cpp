#include "sim/memory/lifetimes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/machine/libraries.h"
#include "model/transformer/rank_shape.h"
#include "model/transformer/schedule.h"
#include "sim/memory/flat_list.h"
#include "sim/memory/gathered_weights.h"
#include "sim/memory/host_lead.h"
#include "sim/memory/stage_units.h"
#include "sim/memory/tensor_recorder.h"
#include "sim/memory/transformer_memory.h"
#include "sim/memory/unit_tape.h"
#include "sim/memory/weight_gradients.h"
#include "sim/memory/weight_tensors.h"

namespace stepcast {
namespace {

constexpr int steps_written = 2;
// cuBLAS takes a workspace for each thread that issues products, the forward's and the backward's,
// from the allocator and within the thread's first product, whose result is there already; grouped
// ones run on four streams (ATen/cuda/CUDAContextLight.h: cublas_handle_stream_to_workspace;
// CublasHandlePool.cpp: getCurrentCUDABlasHandle).
constexpr int streams_of_experts = 3;  // beside the first

using GatherPass = GatheredWeights::Direction;

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
    StepWriter(const Experiment& e, const Routing& routing, int stage, MicroBatches written)
        : e_(e),
          c_{e, rank_shape(e), rank_groups(e), routing},
          order_(schedule_orders(written == MicroBatches::all
                                     ? e.parallelism
                                     : shortened(e.parallelism, is_ahead(e)))[as_index(stage)]),
          units_(c_, chunks_by_stage(paths_of(e.workload, e.parallelism),
                                     e.parallelism.pp)[as_index(stage)]) {
        const UnitTape& middle = *units_[0][units_[0].size() / 2].tape;
        lead_.emplace(
            *this, is_ahead(e) ? e.runtime.host_lead : 0,
            std::array{launches_of(middle, Phase::forward), launches_of(middle, Phase::backward)});
        if (e.parallelism.zero == 3 && brings_each_pass(c_))
            gathers_.emplace(*this, units_.gathered(), by_module_ && e.workload.tied,
                             by_module_ ? e.runtime.reuse_distance * c_.shape.element().si() : 0);
        if (has_flat_gradients(e)) flat_.emplace(*this, c_, units_.trained());
        gradients_.emplace(*this, c_, flat_ ? &*flat_ : nullptr, ends_in_root());
    }

    Lifetimes write() {
        make_lasting();
        for (step = 0; step < steps_written; ++step) {
            if (step == 1 && buckets_) buckets_->rebuild(units_.matrices());
            if (step == 1 && e_.run.cuda_graph)
                out.events.push_back({AllocatorEvent::Kind::capture, 0, 0, 0});
            out.slots.clear();
            for (const Slot& slot : order_) {
                out.slots.push_back(out.events.size());
                run(slot);
            }
            out.slots.push_back(out.events.size());
            update();
        }
        return std::move(out);
    }

private:
    // --- events

    // By a collective.
    TensorIds bring(const std::string& what, const TensorList& sizes) {
        TensorIds ids = make_all(TensorKind::exchanged, what, sizes);
        lead_->wait_for_device(ids);
        return ids;
    }
    void begin_pass(std::size_t unit) {
        unit_ = unit;
        lead_->begin_pass();
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

    template <class Call>
    void for_units(Call&& call) {
        for (const auto& units : units_.by_chunk())
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
        if (!frees_each_step(e_) && !(flat_ && e_.parallelism.zero > 1))
            make_rows(TensorKind::gradients);
        if (flat_) flat_->make_masters(each(TensorKind::optimizer));
        make_rows(TensorKind::optimizer);
        if (reducer_element(c_) > Bytes(0)) buckets_.emplace(*this, c_).make(units_.matrices());
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
                if (micro_batch == 0 && adds_up_whole(c_)) gather_whole(*units[i].tape);
                forward(units[i], kept_[key]);
                if (casts_again(units[i])) free(casts_[key].back());
            }
            free_cache(units, key);
            free(gathering_);
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
            if (!split) gradients_->end_backward();
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
    // In a pipeline a step's first pass gathers a unit and copies it out to parameters, which stay
    // (and count as weights); what was gathered goes once the next unit has been.
    void gather_whole(const UnitTape& tape) {
        const double bytes = in_common(c_, tape.weights.trained) * c_.shape.element().si();
        TensorIds gathered;
        if (bytes > 0)
            gathered.push_back(make(TensorKind::gathered, tape.what, bytes, gather_stream));
        free(gathering_);
        gathering_ = std::move(gathered);
    }
    void end_unit(GatherPass direction) {
        if (gathers_ && !by_module_) gathers_->after(unit_, 0, direction);
    }
    static bool is_loss(const OperatorTape& op) { return op.what == "loss"; }
    // The ends are the whole model's unit, whose weights stay from the forward to the backward
    // (torch 2.11, fully_shard/_fsdp_state.py: _lazy_init, the root's reshard_after_forward).
    [[nodiscard]] bool ends_in_root() const {
        return !by_module_ && gathers_ && e_.parallelism.pp == 1 && e_.runtime.root_unit;
    }
    // Models of Transformers make their loss themselves.
    [[nodiscard]] bool makes_loss() const { return ends_in_root() && composes(e_, Composed::loss); }

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
        bool begun = makes_loss() || !is_loss(tape.blocks.back().operators.back());
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
                run_backward(*op, tape, chain, split);
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
        if (!split) gradients_->end_unit(tape);
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

    void run_backward(const OperatorTape& op, const UnitTape& unit, TensorIds& chain, bool split) {
        const bool gathers = by_module_ && op.weight_gradient > 0;
        if (gathers) gathers_->before(unit_, --module_, GatherPass::backward);
        take_buffer(op);
        if (op.buffer > 0 && op.sums) lead_->wait_for_device(chain.empty() ? chain_ : chain);
        TensorIds brought = bring(op.what, op.brought_back);
        TensorIds work = make_all(TensorKind::work, op.what, op.work);
        TensorIds gradients = make_all(TensorKind::work, op.what, op.gradients);
        if (op.is_product) take_workspace();
        if (op.buffer > 0 && !op.sums) lead_->wait_for_device(gradients);
        if (op.weight_gradient > 0 && !split) gradients_->add(op, unit);
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

    void put_off_weights(const std::vector<UnitPlace>& units, std::pair<int, int> key) {
        for (std::size_t i = units.size(); i-- > 0;) {
            layer = units[i].layer;
            for (const BlockTape& block : units[i].tape->blocks)
                for (const OperatorTape& op : block.operators)
                    if (op.weight_gradient > 0) gradients_->add(op, *units[i].tape);
            gradients_->end_unit(*units[i].tape);
            free(put_off_[key][units.size() - 1 - i]);  // read by these gradients alone
        }
        gradients_->end_backward();
        put_off_[key].clear();
    }

    void update() {
        for_units([&](const UnitTape& tape) { gradients_->reduce_whole(tape); });
        phase = Phase::optimizer;
        gradients_->end_reduction();
        lead_->wait_for_all();
        flat_ ? update_flat() : update_each();
        if (e_.runtime.optimizer.flat_gathers) gather_flat();
        gradients_->end_update();
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
        TensorIds whole = gradients_->take_own();
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
    Order order_;
    StageUnits units_;
    std::vector<WeightTensors> rows_;

    std::array<bool, 2> has_workspace_{};  // the thread of forwards, that of backwards
    std::optional<HostLead> lead_;
    std::array<std::pair<std::int64_t, TensorId>, 2> buffers_{};  // bytes: of inputs, of gradients
    // by chunk and micro-batch; casts of each unit that the forward has passed
    std::map<std::pair<int, int>, TensorIds> kept_, put_off_;
    std::map<std::pair<int, int>, std::vector<TensorIds>> casts_;
    TensorIds* casts_now_ = nullptr;  // of the unit that runs
    std::optional<GatheredWeights> gathers_;
    bool by_module_ = brings_modules(c_);
    std::optional<FlatList> flat_;
    std::size_t unit_ = 0, module_ = 0;  // that run, where modules gather
    TensorIds chain_;                    // the gradient of the residual stream
    TensorIds made_again_;          // by selective recompute, for the block whose backward runs
    TensorIds leaving_, returned_;  // of what layers keep: on its way to the host, and back
    std::optional<WeightGradients> gradients_;
    std::optional<ReducerBuckets> buckets_;
    TensorIds gathering_;  // of a unit that stays whole in a pipeline
};

}  // namespace

Lifetimes lifetimes_of(const Experiment& e, const Routing& routing, int stage,
                       MicroBatches written) {
    if (e.workload.kind != Workload::Kind::transformer)
        throw std::logic_error("lifetimes_of: of transformers only");
    const Experiment as_run = as_eager(e);
    return StepWriter(as_run, routing, stage, written).write();
}

}  // namespace stepcast
