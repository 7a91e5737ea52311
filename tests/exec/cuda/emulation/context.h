// Changing from one stack to another within a thread.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace emulation {

#if defined(__x86_64__)
// What a call must preserve goes onto the stack that is left, and comes from the one that is
// entered: some nanoseconds, where swapcontext() asks the kernel twice.
class Context {
public:
    void begin(char* stack, std::size_t size, void (*entry)()) {
        auto top = reinterpret_cast<std::uintptr_t>(stack + size) & ~std::uintptr_t{15};
        auto* words = reinterpret_cast<std::uintptr_t*>(top) - 2;
        *words = reinterpret_cast<std::uintptr_t>(entry);
        at_ = words - 6;  // six registers, of no value yet
    }
    void change_to(Context& other) { change(&at_, other.at_); }

private:
    [[gnu::naked, gnu::noinline]] static void change(void**, void*) {
        asm("pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
            "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
            "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret");
    }
    void* at_ = nullptr;
};
#else
class Context {
public:
    void begin(char* stack, std::size_t size, void (*entry)()) {
        getcontext(&context_);
        context_.uc_stack.ss_sp = stack;
        context_.uc_stack.ss_size = size;
        context_.uc_link = nullptr;
        makecontext(&context_, entry, 0);
    }
    void change_to(Context& other) { swapcontext(&context_, &other.context_); }

private:
    ucontext_t context_;
};
#endif

}  // namespace emulation
