// Where the data of slots comes from and where it goes, along the paths of the micro-batches.
#pragma once

#include <optional>

#include "model/base/numbers.h"
#include "model/transformer/chunks.h"
#include "model/transformer/known_schedules.h"

namespace stepcast {

// A micro-batch at a position of its path, in the forward or (`back`) the backward.
struct At {
    int micro_batch, direction, position;
    bool back;
    friend auto operator<=>(const At&, const At&) = default;
};

class DataFlow {
public:
    DataFlow(const Workload& workload, const Parallelism& p)
        : paths_(paths_of(workload, p)), chunks_(chunks_by_stage(paths_, p.pp)) {}

    [[nodiscard]] const std::vector<Path>& paths() const { return paths_; }
    [[nodiscard]] const Path& path(const At& at) const { return paths_[as_index(at.direction)]; }
    // Of each stage, in the order of Slot::chunk.
    [[nodiscard]] const std::vector<std::vector<Chunk>>& chunks() const { return chunks_; }

    [[nodiscard]] At at(std::size_t stage, const Slot& slot) const {
        return {slot.micro_batch, paths_.size() == 2 ? slot.chunk : 0,
                chunks_[stage][as_index(slot.chunk)].position, slot.pass != Pass::forward};
    }
    // Whose result a slot takes, and who takes its own. None at the ends of a path, and for the
    // gradients of weights, which stay where they are.
    [[nodiscard]] std::optional<At> source(const Slot& slot, const At& at) const {
        return slot.pass == Pass::weight_backward ? std::nullopt : moved(at, at.back ? +1 : -1);
    }
    [[nodiscard]] std::optional<At> target(const Slot& slot, const At& at) const {
        return slot.pass == Pass::weight_backward ? std::nullopt : moved(at, at.back ? -1 : +1);
    }
    [[nodiscard]] int stage(const At& at) const { return path(at)[as_index(at.position)].stage; }
    // The position of the hop that `at` sends: that of its lower end.
    [[nodiscard]] static int hop(const At& at) { return at.back ? at.position - 1 : at.position; }
    [[nodiscard]] bool goes_up(const At& at) const {
        return hop_goes_up(path(at), at.direction, hop(at), at.back);
    }

private:
    [[nodiscard]] std::optional<At> moved(At at, int step) const {
        at.position += step;
        const bool inside = at.position >= 0 && at.position < as_int(path(at).size());
        return inside ? std::optional(at) : std::nullopt;
    }

    std::vector<Path> paths_;
    std::vector<std::vector<Chunk>> chunks_;
};

}  // namespace stepcast
