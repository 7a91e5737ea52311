#include "exec/cuda/library_pass.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "exec/cuda/check.h"
#include "exec/footprint.h"
#include "model/base/numbers.h"

namespace stepcast {

namespace {

constexpr std::string_view behind = "_backward";

// What a pass is, by its name without "_backward" and without the part of the model in front.
enum class Kind : std::uint8_t {
    other,
    norm,
    activation,
    product,
    rotary,
    sum,
    dropout,
    loss,
    adam,
    cast
};

Kind kind_of(std::string_view name) {
    static const std::vector<std::pair<std::string_view, Kind>> all{
        {"norm", Kind::norm},       {"norm1", Kind::norm},
        {"norm2", Kind::norm},      {"activation", Kind::activation},
        {"gelu", Kind::activation}, {"gate_product", Kind::product},
        {"rotary", Kind::rotary},   {"residual", Kind::sum},
        {"sum", Kind::sum},         {"accumulate_gradient", Kind::sum},
        {"dropout", Kind::dropout}, {"loss", Kind::loss},
        {"optimizer", Kind::adam},  {"adam", Kind::adam},
        {"cast", Kind::cast},       {"cast_logits", Kind::cast},
    };
    for (const auto& [last, kind] : all)
        if (name == last || (name.ends_with(last) && name[name.size() - last.size() - 1] == '_'))
            return kind;
    return Kind::other;
}

// What the tasks beside a pass say of it. Of the next product: the rows of one matrix and of all of
// its batch, and how many elements they have; of the last one, the columns. Of the whole step: the
// bytes of all gradients.
struct Beside {
    long rows = 0, all_rows = 0, width = 0, columns = 0;
    Bytes gradients;
};

// Whole items of `size` bytes; 0 if they are not whole.
std::int64_t whole(Bytes bytes, double size) {
    const double count = bytes.si() / size;
    return count >= 1 && count == std::floor(count) ? static_cast<std::int64_t>(count) : 0;
}

struct Chooser {
    std::string_view name;
    const MemoryPass& op;
    Element element;
    Beside beside;
    bool weights, narrow_next;  // the products around it are in fp8
    bool backward = name.ends_with(behind);

    [[nodiscard]] bool reads(double times) const {
        return op.read.si() > 0 && op.read.si() == times * op.written.si();
    }
    [[nodiscard]] double size() const { return bytes_of(element); }

    [[nodiscard]] LibraryPass choose() const {
        using Access = MemoryPass::Access;
        if (op.access != Access::stream && op.access != Access::rows &&
            op.access != Access::optimizer)
            return {};
        switch (kind_of(backward ? name.substr(0, name.size() - behind.size()) : name)) {
            case Kind::other: return {};
            case Kind::norm: return norm();
            case Kind::activation: return activation();
            case Kind::product: return product();
            case Kind::rotary: return rotary();
            case Kind::sum: return sum();
            case Kind::dropout: return dropout();
            case Kind::loss: return loss();
            case Kind::adam: return adam();
            case Kind::cast: return cast();
        }
        return {};
    }

    // Under automatic casting they are in fp32: where the next product has as many elements.
    [[nodiscard]] LibraryPass norm() const {
        if (beside.width <= 0 || !reads(backward ? 2 : 1)) return {};
        const bool wide = op.written.si() == 4 * area(beside.all_rows, beside.width);
        NormShape shape{wide ? Element::fp32 : element, 0, 0, false, 1e-5f};
        shape.rows = whole(op.written, real(beside.width) * bytes_of(shape.element));
        if (shape.rows == 0 || shape.rows > beside.all_rows) return {};
        if (beside.width > widest_norm)
            return StandIn{
                fmt::format("rows of {} elements are wider than the {} that the kernel for norms "
                            "takes",
                            beside.width, widest_norm)};
        shape.width = as_int(beside.width);
        return NormPass{shape, backward, weights};
    }
    // Gated: two inputs a result, which lie side by side in the rows of one product. What is not
    // gated has no rows, nor has a product of two tensors.
    [[nodiscard]] LibraryPass activation() const {
        using Function = ActivationShape::Function;
        ActivationShape shape{element, 1, 0, Function::gelu, reads(backward ? 1.5 : 2)};
        const std::int64_t results =
            whole(backward && shape.gated ? op.written / 2.0 : op.written, size());
        if (!shape.gated && !reads(backward ? 2 : 1)) return {};
        shape.width = results;
        if (!shape.gated) return ActivationPass{shape, backward};
        shape.function = Function::silu;
        shape.width = beside.width;
        shape.rows = beside.width > 0 ? results / beside.width : 0;
        if (results == 0 || shape.rows * shape.width != results || shape.rows > beside.all_rows)
            return {};
        return ActivationPass{shape, backward};
    }
    [[nodiscard]] LibraryPass product() const {
        const std::int64_t results = whole(backward ? op.written / 2.0 : op.written, size());
        if (results == 0 || !reads(backward ? 1.5 : 2)) return {};
        return ActivationPass{{element, 1, results, ActivationShape::Function::linear, true},
                              backward};
    }
    [[nodiscard]] LibraryPass rotary() const {
        if (beside.width <= 0 || !reads(1)) return {};
        RotaryShape shape{element, 0, std::max(beside.rows, 1L), 1, 1, 0, backward};
        shape.tokens = whole(op.read, real(beside.width) * size());
        if (shape.tokens == 0) return {};
        if (beside.width % 2 != 0)
            return StandIn{fmt::format("heads of {} elements have no pairs", beside.width)};
        shape.width = as_int(beside.width);
        return RotaryPass{shape};
    }
    // With dropout, residuals and gradients leave or read a mask of one byte per element.
    [[nodiscard]] bool masks(Bytes plain, Bytes with) const {
        return with.si() * size() == plain.si() * (size() + 1);
    }
    [[nodiscard]] DropoutPass drop(Bytes x, bool residual, bool mask) const {
        constexpr float p = 0.1f;
        const auto count = static_cast<std::size_t>(whole(x, size()));
        return {{element, count, mask ? p : 0.0f, 1, 0}, residual, mask, backward};
    }
    [[nodiscard]] LibraryPass sum() const {
        DropoutPass pass = drop(op.read / 2.0, true, masks(op.read / 2.0, op.written));
        pass.backward = false;  // the sum of two gradients
        return pass.shape.count > 0 && (pass.mask || reads(2)) ? LibraryPass{pass} : LibraryPass{};
    }
    [[nodiscard]] LibraryPass dropout() const {
        const Bytes x = backward ? op.written : op.read, with = backward ? op.read : op.written;
        const DropoutPass pass = drop(x, false, true);
        return pass.shape.count > 0 && masks(x, with) ? LibraryPass{pass} : LibraryPass{};
    }
    // As moved_in_steps() counts: three reads and probabilities in fp32; these and gradients.
    [[nodiscard]] LibraryPass loss() const {
        if (beside.columns <= 0) return {};
        const double elements = op.read.si() / (backward ? 4 : 3 * size());
        LossShape shape{element, 0, beside.columns, 1};
        shape.rows = whole(Bytes(elements), real(beside.columns));
        const bool same = op.written.si() == elements * (backward ? size() : 4);
        return shape.rows > 0 && same ? LibraryPass{LossPass{shape, backward}} : LibraryPass{};
    }
    // Weights, moments and gradients of fp32 are read: 16 bytes, or 14 with narrow gradients; 12
    // are written, and the weights once more where they are narrow.
    [[nodiscard]] LibraryPass adam() const {
        const Element narrow = element == Element::fp32 ? Element::bf16 : element;
        for (const Element gradient : {Element::fp32, narrow})
            for (const bool copies : {false, true}) {
                AdamwShape shape{gradient, narrow};
                shape.copies = copies;
                shape.count = 1;
                const Moved one = moved(shape);
                shape.count = static_cast<std::size_t>(whole(op.read, one.read));
                if (shape.count > 0 && moved(shape) == Moved{op.read.si(), op.written.si()} &&
                    divides_gradients(shape.count))
                    return AdamwPass{shape};
            }
        return {};
    }
    // Other rules have the same ratio of bytes, but not as many weights: of all gradients, in 4 or
    // 2 bytes, a rank has a whole part, padded by less than a thousandth.
    [[nodiscard]] bool divides_gradients(std::size_t count) const {
        const double gradients = beside.gradients.si();
        const auto whole_parts = [&](double bytes) {
            const double parts = gradients / bytes / real(count);
            return std::abs(parts - std::round(parts)) < 1e-3 * parts;
        };
        return gradients == 0 || whole_parts(4) || whole_parts(2);
    }
    [[nodiscard]] LibraryPass cast() const {
        const Element narrow = element == Element::fp32 ? Element::bf16 : element;
        const auto count = static_cast<std::size_t>(whole(op.read + op.written, 6));
        if (count > 0 && reads(2)) return CastPass{{Element::fp32, narrow, count}};
        if (count > 0 && reads(0.5)) return CastPass{{narrow, Element::fp32, count}};
        // to fp8 by rows and by columns, of an operand of the next product
        QuantizeShape fp8{element, beside.rows, beside.width};
        fp8.by_columns = true;
        if (narrow_next && moved(fp8) == Moved{op.read.si(), op.written.si()})
            return QuantizePass{fp8};
        return {};
    }
};

// What ran, in words, and the bytes beside the operands.
struct Words {
    std::string operator()(const StandIn& pass) const { return pass.why; }
    std::string operator()(const NormPass& pass) const {
        return fmt::format("own kernel for norms{}, rows of {}",
                           pass.backward && pass.weights ? " and their weights" : "",
                           pass.shape.width);
    }
    std::string operator()(const ActivationPass& pass) const {
        if (pass.shape.function == ActivationShape::Function::linear) return "own product of two";
        return pass.shape.gated ? "own gated activation" : "own activation";
    }
    std::string operator()(const RotaryPass& pass) const {
        return fmt::format("own rotary kernel, heads of {}", pass.shape.width);
    }
    std::string operator()(const DropoutPass& pass) const {
        return pass.mask ? pass.residual ? "own dropout by Philox and sum" : "own dropout by Philox"
                         : "own sum";
    }
    std::string operator()(const LossPass& pass) const {
        return fmt::format("own cross entropy in steps, {} columns", pass.shape.columns);
    }
    std::string operator()(const AdamwPass&) const { return "own AdamW over a flat buffer"; }
    std::string operator()(const CastPass&) const { return "own cast"; }
    std::string operator()(const QuantizePass&) const {
        return "own cast to fp8 by one scale, by rows and by columns";
    }
};

struct ScratchBytes {
    std::size_t operator()(const NormPass& pass) const {
        const double rows = real(pass.shape.rows), width = real(pass.shape.width);
        return static_cast<std::size_t>(8 * rows + 8 * width) + 4 * norm_partials(pass.shape) +
               5 * alignment;
    }
    std::size_t operator()(const RotaryPass& pass) const {
        return 4 * as_index(pass.shape.length * pass.shape.width) + 2 * alignment;
    }
    std::size_t operator()(const QuantizePass&) const { return 2 * alignment; }
    std::size_t operator()(const LossPass& pass) const {
        return 8 * as_index(pass.shape.rows) + 2 * alignment;
    }
    std::size_t operator()(
        const OneOf<StandIn, ActivationPass, DropoutPass, AdamwPass, CastPass> auto&) const {
        return 0;
    }
};

std::size_t targets_of(const LibraryPass& pass) {
    const auto* loss = std::get_if<LossPass>(&pass);
    return loss == nullptr ? 0
                           : (sizeof(std::int32_t) * as_index(loss->shape.rows) + alignment - 1) /
                                 alignment * alignment;
}

// Tensors one after another, each at a multiple of the alignment.
class Places {
public:
    explicit Places(char* begin) : next_(begin) {}
    template <typename T = void>
    T* take(double bytes) {
        char* const place = next_;
        next_ += (static_cast<std::size_t>(bytes) + alignment - 1) / alignment * alignment;
        return reinterpret_cast<T*>(place);
    }

private:
    char* next_;
};

// Weights of a row are taken from the first operand, where they are as random and as wide.
struct Run {
    Places in, out, beside;
    const std::int32_t* targets;
    cudaStream_t stream;

    void operator()(const StandIn&) const {}
    void operator()(const NormPass& pass) {
        const NormShape& s = pass.shape;
        const double x = real(s.rows) * real(s.width) * bytes_of(s.element),
                     row = real(s.width) * bytes_of(Element::fp32);
        NormTensors at;
        at.x = at.weight = at.bias = in.take(x);
        at.means = beside.take<float>(4 * real(s.rows));
        at.scales = beside.take<float>(4 * real(s.rows));
        if (!pass.backward) {
            at.y = out.take(x);
            return check(norm(s, at, stream));
        }
        at.d_y = in.take(x);
        at.d_x = out.take(x);
        if (pass.weights) at.d_weight = beside.take(row), at.d_bias = beside.take(row);
        at.partial = beside.take<float>(4 * real(norm_partials(s)));
        check(norm_backward(s, at, stream));
    }
    void operator()(const ActivationPass& pass) {
        const ActivationShape& s = pass.shape;
        const Moved ahead = moved(s, false);
        const void* const x = in.take(ahead.read);
        if (!pass.backward) return check(activate(s, x, out.take(ahead.written), stream));
        const void* const d_y = in.take(ahead.written);
        check(activate_backward(s, x, d_y, out.take(ahead.read), stream));
    }
    void operator()(const RotaryPass& pass) {
        const double table = 2 * real(pass.shape.length) * pass.shape.width;
        const auto *const cosines = beside.take<float>(table), *const sines =
                                                                   beside.take<float>(table);
        const double x = moved(pass.shape).read;
        const void* const from = in.take(x);
        check(rotary(pass.shape, from, cosines, sines, out.take(x), stream));
    }
    void operator()(const DropoutPass& pass) {
        const double x = real(pass.shape.count) * bytes_of(pass.shape.element);
        const void* const from = in.take(x);
        if (pass.backward) {
            const auto* const mask = in.take<std::uint8_t>(real(pass.shape.count));
            return check(dropout_backward(pass.shape, from, mask, out.take(x), stream));
        }
        DropoutTensors at{from};
        if (pass.residual) at.residual = in.take(x);
        at.y = out.take(x);
        if (pass.mask) at.mask = out.take<std::uint8_t>(real(pass.shape.count));
        check(dropout(pass.shape, at, stream));
    }
    void operator()(const LossPass& pass) {
        const LossShape& s = pass.shape;
        const double x = area(s) * bytes_of(s.element), p = 4 * area(s);
        LossTensors at;
        at.targets = targets;
        at.losses = beside.take<float>(4 * real(s.rows));
        at.log_sums = beside.take<float>(4 * real(s.rows));
        at.probabilities = pass.backward ? in.take<float>(p) : out.take<float>(p);
        if (pass.backward) {
            at.d_logits = out.take(x);
            return check(cross_entropy_in_steps_backward(s, at, stream));
        }
        // The graph counts three reads of one tensor: three tensors lie here, the first is read.
        at.logits = in.take(x);
        check(cross_entropy_in_steps(s, at, stream));
    }
    void operator()(const AdamwPass& pass) {
        const double n = real(pass.shape.count);
        AdamwTensors at;
        at.weights = in.take<float>(4 * n);
        at.m = in.take<float>(4 * n);
        at.v = in.take<float>(4 * n);
        at.gradients = in.take(bytes_of(pass.shape.gradient) * n);
        at.new_weights = out.take<float>(4 * n);
        at.new_m = out.take<float>(4 * n);
        at.new_v = out.take<float>(4 * n);
        if (pass.shape.copies) at.copies = out.take(bytes_of(pass.shape.copy) * n);
        check(adamw(pass.shape, at, stream));
    }
    void operator()(const QuantizePass& pass) {
        const double n = real(pass.shape.rows) * real(pass.shape.columns);
        QuantizeTensors at;
        at.x = in.take(moved(pass.shape).read);
        at.y = out.take(n);
        at.transposed = out.take(n);
        at.scale = beside.take<float>(4);
        at.largest = beside.take<float>(4);
        check(quantize(pass.shape, at, stream));
    }
    void operator()(const CastPass& pass) {
        const Moved bytes = moved(pass.shape);
        const void* const from = in.take(bytes.read);
        check(cast(pass.shape, from, out.take(bytes.written), stream));
    }
};

// What lies beside each of a rank's tasks.
std::vector<Beside> beside_each(const TaskGraph& graph, const std::vector<TaskId>& tasks) {
    std::vector<Beside> all(tasks.size());
    Beside last;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const Op& op = graph.op(tasks[i]);
        all[i].columns = last.columns;
        if (const auto* gemm = std::get_if<Gemm>(&op)) last.columns = gemm->n;
        const auto* pass = std::get_if<MemoryPass>(&op);
        if (pass != nullptr && graph.name(tasks[i]) == "gradient_norm") last.gradients = pass->read;
        if (pass != nullptr && graph.name(tasks[i]) == "zero_gradients")
            last.gradients = pass->written;
    }
    for (std::size_t i = tasks.size(); i-- > 0;) {
        const Op& op = graph.op(tasks[i]);
        if (const auto* gemm = std::get_if<Gemm>(&op))
            last = {gemm->m, gemm->m * gemm->batch, gemm->k, 0, last.gradients};
        if (const auto* groups = std::get_if<GroupedGemm>(&op)) {
            const long rows = std::accumulate(groups->rows.begin(), groups->rows.end(), 0L);
            last = {rows, rows, groups->k, 0, last.gradients};
        }
        if (const auto* attention = std::get_if<Attention>(&op))
            last = {attention->seq_q, attention->batch * attention->heads * attention->seq_q,
                    attention->head_dim, 0, last.gradients};
        all[i] = {last.rows, last.all_rows, last.width, all[i].columns, last.gradients};
    }
    return all;
}

}  // namespace

// A backward has the rows of its forward.
LibraryPasses::LibraryPasses(const TaskGraph& graph, int rank, Element common)
    : passes_(graph.size()) {
    std::vector<TaskId> tasks;
    bool weights_apart = false;
    for (TaskId task = 0; task < graph.size(); ++task) {
        weights_apart = weights_apart || graph.name(task) == "norm_weight_gradient";
        if (has(participants(graph.places(task)), rank)) tasks.push_back(task);
    }
    const std::vector<Beside> beside_all = beside_each(graph, tasks);
    std::map<std::string_view, Beside> forwards;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const auto* op = std::get_if<MemoryPass>(&graph.op(tasks[i]));
        if (op == nullptr) continue;
        const std::string_view name = graph.name(tasks[i]);
        Beside beside = beside_all[i];
        if (!name.ends_with(behind)) {
            forwards[name] = beside;
        } else {
            const auto found = forwards.find(name.substr(0, name.size() - behind.size()));
            beside = found == forwards.end() ? Beside{} : found->second;
        }
        const Element element = common == Element::fp8 ? Element::bf16 : common;
        LibraryPass& pass = passes_[tasks[i]];
        pass = Chooser{name, *op, element, beside, !weights_apart, common == Element::fp8}.choose();
        targets_ = std::max(targets_, targets_of(pass));
        scratch_ = std::max(scratch_, std::visit(ScratchBytes{}, pass));
    }
}

std::string ran_by(const LibraryPass& pass) { return std::visit(Words{}, pass); }

void run_pass(const LibraryPass& pass, const CudaOperands& at, char* scratch, std::size_t targets,
              cudaStream_t stream) {
    std::visit(Run{Places(at.in[0]), Places(at.out[0]), Places(scratch + targets),
                   reinterpret_cast<const std::int32_t*>(scratch), stream},
               pass);
}

}  // namespace stepcast
