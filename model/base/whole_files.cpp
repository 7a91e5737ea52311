#include "model/base/whole_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <utility>

#include <boost/locale/utf.hpp>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/terminal_codes.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

// Follows a link. Refuses anything that exists but is not a regular file, because the new file
// would replace it.
std::string target_of(const std::string& path) {
    std::error_code none;
    const fs::file_status status = fs::status(path, none);
    if (fs::is_directory(status)) throw ConfigError(path + ": cannot be written (is a folder)");
    if (fs::exists(status) && !fs::is_regular_file(status))
        throw ConfigError(path + ": cannot be written (is no regular file)");
    if (!fs::is_symlink(fs::symlink_status(path, none))) return path;
    const fs::path target = fs::weakly_canonical(path, none);
    return none ? path : target.string();
}

// Blocks signals: one that arrives between naming a file and moving it into place would leave both
// names.
class SignalsWait {
public:
    SignalsWait() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before_);
    }
    ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsWait(const SignalsWait&) = delete;
    SignalsWait& operator=(const SignalsWait&) = delete;

private:
    sigset_t before_{};
};

}  // namespace

WholeFile::WholeFile(const std::string& path) : path_(path), target_(target_of(path)) {
    std::error_code error;
    const fs::path folder = fs::path(target_).parent_path();
    if (!folder.empty()) fs::create_directories(folder, error);
    if (error) fail(error.message());
    constexpr mode_t permissions = 0666;  // the user's umask is subtracted
    file_ =
        open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, permissions);
    if (file_ < 0) open_named(errno);
}

void WholeFile::open_named(int error) {
    if (error != EOPNOTSUPP && error != EISDIR && error != ENOENT && error != EINVAL) fail(error);
    part_ = target_ + ".part-" + std::to_string(getpid());
    file_ = open(part_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (file_ < 0) {
        const int why = errno;
        part_.clear();
        fail(why);
    }
}

WholeFile::WholeFile(WholeFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      part_(std::exchange(other.part_, "")),
      file_(std::exchange(other.file_, -1)) {}

WholeFile::~WholeFile() {
    if (file_ >= 0) close(file_);
    if (!part_.empty()) unlink(part_.c_str());
}

void WholeFile::fail(const std::string& why) const {
    throw ConfigError(path_ + ": cannot be written (" + why + ")");
}
void WholeFile::fail(int error) const { fail(std::string(std::strerror(error))); }

void WholeFile::write(std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(file_, text.data(), text.size());
        if (count < 0 && errno != EINTR) fail(errno);
        if (count > 0) text.remove_prefix(as_index(count));
    }
}

void WholeFile::commit() {
    const SignalsWait until_named;
    if (part_.empty()) {
        const std::string unnamed = "/proc/self/fd/" + std::to_string(file_);
        const auto name_it = [&](const std::string& name) {
            return linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) ==
                   0;
        };
        if (!name_it(target_)) {
            if (errno != EEXIST) fail(errno);
            const std::string part = target_ + ".part-" + std::to_string(getpid());
            unlink(part.c_str());
            if (!name_it(part)) fail(errno);
            part_ = part;
        }
    }
    if (close(std::exchange(file_, -1)) != 0) fail(errno);
    if (part_.empty()) return;
    if (std::rename(part_.c_str(), target_.c_str()) != 0) fail(errno);
    part_.clear();
}

void write_whole(const std::vector<PlannedFile>& files) {
    std::vector<WholeFile> open;
    for (const PlannedFile& file : files) open.emplace_back(file.path).write(file.text);
    for (WholeFile& file : open) file.commit();
}

void require_writable(const std::string& path) { WholeFile(path).write(std::string(8192, '\n')); }

void keep_apart(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs) {
    std::error_code none;
    for (const std::string& output : outputs)
        for (const std::string& input : inputs)
            if (fs::equivalent(output, input, none))
                throw ConfigError(output + ": is read as " + input +
                                  "; expected another file to write");
}

void require_readable(const std::string& path, std::string_view expected, std::size_t most) {
    struct stat found {};
    const auto refuse = [&](const std::string& why) {
        throw ConfigError(path + ": cannot be read (" + why + "); expected " +
                          std::string(expected));
    };
    if (stat(path.c_str(), &found) != 0) refuse(std::strerror(errno));
    if (S_ISDIR(found.st_mode)) refuse("is a folder");
    if (!S_ISREG(found.st_mode)) refuse("is no regular file");
    if (as_index(found.st_size) > most)
        refuse(std::to_string(found.st_size) + " bytes, at most " + std::to_string(most) +
               " are read");
    if (access(path.c_str(), R_OK) != 0) refuse(std::strerror(errno));
}

bool is_standard_input(const std::string& path) { return path == "-" || path == "/dev/stdin"; }

namespace {

std::string read_standard_input(const std::string& path) {
    std::string text;
    for (char c = 0; std::cin.get(c); text += c)
        if (text.size() == largest_text)
            throw ConfigError(path + ": more than " + std::to_string(largest_text) +
                              " bytes of standard input");
    return text;
}

std::string decoded_utf16(std::string_view text, bool little) {
    using namespace boost::locale::utf;
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    std::u16string units;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2)
        units +=
            static_cast<char16_t>(little ? byte(i) | byte(i + 1) << 8 : byte(i) << 8 | byte(i + 1));
    constexpr code_point no_character = 0xfffd;
    std::string decoded;
    for (auto at = units.cbegin(); at != units.cend();) {
        const code_point c = utf_traits<char16_t>::decode(at, units.cend());
        utf_traits<char>::encode(is_valid_codepoint(c) ? c : no_character,
                                 std::back_inserter(decoded));
    }
    return decoded;
}

}  // namespace

std::string read_text(const std::string& path, std::string_view expected, std::size_t most) {
    if (is_standard_input(path)) {
        static const std::string typed = read_standard_input(path);
        return typed;
    }
    require_readable(path, expected, most);
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::string plain_utf8(const std::string& text) {
    std::string plain = text;
    if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
        plain = decoded_utf16(std::string_view(text).substr(2), text[0] == '\xff');
    if (text.starts_with("\xef\xbb\xbf")) plain.erase(0, 3);
    std::size_t to = 0;
    for (const std::size_t i : indices_of(plain))
        if (plain[i] != '\r' || i + 1 == plain.size() || plain[i + 1] != '\n')
            plain[to++] = plain[i];
    plain.resize(drop_terminal_codes(std::span(plain).first(to)));
    return plain;
}

}  // namespace stepcast
