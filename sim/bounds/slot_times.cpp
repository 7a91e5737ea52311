#include "sim/bounds/slots.h"

namespace stepcast {

void SlotTimes::set(std::span<const Features> directions) {
    device_.assign(slots_.kinds.size(), {});
    host_.assign(slots_.kinds.size(), {});
    for (std::size_t d = 0; d < directions.size(); ++d) {
        for (std::size_t f = 0; f < at(feature::device_end); ++f) feature_[f][d] = directions[d][f];
        for (std::size_t k = 0; k < slots_.kinds.size(); ++k)
            for (std::size_t f = 0; f < directions[d].size(); ++f)
                (f < at(feature::device_end) ? device_ : host_)[k][d] += slots_.kinds[k][f] * directions[d][f];
    }
}

void SlotTimes::run(std::span<const Features> directions) {
    set(directions);
    std::vector<Lanes> hosts(at(key_.pp));
    for (std::size_t i = 0; i < slots_.nodes.size(); ++i) {
        const SlotNode& n = slots_.nodes[i];
        run_slot(n, end_[i], hosts[at(n.stage)]);
        if (n.send >= 0) run_send(n, end_[i], sent_[i]);
    }
}

void SlotTimes::run_slot(const SlotNode& n, Lanes& end, Lanes& hosts) const {
    Lanes ready{};
    const auto wait = [&](const Lanes& until, const Lanes& more) {
        for (std::size_t d = 0; d < width; ++d) ready[d] = std::max(ready[d], until[d] + more[d]);
    };
    const Lanes& none = feature_[at(feature::device_end)];
    if (n.before >= 0) {
        wait(end_[at(n.before)], feature_[after(n.before)]);
        if (leaves_by_send(n.before)) wait(sent_[at(n.before)], none);
    }
    const bool sent = n.source >= 0 && sends(n.source);
    if (n.source >= 0) wait(sent ? sent_[at(n.source)] : end_[at(n.source)], sent ? feature_[feature::arrival] : none);
    const Lanes &entry = sent ? feature_[feature::entry] : none, &device = device_[at(n.kind)],
                &host = host_[at(n.kind)];
    for (std::size_t d = 0; d < width; ++d) {
        hosts[d] += host[d];
        end[d] = std::max(ready[d] + entry[d] + device[d], hosts[d]);
    }
}

void SlotTimes::run_send(const SlotNode& n, const Lanes& end, Lanes& sent) const {
    sent = end;
    for (const int before : {n.lane_before, n.in_before})
        if (before >= 0)
            for (std::size_t d = 0; d < width; ++d) sent[d] = std::max(sent[d], sent_[at(before)][d]);
    for (std::size_t d = 0; d < width; ++d) sent[d] += feature_[at(n.send)][d];
}

// As run_slot() decided; of equal ones the first.
SlotTimes::Cause SlotTimes::cause(int i, std::size_t direction) const {
    const SlotNode& n = node(i);
    double ready =
        n.before >= 0 ? std::max(0.0, end_[at(n.before)][direction] + feature_[after(n.before)][direction]) : 0;
    Cause cause = from_stage;
    if (n.before >= 0 && leaves_by_send(n.before) && sent_[at(n.before)][direction] > ready) {
        ready = sent_[at(n.before)][direction];
        cause = from_own_send;
    }
    const bool sent = n.source >= 0 && sends(n.source);
    if (n.source >= 0) {
        const double arrived = sent ? sent_[at(n.source)][direction] + feature_[feature::arrival][direction]
                                    : end_[at(n.source)][direction];
        if (arrived > ready) {
            ready = arrived;
            cause = from_source;
        }
    }
    const double end = ready + (sent ? feature_[feature::entry][direction] : 0) + device_[at(n.kind)][direction];
    return end_[at(i)][direction] > end ? from_host : cause;
}

int SlotTimes::send_waited_for(int i, std::size_t direction) const {
    int waited = -1;
    double free = end_[at(i)][direction];
    for (const int before : {node(i).lane_before, node(i).in_before})
        if (before >= 0 && sent_[at(before)][direction] > free) {
            waited = before;
            free = sent_[at(before)][direction];
        }
    return waited;
}

}  // namespace stepcast
