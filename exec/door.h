// How ranks that are processes find each other over TCP, and how strangers are kept out. Internal to the rendezvous.
#pragma once

#include <vector>

#include "exec/launcher.h"
#include "model/units.h"

namespace stepcast {

// Rank 0: a connection to each other rank, by rank; -1 for its own. Listens where the launcher says, on the loopback when all
// processes are on one host. Who does not know the run's token, says nothing or nonsense, or asks for a rank that has
// come, is hung up on, and none of them delays the others. Throws DeviceError when ranks are missing after `timeout`.
std::vector<int> admit_ranks(const Launch& launch, Seconds timeout);

// Every other rank: a connection to rank 0, who has shown the token too.
int look_for_rank_0(const Launch& launch, Seconds timeout);

// False when nothing happens before `deadline`.
bool wait_for(int socket, short events, Seconds deadline);

}  // namespace stepcast
