// Ranks as processes that exchange ids, samples, clocks and failures through rank 0 over TCP,
// outside the measured part and collectives.
#pragma once

#include <string>
#include <vector>

#include "exec/door.h"
#include "exec/launcher.h"
#include "model/base/units.h"

namespace stepcast {

// Every process makes the calls that exchange something in the same order. They throw DeviceError
// with the rank that does not answer within the timeout, has closed its connection, or has reported
// a failure.
class Rendezvous {
public:
    // Rank 0 waits for all others; the others look for rank 0.
    Rendezvous(const Launch& launch, Seconds timeout);

    void set_timeout(Seconds timeout) { timeout_ = timeout; }
    // by rank, on rank 0; empty elsewhere
    std::vector<std::string> gather(const std::string& value);
    std::string broadcast(const std::string& value);  // rank 0's
    void meet();
    // What to add to this process's steady clock to get rank 0's.
    Seconds clock_offset();

    // Throws as above if another rank has failed or gone. Does not wait.
    void check_others();
    // Tells the others once; they throw at their next call.
    void fail() noexcept;

private:
    void send(int peer, char kind, const std::string& text);
    std::string receive(int peer);
    void check_other(int peer);
    void read_bytes(int peer, char* bytes, std::size_t count);
    double number_of(int peer, const std::string& text);
    [[noreturn]] void lost(int peer, const std::string& how);
    [[nodiscard]] const Socket& peer_socket(int peer) const {
        return sockets_[static_cast<std::size_t>(peer)];
    }

    int rank_, processes_;
    Seconds timeout_;
    std::vector<Socket> sockets_;  // by rank
    int culprit_ = -1;             // the failed rank that the others are told
    bool failed_ = false;
};

}  // namespace stepcast
