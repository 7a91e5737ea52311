#include "exec/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "model/errors.h"

namespace stepcast {

namespace {

constexpr char data_message = 'd', failure_message = 'f';

Seconds now() {
    return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// False when nothing happens before `deadline`.
bool wait_for(int socket, short events, Seconds deadline) {
    for (;;) {
        const double left = std::max(0.0, (deadline - now()).si());
        pollfd entry{socket, events, 0};
        const int ready = poll(&entry, 1, static_cast<int>(std::ceil(std::min(left, 1e6) * 1e3)));
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) throw DeviceError(fmt::format("poll: {}", std::strerror(errno)));
        if (now() >= deadline) return false;
    }
}

void send_at_once(int socket) {
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// What resolving a name found, freed at the end.
class Addresses {
public:
    Addresses(const std::string& host, int port) {
        addrinfo hints{};
        hints.ai_family = AF_UNSPEC;
        hints.ai_socktype = SOCK_STREAM;
        const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first_);
        if (code != 0)
            throw ConfigError(fmt::format("MASTER_ADDR: \"{}\" is no host ({}); expected where rank 0 runs", host,
                                          gai_strerror(code)));
    }
    Addresses(const Addresses&) = delete;
    Addresses& operator=(const Addresses&) = delete;
    ~Addresses() { freeaddrinfo(first_); }
    [[nodiscard]] const addrinfo* first() const { return first_; }

private:
    addrinfo* first_ = nullptr;
};

int listen_on(int port) {
    const int listener = socket(AF_INET6, SOCK_STREAM, 0);
    const int off = 0, on = 1;
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    any.sin6_port = htons(static_cast<std::uint16_t>(port));
    if (listener >= 0) {
        setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(listener, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0 &&
            listen(listener, SOMAXCONN) == 0)
            return listener;
        close(listener);
    }
    // A kernel without IPv6.
    const int old = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in any_old{};
    any_old.sin_family = AF_INET;
    any_old.sin_port = htons(static_cast<std::uint16_t>(port));
    setsockopt(old, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(old, reinterpret_cast<const sockaddr*>(&any_old), sizeof any_old) == 0 && listen(old, SOMAXCONN) == 0)
        return old;
    const std::string reason = std::strerror(errno);
    close(old);
    throw DeviceError(fmt::format("rank 0 cannot listen on port {} ({}); choose another MASTER_PORT", port, reason));
}

}  // namespace

Rendezvous::Rendezvous(const Launch& launch, Seconds timeout)
    : rank_(launch.rank),
      processes_(launch.processes),
      timeout_(timeout),
      sockets_(static_cast<std::size_t>(launch.processes), -1) {
    try {
        if (rank_ == 0)
            listen_for_others(launch);
        else
            look_for_first(launch);
    } catch (...) {
        for (const int socket : sockets_)
            if (socket >= 0) close(socket);
        throw;
    }
}

Rendezvous::~Rendezvous() {
    for (const int socket : sockets_)
        if (socket >= 0) close(socket);
}

void Rendezvous::listen_for_others(const Launch& launch) {
    const int listener = listen_on(launch.port);
    const Seconds deadline = now() + timeout_;
    try {
        for (int missing = processes_ - 1; missing > 0;) {
            if (!wait_for(listener, POLLIN, deadline))
                throw DeviceError(fmt::format("{} of {} processes did not reach rank 0 at port {} within {}", missing,
                                              processes_, launch.port, to_string(timeout_)));
            const int socket = accept(listener, nullptr, nullptr);
            if (socket < 0) throw DeviceError(fmt::format("accept: {}", std::strerror(errno)));
            send_at_once(socket);
            const timeval patience{1, 0};
            setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
            std::int32_t hello[2] = {-1, -1};
            if (recv(socket, hello, sizeof hello, MSG_WAITALL) != static_cast<ssize_t>(sizeof hello) ||
                hello[1] != processes_ || hello[0] <= 0 || hello[0] >= processes_ || peer_socket(hello[0]) >= 0) {
                close(socket);  // no rank of this run: someone who tries ports
                continue;
            }
            sockets_[static_cast<std::size_t>(hello[0])] = socket;
            --missing;
        }
    } catch (...) {
        close(listener);
        throw;
    }
    close(listener);
}

void Rendezvous::look_for_first(const Launch& launch) {
    const Addresses addresses(launch.address, launch.port);
    const Seconds deadline = now() + timeout_;
    do {
        for (const addrinfo* at = addresses.first(); at != nullptr; at = at->ai_next) {
            const int socket = ::socket(at->ai_family, at->ai_socktype, at->ai_protocol);
            if (socket < 0) continue;
            if (connect(socket, at->ai_addr, at->ai_addrlen) != 0) {
                close(socket);
                continue;
            }
            send_at_once(socket);
            const std::int32_t hello[2] = {rank_, processes_};
            if (::send(socket, hello, sizeof hello, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof hello)) {
                close(socket);
                continue;
            }
            sockets_[0] = socket;
            return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } while (now() < deadline);
    throw DeviceError(fmt::format("rank 0 did not answer at {}:{} within {}", launch.address, launch.port,
                                  to_string(timeout_)));
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
    const Seconds deadline = now() + timeout_;
    for (std::size_t sent = 0; sent < bytes.size();) {
        if (!wait_for(peer_socket(peer), POLLOUT, deadline)) lost(peer, "takes no messages");
        const ssize_t count =
            ::send(peer_socket(peer), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0 && errno != EAGAIN && errno != EINTR) lost(peer, "has gone");
        if (count > 0) sent += static_cast<std::size_t>(count);
    }
}

void Rendezvous::read_bytes(int peer, char* bytes, std::size_t count) {
    const Seconds deadline = now() + timeout_;
    for (std::size_t read = 0; read < count;) {
        if (!wait_for(peer_socket(peer), POLLIN, deadline))
            lost(peer, "did not arrive within " + to_string(timeout_));
        const ssize_t got = recv(peer_socket(peer), bytes + read, count - read, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) lost(peer, "has gone");
        if (got > 0) read += static_cast<std::size_t>(got);
    }
}

Rendezvous::Message Rendezvous::receive(int peer) {
    char header[1 + sizeof(std::uint64_t)];
    read_bytes(peer, header, sizeof header);
    std::uint64_t size = 0;
    std::memcpy(&size, header + 1, sizeof size);
    Message message{header[0], std::string(size, '\0')};
    read_bytes(peer, message.text.data(), size);
    if (message.kind == failure_message) {
        culprit_ = std::stoi(message.text);
        throw DeviceError(fmt::format("given up because rank {} failed", culprit_));
    }
    return message;
}

std::vector<std::string> Rendezvous::gather(const std::string& value) {
    if (rank_ > 0) {
        send(0, data_message, value);
        return {};
    }
    std::vector<std::string> values{value};
    for (int peer = 1; peer < processes_; ++peer) values.push_back(receive(peer).text);
    return values;
}

std::string Rendezvous::broadcast(const std::string& value) {
    if (rank_ > 0) return receive(0).text;
    for (int peer = 1; peer < processes_; ++peer) send(peer, data_message, value);
    return value;
}

void Rendezvous::meet() {
    gather("");
    broadcast("");
}

// Rank 0's clock at the middle of the quickest of some round trips.
Seconds Rendezvous::clock_offset() {
    constexpr int trips = 20;
    Seconds offset, quickest(INFINITY);
    if (rank_ == 0) {
        for (int peer = 1; peer < processes_; ++peer)
            for (int trip = 0; trip < trips; ++trip) {
                receive(peer);
                send(peer, data_message, fmt::format("{:.9f}", now().si()));
            }
        return offset;
    }
    for (int trip = 0; trip < trips; ++trip) {
        const Seconds sent = now();
        send(0, data_message, "");
        const Seconds theirs(std::stod(receive(0).text));
        const Seconds back = now();
        if (back - sent >= quickest) continue;
        quickest = back - sent;
        offset = theirs - 0.5 * (sent + back);
    }
    return offset;
}

void Rendezvous::check_others() {
    for (int peer = 0; peer < processes_; ++peer) {
        if (peer_socket(peer) < 0) continue;
        char kind = 0;
        const ssize_t got = recv(peer_socket(peer), &kind, 1, MSG_PEEK | MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) lost(peer, "has gone");
        if (got > 0 && kind == failure_message) receive(peer);
    }
}

void Rendezvous::fail() noexcept {
    if (failed_) return;
    failed_ = true;
    const std::string culprit = std::to_string(culprit_ >= 0 ? culprit_ : rank_);
    try {
        for (int peer = 0; peer < processes_; ++peer)
            if (peer_socket(peer) >= 0) send(peer, failure_message, culprit);
    } catch (const std::exception&) {
        // Whoever cannot be told sees the connection close.
    }
}

}  // namespace stepcast
