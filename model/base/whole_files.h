// Writes files whole or not at all, and reads only regular files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// A file that gets its name only when it is complete, so that a stopped program leaves nothing
// behind. On file systems without unnamed files it is `PATH.part-PID`, removed unless committed.
// All calls throw ConfigError with the path and the reason.
class WholeFile {
public:
    // makes missing folders; refuses a path that is not a regular file
    explicit WholeFile(const std::string& path);
    WholeFile(WholeFile&& other) noexcept;
    WholeFile& operator=(WholeFile&&) = delete;
    ~WholeFile();

    void write(std::string_view text);
    void commit();  // replaces the old file; follows a link

private:
    [[noreturn]] void fail(int error) const;
    [[noreturn]] void fail(const std::string& why) const;
    void open_named(int error);

    std::string path_, target_;
    std::string part_;  // temporary name until commit; "" = unnamed
    int file_ = -1;
};

struct PlannedFile {
    std::string path, text;
};

// Writes all texts before it gives any file its name.
void write_whole(const std::vector<PlannedFile>& files);

// Refuses, before long work, a place where a file of a few kilobytes cannot be written.
void require_writable(const std::string& path);

// Refuses an output that would overwrite an input, because both would be lost.
void keep_apart(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs);

// Refuse a path that has no end or blocks the reader (a pipe, a device), a folder, a missing file,
// and a file above `most` bytes. `expected` tells the user what should be there: "a CSV file". "-"
// and /dev/stdin are standard input, which is read once and kept.
bool is_standard_input(const std::string& path);
inline constexpr std::size_t largest_text = std::size_t{16} << 20, any_size = ~std::size_t{0};
void require_readable(const std::string& path, std::string_view expected,
                      std::size_t most = any_size);
std::string read_text(const std::string& path, std::string_view expected,
                      std::size_t most = largest_text);

// The text as UTF-8 with \n line ends, whatever wrote it: removes a byte order mark and codes of
// a terminal, decodes UTF-16, replaces \r\n.
std::string plain_utf8(const std::string& text);

}  // namespace stepcast
