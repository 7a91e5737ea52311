// Files appear whole or not at all, and only regular files are read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// A file that has no name until it is whole: a program that is stopped leaves nothing behind. Where the file system knows no
// unnamed files it is `PATH.part-PID`, removed unless committed. All calls throw ConfigError with the path and the reason.
class WholeFile {
public:
    explicit WholeFile(const std::string& path);  // makes missing folders; refuses what is no regular file
    WholeFile(WholeFile&& other) noexcept;
    WholeFile& operator=(WholeFile&&) = delete;
    ~WholeFile();

    void write(std::string_view text);
    void commit();  // takes the place of what was there; a link is followed

private:
    [[noreturn]] void fail(int error) const;
    [[noreturn]] void fail(const std::string& why) const;
    void open_named(int error);

    std::string path_, target_;
    std::string part_;  // the name it has before it is whole; "" = none
    int file_ = -1;
};

struct PlannedFile {
    std::string path, text;
};

// Writes every text, then names all.
void write_whole(const std::vector<PlannedFile>& files);

// Refuses, before long work, a place where no file of a few kilobytes can be written.
void require_writable(const std::string& path);

// Refuses an output in the place of something that is read: neither would be left.
void keep_apart(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs);

// Refuses what has no end or keeps a reader waiting (a pipe, a device), folders, what is not there and what is larger than `most`
// bytes; `expected` says what should be there: "a CSV file".
// "-" and /dev/stdin are standard input, which is read once and kept.
bool is_standard_input(const std::string& path);
inline constexpr std::size_t largest_text = std::size_t{16} << 20, any_size = ~std::size_t{0};
void require_readable(const std::string& path, std::string_view expected, std::size_t most = any_size);
std::string read_text(const std::string& path, std::string_view expected, std::size_t most = largest_text);

// The same text as UTF-8 with bare line ends, wherever it was written: no byte order mark, UTF-16 decoded, \r\n as \n.
std::string plain_utf8(const std::string& text);

}  // namespace stepcast
