// Writes tensors as they are made and freed, each with the moment in which it is made.
#pragma once

#include <map>
#include <string>

#include "sim/memory/lifetimes.h"
#include "sim/memory/unit_tape.h"

namespace stepcast {

using TensorId = std::uint32_t;
using TensorIds = std::vector<TensorId>;

inline constexpr std::uint8_t gather_stream = 1, reduce_stream = 2, first_exchange_stream = 3;

class TensorRecorder {
public:
    TensorId make(TensorKind kind, const std::string& what, double bytes, std::uint8_t stream = 0);
    TensorIds make_all(TensorKind kind, const std::string& what, const TensorList& sizes);
    void free(TensorId id) { add(AllocatorEvent::Kind::free, 0, id); }
    void free(TensorIds& ids);  // leaves none
    void free_last(TensorIds& ids, std::size_t count);
    void use_on(TensorId id, std::uint8_t stream) {
        add(AllocatorEvent::Kind::record_stream, stream, id);
    }
    void let_pass(std::uint8_t stream) { add(AllocatorEvent::Kind::synchronize, stream, 0); }

    Lifetimes out;
    int step = -1, layer = -1, micro_batch = -1;
    Phase phase = Phase::between;

private:
    void add(AllocatorEvent::Kind kind, std::uint8_t stream, TensorId id) {
        out.events.push_back({kind, stream, id, 0});
    }
    std::int32_t name(const std::string& what);

    std::map<std::string, std::int32_t> names_;
};

}  // namespace stepcast
