// Reads the bytes of a regular file, plain or gzip (recognised by its first two bytes), piece by
// piece. Internal to calibrate/profiles.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

struct gzFile_s;

namespace stepcast {

class ByteStream {
public:
    // Throws ConfigError for a file that cannot be opened, and for pipes and devices, which may
    // never end.
    explicit ByteStream(const std::string& path);

    // Reads up to `size` bytes into `to`; 0 at the end. An incomplete or damaged gzip stream ends
    // early; torn() tells why.
    std::size_t read(char* to, std::size_t size);
    [[nodiscard]] const std::string& torn() const { return torn_; }  // "", or what is damaged

private:
    std::unique_ptr<gzFile_s, int (*)(gzFile_s*)> file_{nullptr, nullptr};
    std::string torn_;
};

std::string beginning_of(const std::string& path, std::size_t bytes);

}  // namespace stepcast
