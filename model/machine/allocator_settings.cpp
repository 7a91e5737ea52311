// Keys, limits and messages as in PyTorch 2.15.0, c10/core/AllocatorConfig.h and the messages of
// libc10.so and libc10_cuda.so, which were run with each of these texts.
#include "model/machine/allocator_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "model/base/characters.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {
namespace {

// The text in pieces: words, and the signs , : [ ] by themselves. Spaces do not count.
std::vector<std::string> pieces_of(const std::string& text) {
    std::vector<std::string> pieces;
    bool in_word = false;
    for (const char c : text) {
        const bool sign = std::string_view(",:[]").find(c) != std::string_view::npos;
        if (sign || !in_word) {
            if (is_space(c)) continue;
            pieces.emplace_back(1, c);
            in_word = !sign;
        } else if (!is_space(c)) {
            pieces.back() += c;
        }
    }
    return pieces;
}

class SettingsReader {
public:
    explicit SettingsReader(const std::string& text) : text_(text), pieces_(pieces_of(text)) {}

    AllocatorSettings read() {
        while (at_ < pieces_.size()) {
            read_setting();
            if (at_ == pieces_.size()) break;
            if (pieces_[at_] != ",") refuse("expected ',' or the end");
            ++at_;
        }
        return settings_;
    }

private:
    [[noreturn]] void refuse(const std::string& why) const {
        throw ConfigError(fmt::format("\"{}\": PyTorch refuses it: {}", text_, why));
    }
    // the piece, or "" behind the last one
    [[nodiscard]] std::string_view peek(std::size_t ahead = 0) const {
        return at_ + ahead < pieces_.size() ? std::string_view(pieces_[at_ + ahead]) : "";
    }
    const std::string& take() {
        if (at_ >= pieces_.size()) refuse("Index out of bounds in ConfigTokenizer");
        return pieces_[at_++];
    }
    void take_sign(std::string_view sign) {
        if (take() != sign) refuse(fmt::format("expected '{}'", sign));
    }
    double take_number() {
        const std::string& word = take();
        std::size_t read = 0;
        double value = 0;
        try {
            value = std::stod(word, &read);
        } catch (const std::exception&) {
            read = 0;
        }
        if (read != word.size()) refuse(fmt::format("expected a number, found '{}'", word));
        return value;
    }
    std::int64_t take_mebibytes(std::string_view key, const char* than, double least) {
        const double value = take_number();
        if (value < least)
            refuse(fmt::format("CachingAllocator option {} {} {:.0f}", key, than, least));
        return static_cast<std::int64_t>(value) * mebibyte;
    }
    bool take_bool() {
        const std::string& word = take();
        if (word != "True" && word != "False")
            refuse(fmt::format(
                "Expected 'True' or 'False' at index {} in ConfigTokenizer but got '{}'", at_ - 1,
                word));
        return word == "True";
    }
    int take_divisions(bool may_be_none) {
        const double value = take_number();
        const bool power = value >= 1 && value == static_cast<int>(value) &&
                           std::has_single_bit(static_cast<unsigned>(value));
        if (!power && !(may_be_none && value == 0))
            refuse(std::string("For roundups, the divisions has to be power of 2") +
                   (may_be_none ? " or 0 to disable roundup" : ""));
        return static_cast<int>(value);
    }
    // "[256:1,512:2,>:8]": of requests up to that many MiB, and of larger ones
    void take_interval(std::size_t& last, bool& first) {
        auto& steps = settings_.roundup_divisions;
        if (peek() == ">") {
            ++at_;
            take_sign(":");
            const int divisions = take_divisions(true);
            std::fill(steps.begin() + static_cast<std::ptrdiff_t>(last) + 1, steps.end(),
                      divisions);
            return;
        }
        const double boundary = take_number();
        take_sign(":");
        const int divisions = take_divisions(true);
        if (boundary < 1 || boundary != static_cast<std::int64_t>(boundary) ||
            !std::has_single_bit(static_cast<std::uint64_t>(boundary)))
            refuse("For roundups, the intervals have to be power of 2");
        const auto index = std::min<std::size_t>(
            as_index(std::countr_zero(static_cast<std::uint64_t>(boundary))), steps.size() - 1);
        if (first) std::fill_n(steps.begin(), index, divisions);
        first = false;
        steps[index] = divisions;
        last = index;
    }
    void take_roundup() {
        if (peek() != "[") {
            settings_.roundup_divisions.fill(take_divisions(false));
            return;
        }
        ++at_;
        std::size_t last = 0;
        for (bool first = true; peek() != "]";) {
            if (peek().empty())
                refuse("Expected closing bracket ']' in ConfigTokenizer but reached end of config");
            take_interval(last, first);
            if (peek() == ",") ++at_;
        }
        ++at_;
    }
    double take_share(bool open, const char* message) {
        const double value = take_number();
        if (value < 0 || value > 1 || (open && (value == 0 || value == 1))) refuse(message);
        return value;
    }
    void take_backend() {
        const std::string& name = take();
        if (name == "cudaMallocAsync")
            throw ConfigError(
                fmt::format("\"{}\": the backend cudaMallocAsync is not modelled; expected native "
                            "(PyTorch's own cache)",
                            text_));
        if (name != "native")
            refuse("Unknown allocator backend, options are native and cudaMallocAsync");
    }
    // a value or a list that changes nothing about a device's memory
    void skip_value() {
        if (take() != "[") return;
        while (take() != "]") continue;
    }

    void read_setting() {
        AllocatorSettings& s = settings_;
        const std::map<std::string, std::function<void()>, std::less<>> keys{
            {"backend", [&] { take_backend(); }},
            {"expandable_segments", [&] { s.expandable_segments = take_bool(); }},
            {"max_split_size_mb",
             [&] {
                 s.max_split_size =
                     take_mebibytes("max_split_size_mb",
                                    "too small, must be >=", real(s.large_segment / mebibyte));
             }},
            {"max_non_split_rounding_mb",
             [&] {
                 s.max_non_split_rounding =
                     take_mebibytes("max_non_split_rounding_mb",
                                    "too small, must be >=", real(s.large_segment / mebibyte));
             }},
            {"large_segment_size_mb",
             [&] { s.large_segment = take_mebibytes("large_segment_size_mb", "must be >", 10); }},
            {"garbage_collection_threshold",
             [&] {
                 s.garbage_collection_threshold =
                     take_share(true, "garbage_collect_threshold is invalid, set it in (0.0, 1.0)");
             }},
            {"per_process_memory_fraction",
             [&] {
                 s.memory_fraction = take_share(
                     false, "per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
             }},
            {"roundup_power2_divisions", [&] { take_roundup(); }},
        };
        static constexpr std::string_view without_effect[] = {
            "pinned_use_cuda_host_register",     "pinned_use_hip_host_register",
            "pinned_num_register_threads",       "pinned_reserve_segment_size_mb",
            "pinned_use_background_threads",     "pinned_max_round_threshold_mb",
            "pinned_max_cached_size_mb",         "pinned_free_catch_all",
            "release_lock_on_cudamalloc",        "release_lock_on_hipmalloc",
            "graph_capture_record_stream_reuse", "throw_on_cudamalloc_oom",
            "expandable_segments_reserve",       "expandable_segments_reserve_by_class"};
        const std::string key = take();
        const auto found = value_in(keys, key);
        const bool ignored = contains(without_effect, key);
        if (!found && !ignored)
            refuse(fmt::format("Unrecognized key '{}' in CUDA allocator config.", key));
        take_sign(":");
        if (ignored)
            skip_value();
        else
            (*found)();
    }

    const std::string& text_;
    std::vector<std::string> pieces_;
    std::size_t at_ = 0;
    AllocatorSettings settings_;
};

}  // namespace

AllocatorSettings parse_allocator_settings(const std::string& text) {
    return SettingsReader(text).read();
}

}  // namespace stepcast
