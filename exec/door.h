// How ranks that are processes find each other over TCP, and how strangers are kept out. Used only
// by the rendezvous.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "exec/launcher.h"
#include "model/base/units.h"

namespace stepcast {

// A connection, or none; the destructor closes it.
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

// For rank 0: returns a connection to each other rank, by rank; the entry of rank 0 is none.
// Listens where the launcher says, or on the loopback if all processes are on one host. Hangs up on
// callers that do not know the run's token, say nothing or nonsense, or ask for a rank that has
// already come; none of them delays the others. Throws DeviceError when ranks are missing after
// `timeout`.
std::vector<Socket> admit_ranks(const Launch& launch, Seconds timeout);

// For every other rank: a connection to rank 0, which must have shown the token too.
Socket look_for_rank_0(const Launch& launch, Seconds timeout);

// Returns false if nothing happens before `deadline`.
bool wait_for(const Socket& socket, short events, Seconds deadline);
// Returns false if not all is taken before `deadline`, or if the other side has gone.
bool send_all(const Socket& socket, std::string_view bytes, Seconds deadline);

}  // namespace stepcast
