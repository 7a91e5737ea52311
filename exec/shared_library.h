// Libraries that are looked for while the program runs: the CUDA plugin and the driver's.
#pragma once

#include <string>

namespace stepcast {

// Stays open until the program ends: what it made may outlive whoever opened it.
class SharedLibrary {
public:
    // A name the loader searches for, or a path. When it cannot be opened, error() says why.
    explicit SharedLibrary(const std::string& name);

    [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
    [[nodiscard]] const std::string& error() const { return error_; }
    // Null when the library has no such symbol.
    template <typename Function>
    [[nodiscard]] Function* find(const char* symbol) const {
        return reinterpret_cast<Function*>(address(symbol));
    }

private:
    [[nodiscard]] void* address(const char* symbol) const;

    void* handle_ = nullptr;
    std::string error_;
};

}  // namespace stepcast
