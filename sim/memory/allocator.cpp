// The rules of c10/cuda/CUDACachingAllocator.cpp in PyTorch. tests/sim/memory/allocator_test.cpp
// holds what the allocator of PyTorch 2.15.0 itself answered to the same requests.
#include "sim/memory/allocator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory_resource>
#include <set>
#include <stdexcept>

#include "model/base/numbers.h"

namespace stepcast {
namespace {

using BlockId = std::int32_t;
constexpr BlockId no_block = -1;
constexpr BlockId empty_tensor = -2;  // of a tensor without bytes

constexpr int most_streams = 32;
constexpr std::int64_t smallest_block = 512;          // every size is a multiple
constexpr std::int64_t small_limit = mebibyte;        // requests above are large
constexpr std::int64_t small_segment = 2 * mebibyte;  // also the step of large segments
constexpr std::int64_t exact_from = 10 * mebibyte;    // requests below share large segments
constexpr std::int64_t address_space = std::int64_t{1} << 48;  // of one expandable segment

constexpr std::int64_t up_to_multiple(std::int64_t value, std::int64_t of) {
    return (value + of - 1) / of * of;
}

// A part of a segment: used, free, or address space without memory.
struct MemoryBlock {
    std::int64_t address = 0, bytes = 0;
    BlockId before = no_block, after = no_block;
    std::int64_t since = 0;                  // searches of its pool when it became free
    std::uint32_t users = 0, waits_for = 0;  // other streams: that used it, that must pass first
    std::uint8_t stream = 0;
    bool small = false, expandable = false;
    bool mapped = true, used = false, captured = false;
    [[nodiscard]] bool is_split() const { return before != no_block || after != no_block; }
    [[nodiscard]] bool is_free() const { return !used && waits_for == 0; }
};

class CachingAllocator {
public:
    CachingAllocator(const AllocatorSettings& settings, std::int64_t capacity, Driver driver)
        : settings_(settings), capacity_(capacity), driver_(driver) {}

    bool take(const AllocatorEvent& event);

    [[nodiscard]] AllocatorLevel level() const { return level_; }
    [[nodiscard]] std::int64_t most_reserved() const { return most_reserved_; }
    [[nodiscard]] std::size_t retries() const { return retries_; }
    [[nodiscard]] std::vector<AllocatorSegment> segments() const;

private:
    // no_block: out of memory
    BlockId allocate(std::int64_t bytes, std::uint8_t stream) {
        if (driver_ == Driver::planned) return planned(bytes);
        free_what_passed();
        const Request request = request_of(bytes, stream);
        BlockId found = cached(request);
        if (found == no_block) found = from_driver_with_retries(request);
        if (found != no_block) use(found, request);
        return found;
    }

    void free(BlockId id) {
        MemoryBlock& block = blocks_[as_index(id)];
        block.used = false;
        level_.allocated -= block.bytes;
        if (driver_ == Driver::planned) {
            reserve(-block.bytes);
            return erase(id);
        }
        block.waits_for = block.users;
        block.users = 0;
        for (std::uint32_t left = block.waits_for; left != 0; left &= left - 1)
            pending_[as_index(std::countr_zero(left))].push_back(id);
        if (block.waits_for == 0) make_free(id);
    }

    void record_stream(BlockId id, std::uint8_t stream) {
        MemoryBlock& block = blocks_[as_index(id)];
        if (block.stream != stream) block.users |= std::uint32_t{1} << stream;
    }

    // torch 2.9.1, cuda/graphs.py: synchronize and empty_cache before a capture, whose memory is of
    // a private pool.
    void capture() {
        release_all();
        captured_ = true;
    }

    void synchronize(std::uint8_t stream) {
        for (const BlockId id : pending_[stream]) passed_.push_back({id, stream});
        pending_[stream].clear();
    }

    struct Request {
        std::int64_t bytes = 0, from_driver = 0;
        std::uint8_t stream = 0;
        bool small = false, captured = false;
    };
    struct FreeBlock {
        std::int64_t bytes = 0, address = 0;
        BlockId id = no_block;
        friend auto operator<=>(const FreeBlock&, const FreeBlock&) = default;
    };
    // Of one stream and size class.
    struct Pool {
        explicit Pool(std::pmr::memory_resource* memory) : free(memory), unmapped(memory) {}
        std::pmr::set<FreeBlock> free;
        std::pmr::set<std::pair<std::int64_t, BlockId>> unmapped;  // by address
    };
    struct Passed {
        BlockId id = no_block;
        std::uint8_t stream = 0;
    };

    // Of a request or a block.
    Pool& pool(const auto& of) {
        std::vector<Pool>& pools = of.captured ? captured_pools_ : pools_;
        const std::size_t i = 2 * as_index(of.stream) + (of.small ? 1 : 0);
        while (pools.size() <= i) pools.emplace_back(&nodes_);
        return pools[i];
    }
    MemoryBlock& at(BlockId id) { return blocks_[as_index(id)]; }

    [[nodiscard]] std::int64_t rounded(std::int64_t bytes) const;
    [[nodiscard]] Request request_of(std::int64_t bytes, std::uint8_t stream) const;
    [[nodiscard]] bool is_limited() const { return settings_.memory_fraction < 1; }
    [[nodiscard]] bool collects() const {
        return is_limited() && settings_.garbage_collection_threshold > 0;
    }
    [[nodiscard]] double allowed() const { return settings_.memory_fraction * real(capacity_); }
    [[nodiscard]] std::int64_t page(bool small) const {
        return small ? small_segment : settings_.large_segment;
    }

    BlockId& block_of(const AllocatorEvent& event, bool lives);
    BlockId add(MemoryBlock block);
    BlockId add_segment(const Request& request, std::int64_t address, std::int64_t bytes);
    void erase(BlockId id);
    void insert_free(BlockId id);
    void erase_free(BlockId id);
    void reserve(std::int64_t bytes);

    BlockId cached(const Request& request);
    BlockId from_driver_with_retries(const Request& request);
    BlockId from_driver(const Request& request);
    BlockId planned(std::int64_t bytes);
    void use(BlockId id, const Request& request);
    [[nodiscard]] bool should_split(const MemoryBlock& block, const Request& request) const;

    void make_free(BlockId id);
    void merge(BlockId into, BlockId other);
    BlockId cut(BlockId id, std::int64_t bytes);
    void free_what_passed();
    void pass_all_streams();

    BlockId expanded(const Request& request);
    BlockId room_for(const Request& request);
    bool map(BlockId id, std::int64_t bytes);
    void unmap(BlockId id);
    void release(BlockId id);
    bool release_large_enough(const Request& request);
    void release_all();
    void collect_garbage();

    AllocatorSettings settings_;
    std::int64_t capacity_ = 0;
    Driver driver_ = Driver::waits;
    std::pmr::unsynchronized_pool_resource nodes_;
    std::vector<MemoryBlock> blocks_;
    std::vector<BlockId> tensors_;  // blocks of those that live, by id
    std::vector<BlockId> unused_ids_;
    std::vector<Pool> pools_, captured_pools_;
    bool captured_ = false;
    std::array<std::int64_t, 2> searches_{};  // of large and small pools
    std::array<std::vector<BlockId>, most_streams> pending_;
    std::vector<Passed> passed_;
    std::int64_t next_address_ = 0;
    AllocatorLevel level_;
    std::int64_t most_reserved_ = 0;
    std::size_t retries_ = 0;
};

std::int64_t CachingAllocator::rounded(std::int64_t bytes) const {
    if (bytes < smallest_block) return smallest_block;
    const auto value = static_cast<std::uint64_t>(bytes);
    const int interval = std::clamp(as_int(std::bit_width(value)) - 21, 0, 15);
    const std::int64_t divisions = settings_.roundup_divisions[as_index(interval)];
    if (divisions <= 1 || bytes <= smallest_block * divisions)
        return up_to_multiple(bytes, smallest_block);
    return up_to_multiple(bytes, static_cast<std::int64_t>(std::bit_floor(value)) / divisions);
}

CachingAllocator::Request CachingAllocator::request_of(std::int64_t bytes,
                                                       std::uint8_t stream) const {
    const std::int64_t size = rounded(bytes);
    const bool small = size <= small_limit;
    return {size,
            small               ? small_segment
            : size < exact_from ? settings_.large_segment
                                : up_to_multiple(size, small_segment),
            stream, small, captured_};
}

BlockId CachingAllocator::add(MemoryBlock block) {
    if (unused_ids_.empty()) {
        blocks_.push_back(block);
        return static_cast<BlockId>(blocks_.size() - 1);
    }
    const BlockId id = unused_ids_.back();
    unused_ids_.pop_back();
    at(id) = block;
    return id;
}

void CachingAllocator::erase(BlockId id) {
    at(id) = {};
    unused_ids_.push_back(id);
}

void CachingAllocator::insert_free(BlockId id) {
    MemoryBlock& block = at(id);
    block.since = searches_[block.small ? 1 : 0];
    pool(block).free.insert({block.bytes, block.address, id});
}

void CachingAllocator::erase_free(BlockId id) {
    const MemoryBlock& block = at(id);
    pool(block).free.erase({block.bytes, block.address, id});
}

void CachingAllocator::reserve(std::int64_t bytes) {
    level_.reserved += bytes;
    most_reserved_ = std::max(most_reserved_, level_.reserved);
}

// The smallest free block that is large enough, at the lowest address. The last block of an
// expandable segment counts with the address space behind it, so that it is the last choice.
BlockId CachingAllocator::cached(const Request& request) {
    if (collects()) ++searches_[request.small ? 1 : 0];
    auto& free = pool(request).free;
    auto found = free.lower_bound({request.bytes, 0, no_block});
    if (found == free.end()) return no_block;
    const auto room = [&](const FreeBlock& one) {
        const BlockId after = at(one.id).after;
        return one.bytes + (after != no_block && !at(after).mapped ? at(after).bytes : 0);
    };
    if (at(found->id).expandable)
        for (auto next = std::next(found); next != free.end() && room(*next) < room(*found);)
            found = next++;
    if (request.bytes < settings_.max_split_size && found->bytes >= settings_.max_split_size)
        return no_block;
    if (request.bytes >= settings_.max_split_size &&
        found->bytes >= request.bytes + settings_.max_non_split_rounding)
        return no_block;
    const BlockId id = found->id;
    free.erase(found);
    return id;
}

BlockId CachingAllocator::from_driver_with_retries(const Request& request) {
    if (collects()) collect_garbage();
    if (driver_ == Driver::waits) pass_all_streams();
    BlockId found = from_driver(request);
    if (found == no_block && release_large_enough(request)) found = from_driver(request);
    if (found != no_block) return found;
    release_all();
    ++retries_;
    return from_driver(request);
}

BlockId CachingAllocator::planned(std::int64_t bytes) {
    if (capacity_ > 0 && level_.reserved + bytes > capacity_) return no_block;
    reserve(bytes);
    level_.allocated += bytes;
    MemoryBlock block;
    block.bytes = bytes;
    return add(block);
}

BlockId CachingAllocator::from_driver(const Request& request) {
    const std::int64_t after = level_.reserved + request.from_driver;
    if (is_limited() && real(after) > allowed()) return no_block;
    if (settings_.expandable_segments) return expanded(request);
    if (capacity_ > 0 && after > capacity_) return no_block;
    reserve(request.from_driver);
    return add_segment(request, next_address_, request.from_driver);
}

BlockId CachingAllocator::add_segment(const Request& request, std::int64_t address,
                                      std::int64_t bytes) {
    MemoryBlock block;
    block.address = address;
    block.bytes = bytes;
    block.stream = request.stream;
    block.small = request.small;
    block.captured = request.captured;
    block.expandable = settings_.expandable_segments;
    block.mapped = !block.expandable;
    next_address_ = address + bytes;
    return add(block);
}

bool CachingAllocator::should_split(const MemoryBlock& block, const Request& request) const {
    const std::int64_t left = block.bytes - request.bytes;
    if (block.small || settings_.expandable_segments) return left >= smallest_block;
    return request.bytes < settings_.max_split_size && left > small_limit;
}

// What is behind the first `bytes` becomes a block of its own.
BlockId CachingAllocator::cut(BlockId id, std::int64_t bytes) {
    MemoryBlock rest = at(id);
    rest.address += bytes;
    rest.bytes -= bytes;
    rest.before = id;
    const BlockId behind = add(rest);
    if (rest.after != no_block) at(rest.after).before = behind;
    at(id).bytes = bytes;
    at(id).after = behind;
    return behind;
}

// The tensor gets the block's beginning; the rest stays free if it is worth splitting.
void CachingAllocator::use(BlockId id, const Request& request) {
    if (should_split(at(id), request)) insert_free(cut(id, request.bytes));
    at(id).used = true;
    level_.allocated += at(id).bytes;
}

void CachingAllocator::make_free(BlockId id) {
    merge(id, at(id).before);
    merge(id, at(id).after);
    insert_free(id);
}

// Takes a free neighbour in, if it has memory exactly if this block has.
void CachingAllocator::merge(BlockId into, BlockId other) {
    if (other == no_block || !at(other).is_free() || at(other).mapped != at(into).mapped) return;
    MemoryBlock& block = at(into);
    const MemoryBlock gone = at(other);
    if (gone.mapped)
        erase_free(other);
    else
        pool(gone).unmapped.erase({gone.address, other});
    if (block.before == other) {
        block.address = gone.address;
        block.before = gone.before;
        if (block.before != no_block) at(block.before).after = into;
    } else {
        block.after = gone.after;
        if (block.after != no_block) at(block.after).before = into;
    }
    block.bytes += gone.bytes;
    erase(other);
}

void CachingAllocator::pass_all_streams() {
    for (std::uint8_t stream = 0; stream < most_streams; ++stream) synchronize(stream);
    free_what_passed();
}

void CachingAllocator::free_what_passed() {
    for (const Passed& one : passed_) {
        MemoryBlock& block = at(one.id);
        block.waits_for &= ~(std::uint32_t{1} << one.stream);
        if (block.waits_for == 0) make_free(one.id);
    }
    passed_.clear();
}

// The first free or unmapped blocks of an expandable segment that have enough address space in a
// row.
BlockId CachingAllocator::room_for(const Request& request) {
    const auto has_room = [&](BlockId id) {
        std::int64_t bytes = 0;
        for (; bytes < request.bytes && id != no_block && at(id).is_free(); id = at(id).after)
            bytes += at(id).bytes;
        return bytes >= request.bytes;
    };
    for (const auto& [address, id] : pool(request).unmapped) {
        const BlockId before = at(id).before;
        const BlockId from = before != no_block && at(before).is_free() ? before : id;
        if (has_room(from)) return from;
    }
    const std::int64_t size = page(request.small);
    const BlockId id = add_segment(request, up_to_multiple(next_address_, size),
                                   up_to_multiple(address_space, size));
    pool(request).unmapped.insert({at(id).address, id});
    return id;
}

BlockId CachingAllocator::expanded(const Request& request) {
    BlockId id = room_for(request);
    if (!at(id).mapped && !map(id, std::min(at(id).bytes, request.bytes))) return no_block;
    while (at(id).bytes < request.bytes) {
        const BlockId next = at(id).after;
        if (!map(next, std::min(request.bytes - at(id).bytes, at(next).bytes))) return no_block;
        id = next;
    }
    erase_free(id);
    return id;
}

// Gives whole pages of memory to the beginning of an unmapped block, and merges it with its free
// neighbours.
bool CachingAllocator::map(BlockId id, std::int64_t bytes) {
    const std::int64_t taken = up_to_multiple(bytes, page(at(id).small));
    if (capacity_ > 0 && level_.reserved + taken > capacity_) return false;
    pool(at(id)).unmapped.erase({at(id).address, id});
    if (taken < at(id).bytes) {
        const BlockId rest = cut(id, taken);
        pool(at(id)).unmapped.insert({at(rest).address, rest});
    }
    at(id).mapped = true;
    make_free(id);
    reserve(taken);
    return true;
}

// Gives the whole pages of a free block back; its ends stay.
void CachingAllocator::unmap(BlockId id) {
    const MemoryBlock whole = at(id);
    const std::int64_t size = page(whole.small), end = whole.address + whole.bytes,
                       first = up_to_multiple(whole.address, size), last = end / size * size;
    if (first >= last) return;
    erase_free(id);
    if (first > whole.address) {
        const BlockId before = id;
        id = cut(before, first - whole.address);
        insert_free(before);
    }
    if (end > last) insert_free(cut(id, last - first));
    at(id).mapped = false;
    merge(id, at(id).before);
    merge(id, at(id).after);
    reserve(first - last);
    if (at(id).is_split())
        pool(at(id)).unmapped.insert({at(id).address, id});
    else
        erase(id);
}

void CachingAllocator::release(BlockId id) {
    erase_free(id);
    reserve(-at(id).bytes);
    erase(id);
}

// Where large blocks are not split: gives back one that is large enough, or several.
bool CachingAllocator::release_large_enough(const Request& request) {
    if (settings_.max_split_size == AllocatorSettings{}.max_split_size) return false;
    auto& free = pool(request).free;
    const std::int64_t wanted = std::max(request.bytes, settings_.max_split_size);
    const auto enough = free.lower_bound({wanted, 0, no_block});
    if (enough != free.end() && !at(enough->id).expandable) {
        release(enough->id);
        return true;
    }
    std::int64_t released = 0;
    for (auto largest = enough; released < wanted && largest != free.begin();) {
        const FreeBlock one = *--largest;
        if (one.bytes < settings_.max_split_size) break;
        if (at(one.id).expandable) continue;
        released += one.bytes;
        ++largest;
        release(one.id);
    }
    return released >= wanted;
}

void CachingAllocator::release_all() {
    pass_all_streams();
    std::vector<BlockId> expandable;
    for (Pool& one : pools_)
        for (auto at_block = one.free.begin(); at_block != one.free.end();) {
            const BlockId id = (at_block++)->id;
            if (at(id).expandable)
                expandable.push_back(id);
            else if (!at(id).is_split())
                release(id);
        }
    for (const BlockId id : expandable) unmap(id);
}

// Gives back whole segments that were not used for longer than the mean of them, until the share
// of the threshold is left.
void CachingAllocator::collect_garbage() {
    const double most = settings_.garbage_collection_threshold * allowed();
    double to_free = real(level_.reserved) - most;
    for (bool freed = true; freed && to_free > 0;) {
        freed = false;
        std::vector<std::pair<std::int64_t, BlockId>> whole;  // age
        double ages = 0;
        for (std::size_t i = 0; i < pools_.size(); i += 2)
            for (const FreeBlock& one : pools_[i].free)
                if (!at(one.id).is_split() && !at(one.id).expandable) {
                    whole.emplace_back(searches_[0] - at(one.id).since, one.id);
                    ages += real(whole.back().first);
                }
        const double threshold = ages / real(std::max<std::size_t>(whole.size(), 1));
        for (const auto& [age, id] : whole)
            if (real(age) >= threshold) {
                to_free -= real(at(id).bytes);
                release(id);
                freed = true;
            }
    }
}

std::vector<AllocatorSegment> CachingAllocator::segments() const {
    std::vector<std::pair<std::int64_t, BlockId>> first;
    for (std::size_t i = 0; i < blocks_.size(); ++i)
        if (blocks_[i].bytes > 0 && blocks_[i].before == no_block)
            first.emplace_back(blocks_[i].address, static_cast<BlockId>(i));
    std::ranges::sort(first);
    std::vector<AllocatorSegment> all;
    for (const auto& [address, head] : first) {
        bool begun = false;
        for (BlockId id = head; id != no_block; id = blocks_[as_index(id)].after) {
            const MemoryBlock& block = blocks_[as_index(id)];
            if (block.mapped) {
                if (!begun) all.push_back({0, block.stream, block.small, {}});
                all.back().bytes += block.bytes;
                all.back().pieces.push_back({block.bytes, !block.is_free()});
            }
            begun = block.mapped;
        }
    }
    return all;
}

// False: there is no memory for it.
bool CachingAllocator::take(const AllocatorEvent& event) {
    switch (event.kind) {
        case AllocatorEvent::Kind::allocate: {
            BlockId& id = block_of(event, false);
            id = event.bytes > 0 ? allocate(event.bytes, event.stream) : empty_tensor;
            return id != no_block;
        }
        case AllocatorEvent::Kind::free: {
            BlockId& id = block_of(event, true);
            if (id != empty_tensor) free(id);
            id = no_block;
            break;
        }
        case AllocatorEvent::Kind::record_stream:
            if (const BlockId id = block_of(event, true); id != empty_tensor)
                record_stream(id, event.stream);
            break;
        case AllocatorEvent::Kind::synchronize: synchronize(event.stream); break;
        case AllocatorEvent::Kind::capture: capture(); break;
    }
    return true;
}

BlockId& CachingAllocator::block_of(const AllocatorEvent& event, bool lives) {
    if (event.id >= tensors_.size()) tensors_.resize(event.id + 1, no_block);
    if ((tensors_[event.id] != no_block) != lives || event.stream >= most_streams)
        throw std::logic_error("replay: a tensor is used that does not live, or made twice");
    return tensors_[event.id];
}

}  // namespace

AllocatorReplay replay(std::span<const AllocatorEvent> events, const AllocatorSettings& settings,
                       std::int64_t capacity, Levels levels, Driver driver) {
    CachingAllocator allocator(settings, capacity, driver);
    AllocatorReplay result;
    for (std::size_t i = 0; i < events.size(); ++i) {
        if (!allocator.take(events[i])) result.failed = i;
        const AllocatorLevel level = allocator.level();
        if (level.allocated > result.peak.allocated) {
            result.peak.allocated = level.allocated;
            result.fullest = i;
            result.at_fullest = level;
        }
        if (levels == Levels::all) result.levels.push_back(level);
        if (result.failed) break;
    }
    result.peak.reserved = allocator.most_reserved();
    result.last = allocator.level();
    result.retries = allocator.retries();
    result.segments = allocator.segments();
    return result;
}

}  // namespace stepcast
