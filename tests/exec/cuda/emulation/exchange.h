// How the ranks of an emulated communicator reach each other, threads or processes alike: rings in
// a file that all of them map.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace emulation {

inline constexpr int most_ranks = 64;

struct Ring {
    static constexpr std::size_t size = 64 << 10;
    std::atomic<std::uint64_t> written, read;
    char data[size];
};

struct Member {
    int process;
    char gpu[120];
};

// What lies in the file, before the rings.
struct Meeting {
    std::atomic<int> arrived, left;
    Member members[most_ranks];
};

// A message; `tag` must be the same on both sides.
struct Piece {
    int peer;
    char* data;
    std::size_t bytes;
    std::uint32_t tag;
};

enum class Outcome { done, given_up, peer_gone, mismatch };

class Exchange {
public:
    // Maps the file and waits for the others, until `given_up`.
    Exchange(const std::string& path, int ranks, int rank, const std::string& gpu);
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;
    ~Exchange();
    Outcome meet(const std::atomic<bool>& given_up);
    Outcome leave(const std::atomic<bool>& given_up);  // all together
    [[nodiscard]] bool shares_a_gpu() const;

    // All messages at once. A send ends when its receiver has it all.
    Outcome run(std::vector<Piece> sends, std::vector<Piece> receives,
                const std::atomic<bool>& given_up);
    // The message that did not fit, for mismatch.
    [[nodiscard]] const std::string& complaint() const { return complaint_; }

private:
    [[nodiscard]] Ring& ring(int from, int to) const { return rings_[from * ranks_ + to]; }
    [[nodiscard]] bool is_gone(int rank) const;
    Outcome wait_for(const std::atomic<int>& count, const std::atomic<bool>& given_up) const;

    std::string path_, complaint_;
    int ranks_, rank_;
    std::size_t bytes_;
    Meeting* meeting_ = nullptr;
    Ring* rings_ = nullptr;
};

}  // namespace emulation
