#include "tests/exec/cuda/emulation/exchange.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "tests/exec/cuda/emulation/machine.h"

namespace emulation {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t meeting_size = (sizeof(Meeting) + page - 1) / page * page;

struct Header {
    std::uint64_t bytes;
    std::uint32_t tag;
};

// A message on its way through a ring: its header, then its bytes.
struct Flow {
    Piece piece;
    std::size_t done = 0;  // header included
    Header header{};
    [[nodiscard]] std::size_t whole() const { return sizeof(Header) + piece.bytes; }
};

void nap() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

char* at(Flow& flow, std::size_t& most) {
    if (flow.done < sizeof(Header)) {
        most = std::min(most, sizeof(Header) - flow.done);
        return reinterpret_cast<char*>(&flow.header) + flow.done;
    }
    most = std::min(most, flow.whole() - flow.done);
    return flow.piece.data + (flow.done - sizeof(Header));
}

bool push(Flow& flow, Ring& ring) {
    const std::uint64_t written = ring.written.load(std::memory_order_relaxed);
    const std::uint64_t read = ring.read.load(std::memory_order_acquire);
    const std::size_t place = written % Ring::size;
    std::size_t most = std::min(Ring::size - (written - read), Ring::size - place);
    if (most == 0) return false;
    const char* from = at(flow, most);
    std::memcpy(ring.data + place, from, most);
    flow.done += most;
    ring.written.store(written + most, std::memory_order_release);
    return true;
}

bool pull(Flow& flow, Ring& ring) {
    const std::uint64_t read = ring.read.load(std::memory_order_relaxed);
    const std::uint64_t written = ring.written.load(std::memory_order_acquire);
    const std::size_t place = read % Ring::size;
    std::size_t most = std::min<std::size_t>(written - read, Ring::size - place);
    if (most == 0) return false;
    char* to = at(flow, most);
    std::memcpy(to, ring.data + place, most);
    flow.done += most;
    ring.read.store(read + most, std::memory_order_release);
    return true;
}

}  // namespace

Exchange::Exchange(const std::string& path, int ranks, int rank, const std::string& gpu)
    : path_(path),
      ranks_(ranks),
      rank_(rank),
      bytes_(meeting_size +
             static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks) * sizeof(Ring)) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0)
        throw std::runtime_error(path + ": cannot be opened");
    void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (data == MAP_FAILED) throw std::runtime_error(path + ": cannot be mapped");
    meeting_ = static_cast<Meeting*>(data);
    rings_ = reinterpret_cast<Ring*>(static_cast<char*>(data) + meeting_size);
    Member& self = meeting_->members[rank];
    self.process = getpid();
    std::strncpy(self.gpu, gpu.c_str(), sizeof self.gpu - 1);
    if (++meeting_->arrived == ranks) unlink(path.c_str());
}

Exchange::~Exchange() {
    if (meeting_->arrived < ranks_) unlink(path_.c_str());
    munmap(meeting_, bytes_);
}

bool Exchange::is_gone(int rank) const {
    const int process = meeting_->members[rank].process;
    return process != 0 && kill(process, 0) != 0 && errno == ESRCH &&
           setting("EMULATED_NCCL_NOTICES_DEATH", 1) != 0;
}

Outcome Exchange::wait_for(const std::atomic<int>& count, const std::atomic<bool>& given_up) const {
    while (count < ranks_) {
        if (given_up) return Outcome::given_up;
        for (int rank = 0; rank < ranks_; ++rank)
            if (is_gone(rank)) return Outcome::peer_gone;
        nap();
    }
    return Outcome::done;
}

Outcome Exchange::meet(const std::atomic<bool>& given_up) {
    return wait_for(meeting_->arrived, given_up);
}
Outcome Exchange::leave(const std::atomic<bool>& given_up) {
    ++meeting_->left;
    return wait_for(meeting_->left, given_up);
}

bool Exchange::shares_a_gpu() const {
    for (int i = 0; i < ranks_; ++i)
        for (int j = 0; j < i; ++j)
            if (std::strcmp(meeting_->members[i].gpu, meeting_->members[j].gpu) == 0) return true;
    return false;
}

Outcome Exchange::run(std::vector<Piece> sends, std::vector<Piece> receives,
                      const std::atomic<bool>& given_up) {
    std::vector<Flow> out, in;
    for (const Piece& piece : sends) out.push_back({piece, 0, {piece.bytes, piece.tag}});
    for (const Piece& piece : receives) in.push_back({piece});
    for (int idle = 0;; ++idle) {
        if (given_up) return Outcome::given_up;
        bool moved = false, open = false;
        // one message at a time each way
        std::vector<bool> busy(static_cast<std::size_t>(ranks_), false);
        for (Flow& flow : out) {
            Ring& target = ring(rank_, flow.piece.peer);
            if (flow.done == flow.whole()) {
                open = open || target.read != target.written;
                continue;
            }
            open = true;
            if (busy[static_cast<std::size_t>(flow.piece.peer)]) continue;
            busy[static_cast<std::size_t>(flow.piece.peer)] = true;
            moved = push(flow, target) || moved;
        }
        busy.assign(busy.size(), false);
        for (Flow& flow : in) {
            if (flow.done == flow.whole()) continue;
            open = true;
            if (busy[static_cast<std::size_t>(flow.piece.peer)]) continue;
            busy[static_cast<std::size_t>(flow.piece.peer)] = true;
            moved = pull(flow, ring(flow.piece.peer, rank_)) || moved;
            if (flow.done == sizeof(Header) &&
                (flow.header.bytes != flow.piece.bytes || flow.header.tag != flow.piece.tag)) {
                complaint_ = "rank " + std::to_string(rank_) + " expects " +
                             std::to_string(flow.piece.bytes) + " bytes of call " +
                             std::to_string(flow.piece.tag) + " from rank " +
                             std::to_string(flow.piece.peer) + ", which sends " +
                             std::to_string(flow.header.bytes) + " of call " +
                             std::to_string(flow.header.tag);
                return Outcome::mismatch;
            }
        }
        if (!open) return Outcome::done;
        if (moved) {
            idle = 0;
            continue;
        }
        nap();
        constexpr int some = 500;
        if (idle % some != some - 1) continue;
        for (const auto* flows : {&out, &in})
            for (const Flow& flow : *flows)
                if (is_gone(flow.piece.peer)) return Outcome::peer_gone;
    }
}

}  // namespace emulation
