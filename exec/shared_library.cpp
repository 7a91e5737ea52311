#include "exec/shared_library.h"

#include <dlfcn.h>

namespace stepcast {

SharedLibrary::SharedLibrary(const std::string& name)
    : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ != nullptr) return;
    const char* text = dlerror();
    error_ = text != nullptr ? text : name + ": cannot be opened";
}

void* SharedLibrary::address(const char* symbol) const {
    return handle_ != nullptr ? dlsym(handle_, symbol) : nullptr;
}

}  // namespace stepcast
