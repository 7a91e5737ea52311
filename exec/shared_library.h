// Libraries that the program looks for while it runs: the CUDA plugin and the driver's.
#pragma once

#include <string>

namespace stepcast {

// The library stays open until the program ends, because what it made may outlive this object.
class SharedLibrary {
public:
    // `name`: one that the loader searches for, or a path. If the library cannot be opened, error()
    // says why.
    explicit SharedLibrary(const std::string& name);

    [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
    [[nodiscard]] const std::string& error() const { return error_; }
    // For headers of others that look symbols up themselves; null if it could not be opened.
    [[nodiscard]] void* handle() const { return handle_; }
    // Null if the library has no such symbol.
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
