#include "exec/door.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "exec/steady_clock.h"
#include "model/errors.h"

namespace stepcast {

namespace {

int milliseconds_until(Seconds deadline) {
    const double left = std::max(0.0, (deadline - steady_now()).si());
    return static_cast<int>(std::ceil(std::min(left, 1e6) * 1e3));
}

// What both sides say first, always of this length.
struct Hello {
    std::array<char, 8> program{'s', 't', 'e', 'p', 'c', 'a', 's', 't'};
    std::int32_t rank = -1, processes = -1;
    std::array<char, longest_token> token{};
    friend bool operator==(const Hello&, const Hello&) = default;
};
static_assert(std::has_unique_object_representations_v<Hello>);

Hello hello_of(const Launch& launch, int rank) {
    Hello hello;
    hello.rank = rank;
    hello.processes = launch.processes;
    std::copy_n(launch.token.begin(), std::min(launch.token.size(), longest_token), hello.token.begin());
    return hello;
}

class Socket {
public:
    explicit Socket(int socket) : socket_(socket) {}
    Socket(Socket&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
    Socket& operator=(Socket&& other) noexcept {
        std::swap(socket_, other.socket_);
        return *this;
    }
    ~Socket() {
        if (socket_ >= 0) close(socket_);
    }
    [[nodiscard]] int number() const { return socket_; }
    int release() { return std::exchange(socket_, -1); }

private:
    int socket_;
};

void send_at_once(int socket) {
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// What resolving a name found, freed at the end. Without a name: every address of this host.
class Addresses {
public:
    Addresses(const std::string& host, int port) {
        addrinfo hints{};
        hints.ai_family = AF_UNSPEC;
        hints.ai_socktype = SOCK_STREAM;
        hints.ai_flags = host.empty() ? AI_PASSIVE : 0;
        const int code = getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &first_);
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

// Of one that a name was resolved to, which is of one of the two families.
bool is_loopback(const sockaddr* address) {
    if (address->sa_family == AF_INET) {
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

Socket listen_at(const addrinfo& at) {
    Socket listener(socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at.ai_protocol));
    const int on = 1, off = 0;
    if (listener.number() < 0) return listener;
    setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (at.ai_family == AF_INET6) setsockopt(listener.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(listener.number(), at.ai_addr, at.ai_addrlen) == 0 && listen(listener.number(), SOMAXCONN) == 0)
        return listener;
    return Socket(-1);
}

// At the first of the master's addresses that is one of this host. A name that leads to the loopback here (as Debian's own
// host name does) is found elsewhere by another address: then at all, unless all processes are here.
Socket listen_for(const Launch& launch) {
    const Addresses addresses(launch.one_host ? "127.0.0.1" : launch.address, launch.port);
    const bool misleads = !launch.one_host && is_loopback(addresses.first()->ai_addr);
    const Addresses any("", launch.port);
    for (const addrinfo* at = misleads ? any.first() : addresses.first(); at != nullptr; at = at->ai_next)
        if (Socket listener = listen_at(*at); listener.number() >= 0) return listener;
    throw DeviceError(fmt::format("rank 0 cannot listen at {}:{} ({}); choose another MASTER_PORT", launch.address,
                                  launch.port, std::strerror(errno)));
}

// Someone who has connected and not yet said who it is.
struct Caller {
    Socket socket;
    Seconds until;
    std::string said;
};

// Reads what is there; false when the caller has gone or its time is over.
bool listen_to(Caller& caller) {
    char bytes[sizeof(Hello)];
    const ssize_t got = recv(caller.socket.number(), bytes, sizeof bytes - caller.said.size(), MSG_DONTWAIT);
    if (got > 0) caller.said.append(bytes, static_cast<std::size_t>(got));
    const bool alive = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    return alive && steady_now() < caller.until;
}

bool send_all(int socket, const Hello& hello, Seconds deadline) {
    const char* bytes = reinterpret_cast<const char*>(&hello);
    for (std::size_t sent = 0; sent < sizeof hello;) {
        if (!wait_for(socket, POLLOUT, deadline)) return false;
        const ssize_t count = send(socket, bytes + sent, sizeof hello - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (count > 0) sent += static_cast<std::size_t>(count);
    }
    return true;
}

constexpr Seconds patience_with_strangers(5);
constexpr std::size_t most_callers = 256;  // more are hung up on, the oldest first

// Closes what it holds unless it comes to its end.
class Table {
public:
    explicit Table(const Launch& launch)
        : launch_(launch), ranks_(static_cast<std::size_t>(launch.processes), -1), missing_(launch.processes - 1) {}
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;
    ~Table() {
        for (const int socket : ranks_)
            if (socket >= 0) close(socket);
    }
    [[nodiscard]] int missing() const { return missing_; }
    std::vector<int> release() { return std::exchange(ranks_, {}); }

    void seat(Caller& caller) {
        Hello hello;
        std::memcpy(&hello, caller.said.data(), sizeof hello);
        if (hello.rank <= 0 || hello.rank >= launch_.processes || hello != hello_of(launch_, hello.rank)) return;
        int& place = ranks_[static_cast<std::size_t>(hello.rank)];
        send_at_once(caller.socket.number());
        if (place >= 0 || !send_all(caller.socket.number(), hello_of(launch_, 0), steady_now() + Seconds(1))) return;
        place = caller.socket.release();
        --missing_;
    }

private:
    const Launch& launch_;
    std::vector<int> ranks_;
    int missing_;
};

}  // namespace

bool wait_for(int socket, short events, Seconds deadline) {
    for (;;) {
        pollfd entry{socket, events, 0};
        const int ready = poll(&entry, 1, milliseconds_until(deadline));
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) throw DeviceError(fmt::format("poll: {}", std::strerror(errno)));
        if (steady_now() >= deadline) return false;
    }
}

std::vector<int> admit_ranks(const Launch& launch, Seconds timeout) {
    const Socket listener = listen_for(launch);
    const Seconds deadline = steady_now() + timeout;
    Table table(launch);
    std::vector<Caller> callers;
    while (table.missing() > 0) {
        if (steady_now() >= deadline)
            throw DeviceError(fmt::format("{} of {} processes did not reach rank 0 at port {} within {}", table.missing(),
                                          launch.processes, launch.port, to_string(timeout)));
        std::vector<pollfd> watched{{listener.number(), POLLIN, 0}};
        for (const Caller& caller : callers) watched.push_back({caller.socket.number(), POLLIN, 0});
        constexpr Seconds look(0.1);  // for those whose time is over
        if (poll(watched.data(), watched.size(), milliseconds_until(std::min(deadline, steady_now() + look))) < 0 &&
            errno != EINTR)
            throw DeviceError(fmt::format("poll: {}", std::strerror(errno)));
        std::vector<Caller> waiting;
        for (Caller& caller : callers) {
            const bool stays = listen_to(caller);
            if (caller.said.size() == sizeof(Hello))
                table.seat(caller);
            else if (stays)
                waiting.push_back(std::move(caller));
        }
        callers = std::move(waiting);
        for (;;) {
            Socket socket(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
            if (socket.number() < 0) break;
            if (callers.size() == most_callers) callers.erase(callers.begin());
            callers.push_back({std::move(socket), steady_now() + patience_with_strangers, {}});
        }
    }
    return table.release();
}

int look_for_rank_0(const Launch& launch, Seconds timeout) {
    const Addresses addresses(launch.one_host ? "127.0.0.1" : launch.address, launch.port);
    const Seconds deadline = steady_now() + timeout;
    do {
        for (const addrinfo* at = addresses.first(); at != nullptr; at = at->ai_next) {
            Socket socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
            if (socket.number() < 0 || connect(socket.number(), at->ai_addr, at->ai_addrlen) != 0) continue;
            send_at_once(socket.number());
            const Seconds until = std::min(deadline, steady_now() + patience_with_strangers);
            if (!send_all(socket.number(), hello_of(launch, launch.rank), until)) continue;
            Caller answer{std::move(socket), until, {}};
            while (answer.said.size() < sizeof(Hello) && wait_for(answer.socket.number(), POLLIN, until) &&
                   listen_to(answer)) {
            }
            const Hello expected = hello_of(launch, 0);
            if (answer.said.size() == sizeof(Hello) && std::memcmp(answer.said.data(), &expected, sizeof expected) == 0)
                return answer.socket.release();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } while (steady_now() < deadline);
    throw DeviceError(
        fmt::format("rank 0 did not answer at {}:{} within {}", launch.address, launch.port, to_string(timeout)));
}

}  // namespace stepcast
