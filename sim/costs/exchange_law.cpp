#include "sim/costs/exchange_law.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace stepcast {
namespace {

constexpr unsigned channels_of_all = 32, without_nvlink = 2;  // the latter for each peer
constexpr double parts_of_chunk = 8;  // each part is worth a channel of its own
constexpr Bytes small_part(8 << 10), small_of_channel(16 << 10);

double channels(Bytes message, Bytes part, double most) {
    return message <= part ? 1 : std::min(std::ceil(message / part), most);
}

}  // namespace

Seconds exchange_law_time(const ExchangeLoad& load, const Link& link, Fabric fabric,
                          BytesPerSecond inside, Bytes small) {
    const bool nvlink = joins_gpus(fabric);
    const double most =
        nvlink ? std::max(1U, std::bit_floor(channels_of_all / static_cast<unsigned>(load.ranks)))
               : without_nvlink;
    const Seconds peers = load.peers * link.exchange.latency;
    const bool knows_small =
        link.exchange_small_channel > BytesPerSecond(0) && link.exchange.efficiency > 0;
    if (knows_small && load.largest <= std::min(small, (nvlink ? channels_of_all : without_nvlink) *
                                                           small_of_channel)) {
        const double used = channels(load.largest, small_part, most);
        return link.exchange.launch + peers +
               std::max(load.sent / (inside * link.exchange.efficiency),
                        load.largest / (used * link.exchange_small_channel));
    }
    double used = channels(load.largest, link.exchange_chunk / parts_of_chunk, most);
    while (nvlink && load.largest / used > link.exchange_chunk && 2 * used <= channels_of_all)
        used *= 2;
    const BytesPerSecond own_link =
        link.bandwidth * std::min(link.ring_efficiency, link.all_to_all_efficiency);
    const BytesPerSecond rate = std::min(inside * link.all_to_all_efficiency, own_link);
    const Seconds transfer = load.sent / rate + link.exchange_copy * load.own / link.bandwidth;
    const double first =
        std::min(1.0, 2.0 * channels_of_all * (link.exchange_chunk / (load.sent + load.own)));
    return link.latency + link.exchange_launch + peers +
           std::max(transfer, load.largest / (used * link.exchange_channel)) +
           link.exchange_fill * first * transfer;
}

}  // namespace stepcast
