// How ranks that are processes find each other over TCP, and how strangers are kept out. Internal to the rendezvous.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "exec/launcher.h"
#include "model/units.h"

namespace stepcast {

// A connection, or none; closed at its end.
class Socket {
public:
    explicit Socket(int number = -1) : number_(number) {}
    Socket(Socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Socket& operator=(Socket&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Socket();
    [[nodiscard]] int number() const { return number_; }
    [[nodiscard]] bool is_open() const { return number_ >= 0; }

private:
    int number_;
};

// Rank 0: a connection to each other rank, by rank; none for its own. Listens where the launcher says, on the loopback when all
// processes are on one host. Who does not know the run's token, says nothing or nonsense, or asks for a rank that has
// come, is hung up on, and none of them delays the others. Throws DeviceError when ranks are missing after `timeout`.
std::vector<Socket> admit_ranks(const Launch& launch, Seconds timeout);

// Every other rank: a connection to rank 0, who has shown the token too.
Socket look_for_rank_0(const Launch& launch, Seconds timeout);

// False when nothing happens before `deadline`.
bool wait_for(const Socket& socket, short events, Seconds deadline);
// False when not all is taken before `deadline`, or the other side has gone.
bool send_all(const Socket& socket, std::string_view bytes, Seconds deadline);

}  // namespace stepcast
