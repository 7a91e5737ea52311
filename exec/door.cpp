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
#include <memory>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "exec/steady_clock.h"
#include "model/base/errors.h"

namespace stepcast {

namespace {

int milliseconds_until(Seconds deadline) {
    const double left = std::max(0.0, (deadline - steady_now()).si());
    return static_cast<int>(std::ceil(std::min(left, 1e6) * 1e3));
}

// The first message of both sides, always of this length.
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
    std::copy_n(launch.token.begin(), std::min(launch.token.size(), longest_token),
                hello.token.begin());
    return hello;
}
std::string bytes_of(const Hello& hello) {
    return {reinterpret_cast<const char*>(&hello), sizeof hello};
}

void send_at_once(const Socket& socket) {
    const int on = 1;
    setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// The addresses of a host name. Without a name: all addresses of this host.
struct FreeAddresses {
    void operator()(addrinfo* first) const { freeaddrinfo(first); }
};
std::unique_ptr<addrinfo, FreeAddresses> addresses_of(const std::string& host, int port) {
    addrinfo hints{}, *first = nullptr;
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = host.empty() ? AI_PASSIVE : 0;
    const int code = getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                 std::to_string(port).c_str(), &hints, &first);
    if (code != 0)
        throw ConfigError(
            fmt::format("MASTER_ADDR: \"{}\" is no host ({}); expected where rank 0 runs", host,
                        gai_strerror(code)));
    return std::unique_ptr<addrinfo, FreeAddresses>(first);
}

// For an address of one of the two families.
bool is_loopback(const sockaddr* address) {
    if (address->sa_family == AF_INET) {
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

Socket listen_at(const addrinfo& at) {
    Socket listener(
        socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at.ai_protocol));
    const int on = 1, off = 0;
    if (!listener.is_open()) return listener;
    setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (at.ai_family == AF_INET6)
        setsockopt(listener.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(listener.number(), at.ai_addr, at.ai_addrlen) == 0 &&
        listen(listener.number(), SOMAXCONN) == 0)
        return listener;
    return Socket();
}

// Listens at the first of the master's addresses that belongs to this host. If its name leads to
// the loopback here (as Debian's own host name does), other hosts resolve it to another address.
// Then rank 0 listens at all addresses, unless all processes are here.
Socket listen_for(const Launch& launch) {
    auto addresses = addresses_of(launch.one_host ? "127.0.0.1" : launch.address, launch.port);
    if (!launch.one_host && is_loopback(addresses->ai_addr))
        addresses = addresses_of("", launch.port);
    for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next)
        if (Socket listener = listen_at(*at); listener.is_open()) return listener;
    throw DeviceError(fmt::format("rank 0 cannot listen at {}:{} ({}); choose another MASTER_PORT",
                                  launch.address, launch.port, std::strerror(errno)));
}

// Someone who has connected but not identified itself yet.
struct Caller {
    Socket socket;
    Seconds until;
    std::string said;
};

// Reads what has arrived. Returns false if the caller has gone or its time is over.
bool listen_to(Caller& caller) {
    char bytes[sizeof(Hello)];
    const ssize_t got =
        recv(caller.socket.number(), bytes, sizeof bytes - caller.said.size(), MSG_DONTWAIT);
    if (got > 0) caller.said.append(bytes, static_cast<std::size_t>(got));
    const bool alive = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    return alive && steady_now() < caller.until;
}

constexpr Seconds patience_with_strangers(5);
constexpr std::size_t most_callers = 256;  // beyond these the oldest is hung up on

// Assigns the caller its place, if it is a rank of this run that has not come yet.
void seat(const Launch& launch, Caller& caller, std::vector<Socket>& ranks) {
    Hello hello;
    std::memcpy(&hello, caller.said.data(), sizeof hello);
    if (hello.rank <= 0 || hello.rank >= launch.processes || hello != hello_of(launch, hello.rank))
        return;
    Socket& place = ranks[static_cast<std::size_t>(hello.rank)];
    send_at_once(caller.socket);
    if (!place.is_open() &&
        send_all(caller.socket, bytes_of(hello_of(launch, 0)), steady_now() + Seconds(1)))
        place = std::move(caller.socket);
}

}  // namespace

Socket::~Socket() {
    if (is_open()) close(number_);
}

bool wait_for(const Socket& socket, short events, Seconds deadline) {
    for (;;) {
        pollfd entry{socket.number(), events, 0};
        const int ready = poll(&entry, 1, milliseconds_until(deadline));
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR)
            throw DeviceError(fmt::format("poll: {}", std::strerror(errno)));
        if (steady_now() >= deadline) return false;
    }
}

bool send_all(const Socket& socket, std::string_view bytes, Seconds deadline) {
    while (!bytes.empty()) {
        if (!wait_for(socket, POLLOUT, deadline)) return false;
        const ssize_t count =
            send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
}

std::vector<Socket> admit_ranks(const Launch& launch, Seconds timeout) {
    const Socket listener = listen_for(launch);
    const Seconds deadline = steady_now() + timeout;
    std::vector<Socket> ranks(static_cast<std::size_t>(launch.processes));
    std::vector<Caller> callers;
    const auto missing = [&] {
        return std::count_if(ranks.begin() + 1, ranks.end(),
                             [](const Socket& s) { return !s.is_open(); });
    };
    while (missing() > 0) {
        if (steady_now() >= deadline)
            throw DeviceError(
                fmt::format("{} of {} processes did not reach rank 0 at port {} within {}",
                            missing(), launch.processes, launch.port, to_string(timeout)));
        std::vector<pollfd> watched{{listener.number(), POLLIN, 0}};
        for (const Caller& caller : callers) watched.push_back({caller.socket.number(), POLLIN, 0});
        constexpr Seconds look(0.1);  // how often to look for callers whose time is over
        if (poll(watched.data(), watched.size(),
                 milliseconds_until(std::min(deadline, steady_now() + look))) < 0 &&
            errno != EINTR)
            throw DeviceError(fmt::format("poll: {}", std::strerror(errno)));
        std::vector<Caller> waiting;
        for (Caller& caller : callers) {
            const bool stays = listen_to(caller);
            if (caller.said.size() == sizeof(Hello))
                seat(launch, caller, ranks);
            else if (stays)
                waiting.push_back(std::move(caller));
        }
        callers = std::move(waiting);
        for (;;) {
            Socket socket(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!socket.is_open()) break;
            if (callers.size() == most_callers) callers.erase(callers.begin());
            callers.push_back({std::move(socket), steady_now() + patience_with_strangers, {}});
        }
    }
    return ranks;
}

Socket look_for_rank_0(const Launch& launch, Seconds timeout) {
    const auto addresses =
        addresses_of(launch.one_host ? "127.0.0.1" : launch.address, launch.port);
    const Seconds deadline = steady_now() + timeout;
    do {
        for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
            Socket socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
            if (!socket.is_open() || connect(socket.number(), at->ai_addr, at->ai_addrlen) != 0)
                continue;
            send_at_once(socket);
            const Seconds until = std::min(deadline, steady_now() + patience_with_strangers);
            if (!send_all(socket, bytes_of(hello_of(launch, launch.rank)), until)) continue;
            Caller answer{std::move(socket), until, {}};
            while (answer.said.size() < sizeof(Hello) && wait_for(answer.socket, POLLIN, until) &&
                   listen_to(answer)) {
            }
            if (answer.said == bytes_of(hello_of(launch, 0))) return std::move(answer.socket);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } while (steady_now() < deadline);
    throw DeviceError(fmt::format("rank 0 did not answer at {}:{} within {}", launch.address,
                                  launch.port, to_string(timeout)));
}

}  // namespace stepcast
