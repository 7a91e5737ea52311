#include "sim/memory/host_lead.h"

namespace stepcast {

// of the units that share a stream of the replay, which has 32
static constexpr int passes_a_stream = 2, exchange_streams = 24;

std::uint8_t HostLead::stream() const {
    const int group = lead_ > 0 ? passes_ / passes_a_stream : 0;
    return static_cast<std::uint8_t>(first_exchange_stream + group % exchange_streams);
}

void HostLead::wait_for_device(const TensorIds& ids) {
    for (const TensorId id : ids) tensors_.use_on(id, stream());
}

void HostLead::begin_pass() {
    const std::uint8_t before = stream();
    ++passes_;
    if (lead_ == 0 || stream() != before) waiting_.push_back({before, issued_});
    while (!waiting_.empty() && waiting_.front().issued + lead_ <= issued_) {
        tensors_.let_pass(waiting_.front().stream);
        waiting_.pop_front();
    }
    issued_ += launches_[tensors_.phase == Phase::forward ? 0 : 1];
}

void HostLead::wait_for_all() {
    for (const Waiting& one : waiting_) tensors_.let_pass(one.stream);
    tensors_.let_pass(stream());
    waiting_.clear();
}

}  // namespace stepcast
