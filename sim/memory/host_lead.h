// The host ahead of the device, by runtime.host_lead layers. PyTorch frees what an asynchronous
// collective used only when the device has passed it (record_stream), so each few passes of units
// have a stream of the replay for what they bring.
#pragma once

#include <array>
#include <deque>

#include "sim/memory/tensor_recorder.h"

namespace stepcast {

class HostLead {
public:
    // `launches` of a layer's forward and backward; the ends of the model count as a layer.
    // `layers`: 0 = the host waits for the device at each pass.
    HostLead(TensorRecorder& tensors, int layers, std::array<int, 2> launches)
        : tensors_(tensors),
          launches_(launches),
          lead_(long{layers} * (launches[0] + launches[1])) {}

    void begin_pass();  // of a unit, in the recorder's phase
    void wait_for_all();
    // Collectives are on a stream of their own, which passes when the device has caught up.
    void wait_for_device(const TensorIds& ids);

private:
    [[nodiscard]] std::uint8_t stream() const;

    TensorRecorder& tensors_;
    std::array<int, 2> launches_;
    long lead_ = 0, issued_ = 0;  // launches
    int passes_ = 0;              // of units
    struct Waiting {
        std::uint8_t stream = 0;
        long issued = 0;  // when its last pass had been
    };
    std::deque<Waiting> waiting_;  // streams that the device has not passed
};

}  // namespace stepcast
