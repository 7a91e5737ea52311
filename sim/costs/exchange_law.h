// All-to-alls and messages inside a node as NCCL runs them: grouped sends and receives over
// channels, each of one SM.
#pragma once

#include "model/cluster.h"

namespace stepcast {

// What one rank exchanges with `peers` of the `ranks` of its group. `largest`: its largest message.
// `own`: bytes that stay with it.
struct ExchangeLoad {
    Bytes sent, own, largest;
    double peers = 0;
    int ranks = 0;
    friend bool operator==(const ExchangeLoad&, const ExchangeLoad&) = default;
};

// With m the largest message, over c channels for each peer:
//   small, m <= l.exchange_small (LL):
//     t = l.exchange.launch + peers l.exchange.latency
//         + max(sent / (B l.exchange.efficiency), m / (c l.exchange_small_channel))
//   others (Simple):
//     t = l.latency + l.exchange_launch + peers l.exchange.latency
//         + max(T, m / (c l.exchange_channel)) + F
//     T = sent / rate + own l.exchange_copy / link,
//         rate = B l.all_to_all_efficiency, at most what rings reach of a rank's own link
//     F = l.exchange_fill T min(1, 64 l.exchange_chunk / (sent + own)):
//         a receiver copies a piece when it is complete. If all data fits into the first pieces of
//         all channels, no copy hides behind the next piece.
// Channels: peers joined by NVLink share 32 of them evenly. A message takes one for every eighth of
// a chunk (in LL for every 8 KiB), and doubles them while a part is longer than a chunk. Without
// NVLink a peer has two. Source: NCCL 2.23 to 2.29, src/enqueue.cc (addP2pToPlan) and
// src/graph/paths.cc (ncclTopoComputeP2pChannels), quoted from memory. A chunk is 512 KiB over
// NVLink and 128 KiB otherwise (src/init.cc). The tables show that channels double beyond a chunk,
// and that small messages end at 16 KiB for each channel that a peer may have, from release 2.29 on
// at 16 KiB in all. Constants: calibrate/fit_tables.h.
Seconds exchange_law_time(const ExchangeLoad& load, const Link& link, Fabric fabric,
                          BytesPerSecond inside, Bytes small);

inline bool has_exchange_law(const Link& link) { return link.exchange_channel > BytesPerSecond(0); }

}  // namespace stepcast
