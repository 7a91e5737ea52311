// Each algorithm and protocol of a collective takes a start, rounds of latency, and bytes over
// bandwidth; the fastest counts. If the cluster has a measured curve, the curve counts instead.
#pragma once

#include <optional>
#include <span>

#include "model/cluster.h"
#include "model/graph/op.h"
#include "model/graph/task_graph.h"
#include "sim/network/ring_path.h"

namespace stepcast {

// with so few ranks NCCL does not use the switch's adders
inline constexpr int most_without_nvls = 4;

// For n participants on N nodes. Rounds R: all-reduce 2 (n-1), of them 2 (N-1) between nodes;
// others (n-1) and (N-1). Bytes T through each rank's link: all-reduce 2 (n-1)/n S, all-gather and
// reduce-scatter (n-1)/n S, broadcast and reduce S. B = what the group's rings reach inside a node
// or between nodes, whichever is less (sim/network/ring_path.h).
//   ring, large messages   launch + R latency + T / (B ring_efficiency) + copy (S/n) / B +
//                          pipelining sqrt(start transfer)
//   ring, LL and LL128     launch + R latency + T / (B efficiency), with the constants of the
//                          protocol. LL adds slot_latency min(1, (S/n) / slot); LL128 needs more
//                          than two ranks
//   with slot_latency      between nodes sqrt((R slot_latency)^2 + (T / B)^2) replaces T / B
//   tree (N > 1)           all-reduce: as the ring with 2 ceil(log2 N) rounds between nodes, 2 (n/N
//                          - 1) inside, and T = 2 S; with slot_latency T = 2 S ceil(log2 N),
//                          because its levels hardly overlap
//   NVLS (N = 1, n > 4)    all-reduce: nvls_launch + S / (B nvls_efficiency) + pipelining
//                          sqrt(start transfer)
//   all-to-all-v (N = 1)   as sim/costs/exchange_law.h, if the cluster has its constants; otherwise
//                          as the next row
//   all-to-all-v           small: launch + peers latency + largest message / (B efficiency) of
//                          `exchange`, or all messages / (B all_to_all_efficiency) if that takes
//                          longer. Large: exchange_launch + latency + peers exchange.latency +
//                          bytes / (B all_to_all_efficiency) + pipelining as above + exchange_copy
//                          own / B. Of the busiest rank; bytes inside and between nodes go side by
//                          side
//   by kernels             as sim/costs/dispatch_law.h, if the cluster has its constants, beside
//                          the time of the NICs
//   send/recv              as an all-to-all-v of two, for each message; blocking: as one message,
//                          and host.message for each
//   barrier                latency
// One participant needs no communication: 0. Source: NCCL's algorithms; the constants are fitted
// (calibrate/fit_tables.h).
Seconds collective_time(const Op& op, std::span<const Place> places, const Cluster& cluster);

// The same for a group that is given as a rule (model/graph/group.h).
Seconds collective_time(const Op& op, const Group& group, const Cluster& cluster);

// The same for a known path. `small`: the largest message that counts as small in an all-to-all, if
// the library's release changes it.
Seconds collective_time(const Op& op, const RingPath& path, const Cluster& cluster,
                        std::optional<Bytes> small = {});

// Host time of blocking messages at either end; it is part of their collective_time.
Seconds message_time(const SendRecv& op, const Cluster& cluster);

// The most that one participant sends to or receives from the others. The measured curve of an
// all-to-all is a function of it.
Bytes busiest_bytes(const AllToAll& op);

}  // namespace stepcast
