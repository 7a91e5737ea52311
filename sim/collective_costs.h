// Collectives: latency and bytes over the link of their level, or the measured curve where the cluster has one.
#pragma once

#include <span>

#include "model/cluster.h"
#include "model/op.h"
#include "model/task_graph.h"

namespace stepcast {

// n = participants, B = link bandwidth (of the node-to-node link when the participants span nodes), beta = B * ring
// efficiency, L = latency:
//   all-reduce (ring)                   2 (n-1) L + 2 (n-1)/n bytes / beta
//   all-gather, reduce-scatter (ring)     (n-1) L +   (n-1)/n bytes / beta
//   broadcast, reduce (pipelined ring)    (n-1) L + bytes / beta
//   all-to-all-v            L + max over ranks of max(inbound, outbound) / B
//   send/recv               messages L + bytes / B
//   barrier                 L
// One participant needs no communication: 0. Ignores switching between algorithms by size.
Seconds collective_time(const Op& op, std::span<const Place> places, const Cluster& cluster);

// The same for a group given as a rule (model/group.h).
Seconds collective_time(const Op& op, const Group& group, const Cluster& cluster);

// The largest off-diagonal inbound or outbound sum of one participant: what an all-to-all's time and its curve go by.
Bytes busiest_bytes(const AllToAll& op);

}  // namespace stepcast
