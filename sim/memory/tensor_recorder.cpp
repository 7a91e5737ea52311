#include "sim/memory/tensor_recorder.h"

#include <cmath>

#include "model/base/numbers.h"

namespace stepcast {

std::int32_t TensorRecorder::name(const std::string& what) {
    const auto [found, added] =
        names_.try_emplace(what, static_cast<std::int32_t>(out.names.size()));
    if (added) out.names.push_back(what);
    return found->second;
}

TensorId TensorRecorder::make(TensorKind kind, const std::string& what, double bytes,
                              std::uint8_t stream) {
    const auto id = static_cast<TensorId>(out.tensors.size());
    const auto size = static_cast<std::int64_t>(std::ceil(bytes));
    out.tensors.push_back({size, name(what), micro_batch, static_cast<std::int16_t>(layer),
                           static_cast<std::int16_t>(step), kind, phase});
    out.events.push_back({AllocatorEvent::Kind::allocate, stream, id, size});
    return id;
}

TensorIds TensorRecorder::make_all(TensorKind kind, const std::string& what,
                                   const TensorList& sizes) {
    TensorIds ids;
    for (const std::int64_t bytes : sizes) ids.push_back(make(kind, what, real(bytes)));
    return ids;
}

void TensorRecorder::free(TensorIds& ids) {
    for (const TensorId id : ids) free(id);
    ids.clear();
}

void TensorRecorder::free_last(TensorIds& ids, std::size_t count) {
    for (; count > 0; --count) {
        free(ids.back());
        ids.pop_back();
    }
}

}  // namespace stepcast
