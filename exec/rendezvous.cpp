#include "exec/rendezvous.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "exec/steady_clock.h"
#include "model/base/errors.h"
#include "model/base/plain_text.h"

namespace stepcast {

namespace {

constexpr char data_message = 'd', failure_message = 'f';
constexpr std::uint64_t longest_message = std::uint64_t{1} << 28;  // reports of ten million tasks

}  // namespace

Rendezvous::Rendezvous(const Launch& launch, Seconds timeout)
    : rank_(launch.rank),
      processes_(launch.processes),
      timeout_(timeout),
      sockets_(static_cast<std::size_t>(launch.processes)) {
    if (rank_ == 0)
        sockets_ = admit_ranks(launch, timeout);
    else
        sockets_[0] = look_for_rank_0(launch, timeout);
}

void Rendezvous::lost(int peer, const std::string& how) {
    if (culprit_ < 0) culprit_ = peer;
    throw DeviceError(fmt::format("rank {} {}", peer, how));
}

void Rendezvous::send(int peer, char kind, const std::string& text) {
    const std::uint64_t size = text.size();
    std::string bytes(1 + sizeof size, kind);
    std::memcpy(bytes.data() + 1, &size, sizeof size);
    bytes += text;
    const Seconds deadline = steady_now() + timeout_;
    if (!send_all(peer_socket(peer), bytes, deadline))
        lost(peer, steady_now() >= deadline ? "takes no messages" : "has gone");
}

// Looks at all ranks while it waits for one, because the awaited rank may not come because another
// has failed.
void Rendezvous::read_bytes(int peer, char* bytes, std::size_t count) {
    constexpr Seconds patience(0.05);
    const Seconds deadline = steady_now() + timeout_;
    for (std::size_t read = 0; read < count;) {
        if (!wait_for(peer_socket(peer), POLLIN, std::min(deadline, steady_now() + patience))) {
            if (steady_now() >= deadline)
                lost(peer, "did not arrive within " + to_string(timeout_));
            for (int other = 0; other < processes_; ++other)
                if (other != peer) check_other(other);
            continue;
        }
        const ssize_t got =
            recv(peer_socket(peer).number(), bytes + read, count - read, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) lost(peer, "has gone");
        if (got > 0) read += static_cast<std::size_t>(got);
    }
}

std::string Rendezvous::receive(int peer) {
    char header[1 + sizeof(std::uint64_t)];
    read_bytes(peer, header, sizeof header);
    std::uint64_t size = 0;
    std::memcpy(&size, header + 1, sizeof size);
    if ((header[0] != data_message && header[0] != failure_message) || size > longest_message)
        lost(peer, "sends what is no message of this program");
    std::string text(size, '\0');
    read_bytes(peer, text.data(), size);
    if (header[0] == data_message) return text;
    culprit_ = static_cast<int>(number_of(peer, text));
    throw DeviceError(fmt::format("given up because rank {} failed", culprit_));
}

double Rendezvous::number_of(int peer, const std::string& text) {
    const auto number = as_number<double>(text);
    if (!number || !(std::abs(*number) < 1e9)) lost(peer, "sends what is no number");
    return *number;
}

std::vector<std::string> Rendezvous::gather(const std::string& value) {
    if (rank_ > 0) {
        send(0, data_message, value);
        return {};
    }
    std::vector<std::string> values{value};
    for (int peer = 1; peer < processes_; ++peer) values.push_back(receive(peer));
    return values;
}

std::string Rendezvous::broadcast(const std::string& value) {
    if (rank_ > 0) return receive(0);
    for (int peer = 1; peer < processes_; ++peer) send(peer, data_message, value);
    return value;
}

void Rendezvous::meet() {
    gather("");
    broadcast("");
}

Seconds Rendezvous::clock_offset() {
    const auto ask = [&] {
        send(0, data_message, "");
        return Seconds(number_of(0, receive(0)));
    };
    if (rank_ > 0) return offset_to(ask);
    for (int peer = 1; peer < processes_; ++peer)
        for (int trip = 0; trip < clock_trips; ++trip) {
            receive(peer);
            send(peer, data_message, fmt::format("{:.9f}", steady_now().si()));
        }
    return {};
}

void Rendezvous::check_other(int peer) {
    if (!peer_socket(peer).is_open()) return;
    char kind = 0;
    const ssize_t got = recv(peer_socket(peer).number(), &kind, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) lost(peer, "has gone");
    if (got > 0 && kind == failure_message) receive(peer);
}

void Rendezvous::check_others() {
    for (int peer = 0; peer < processes_; ++peer) check_other(peer);
}

void Rendezvous::fail() noexcept {
    if (failed_) return;
    failed_ = true;
    const std::string culprit = std::to_string(culprit_ >= 0 ? culprit_ : rank_);
    try {
        for (int peer = 0; peer < processes_; ++peer)
            if (peer_socket(peer).is_open()) send(peer, failure_message, culprit);
    } catch (const std::exception&) {
        // A rank that cannot be told sees the connection close.
    }
}

}  // namespace stepcast
