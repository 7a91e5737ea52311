#include "import/profiles/byte_stream.h"

#include <zlib.h>

#include <cstring>
#include <filesystem>

#include "model/base/errors.h"
#include "model/base/numbers.h"

namespace stepcast {

ByteStream::ByteStream(const std::string& path) {
    std::error_code ignored;
    const auto kind = std::filesystem::status(path, ignored).type();
    if (kind == std::filesystem::file_type::not_found) throw ConfigError(path + ": no such file");
    if (kind != std::filesystem::file_type::regular)
        throw ConfigError(
            path + ": is no regular file; expected a file, since a pipe or device may never end");
    file_ = {gzopen(path.c_str(), "rb"), gzclose};
    if (file_ == nullptr)
        throw ConfigError(path + ": cannot be read (" + std::strerror(errno) + ")");
    gzbuffer(file_.get(), 1 << 18);
}

std::size_t ByteStream::read(char* to, std::size_t size) {
    const int got = gzread(file_.get(), to, static_cast<unsigned>(size));
    if (got == as_int(size)) return size;
    int code = Z_OK;
    const char* what = gzerror(file_.get(), &code);
    if (code == Z_BUF_ERROR)
        torn_ = "gzip stream breaks off";
    else if (code != Z_OK && code != Z_STREAM_END)
        torn_ = std::string("gzip stream is damaged: ") + what;
    return got > 0 ? as_index(got) : 0;
}

std::string beginning_of(const std::string& path, std::size_t bytes) {
    ByteStream stream(path);
    std::string text(bytes, '\0');
    text.resize(stream.read(text.data(), text.size()));
    return text;
}

}  // namespace stepcast
