#include "tests/exec/cuda/emulation/fibers.h"

#include <array>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "tests/exec/cuda/emulation/context.h"
#include "tests/exec/cuda/emulation/machine.h"

namespace emulation {

namespace {

constexpr std::size_t stack_size = 64 << 10;
constexpr unsigned warp_size = 32;

struct Warp {
    unsigned members = 0, arrived = 0;
    std::uint64_t round = 0;
    // of this exchange and of the one before
    std::array<std::array<std::uint32_t, warp_size>, 2> words{};
};

struct Fiber {
    Context context;
    std::unique_ptr<char[]> stack{new char[stack_size]};
    unsigned thread = 0;
    uint3 place{};  // of that thread
    bool over = true;
};

// Of one worker thread: its blocks run one after another.
struct Block {
    Context scheduler;
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Warp> warps;
    std::size_t running = 0;
    unsigned size = 0, next = 0, alive = 0, waiting = 0;
    std::uint64_t barrier = 0;
    bool moved = false;  // somebody got on since the last look
    dim3 shape;
    const std::function<void()>* thread = nullptr;
    Position position;
    std::exception_ptr failure;
};
thread_local Block* running = nullptr;
Block& block() { return *running; }

uint3 place_of(const Block& b, unsigned thread) {
    return {thread % b.shape.x, thread / b.shape.x % b.shape.y, thread / b.shape.x / b.shape.y};
}

void yield() {
    Block& b = block();
    Fiber& self = *b.fibers[b.running];
    self.context.change_to(b.scheduler);
    b.position.thread = self.place;
}

// Runs threads of the block until none is left; waits leave it to others.
void live() {
    Block& b = block();
    Fiber& self = *b.fibers[b.running];
    while (b.next < b.size) {
        self.thread = b.next++;
        self.place = b.position.thread = place_of(b, self.thread);
        try {
            (*b.thread)();
        } catch (...) {  // may not leave the fiber
            b.failure = std::current_exception();
        }
        --b.alive;
        --b.warps[self.thread / warp_size].members;
        b.moved = true;
    }
    self.over = true;
    self.context.change_to(b.scheduler);
}

void begin(Fiber& fiber) {
    fiber.over = false;
    fiber.context.begin(fiber.stack.get(), stack_size, live);
}

void run_block(Block& b) {
    b.next = 0;
    b.alive = b.size;
    b.waiting = 0;
    b.warps.assign((b.size + warp_size - 1) / warp_size, {});
    for (unsigned thread = 0; thread < b.size; ++thread) ++b.warps[thread / warp_size].members;
    std::size_t begun = 0;
    while (b.alive > 0) {
        b.moved = false;
        for (b.running = 0; b.running < begun; ++b.running)
            if (!b.fibers[b.running]->over) b.scheduler.change_to(b.fibers[b.running]->context);
        // the others wait: one more fiber takes the threads that have not begun
        while (b.next < b.size) {
            if (begun == b.fibers.size()) b.fibers.push_back(std::make_unique<Fiber>());
            b.running = begun++;
            begin(*b.fibers[b.running]);
            b.moved = true;
            b.scheduler.change_to(b.fibers[b.running]->context);
        }
        if (b.failure) std::rethrow_exception(std::exchange(b.failure, nullptr));
        if (!b.moved && b.alive > 0)
            throw Failure{cudaErrorLaunchFailure,
                          "threads of a block wait for others that never come"};
    }
}

}  // namespace

void run_grid(dim3 grid, dim3 shape, const std::function<void()>& thread) {
    thread_local Block own;
    running = &own;
    running_position = &own.position;
    Block& b = own;
    b.shape = shape;
    b.size = shape.x * shape.y * shape.z;
    b.thread = &thread;
    b.position.block_size = shape;
    b.position.grid_size = grid;
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                b.position.block = {x, y, z};
                run_block(b);
            }
}

// Threads that are over do not count.
void wait_for_block() {
    Block& b = block();
    const std::uint64_t mine = b.barrier;
    ++b.waiting;
    while (b.barrier == mine) {
        if (b.waiting == b.alive) {
            b.waiting = 0;
            ++b.barrier;
            b.moved = true;
            break;
        }
        yield();
    }
    b.moved = true;
}

std::uint32_t exchange_in_warp(std::uint32_t word, unsigned lane) {
    Block& b = block();
    const unsigned thread = b.fibers[b.running]->thread;
    Warp& warp = b.warps[thread / warp_size];
    if (warp.members < warp_size)
        throw Failure{cudaErrorLaunchFailure,
                      "a shuffle names lanes that the warp has not, or that are over"};
    const std::uint64_t mine = warp.round;
    warp.words[mine % 2][thread % warp_size] = word;
    if (++warp.arrived == warp_size) {
        warp.arrived = 0;
        ++warp.round;
    }
    while (warp.round == mine) yield();
    b.moved = true;
    return warp.words[mine % 2][lane];
}

}  // namespace emulation
