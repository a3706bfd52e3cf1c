// CUDA's words for a C++ compiler: the same kernels on a CPU, one thread after another.
//
// A kernel without barriers runs its threads in plain loops. One with barriers (FIBERS) has every
// thread of a block as a fiber; a barrier switches to the next. A lane is a warp of its own.
#pragma once
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define UNROLL

struct alignas(16) double2 {
    double x, y;
};
static inline double2 make_double2(double x, double y) { return {x, y}; }

namespace host {
struct Place {
    unsigned x = 0, y = 0;
};
struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool is_done = true;
};
static Place thread_at, block_at, block_size;
static std::vector<double> shared;
static std::vector<Fiber> fibers;
static ucontext_t home;
static int running;
static std::function<void()> body;
constexpr size_t STACK = 1 << 18;

static void pause() {
    int self = running;
    Place at = thread_at;
    swapcontext(&fibers[self].context, &home);
    running = self;
    thread_at = at;
}
static void enter() {
    body();
    fibers[running].is_done = true;
    swapcontext(&fibers[running].context, &home);
}
static void start(Fiber& fiber) {
    fiber.stack.resize(STACK);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = &home;
    makecontext(&fiber.context, enter, 0);
    fiber.is_done = false;
}
static void play_block(int threads) {
    if (int(fibers.size()) < threads) fibers.resize(threads);
    for (int t = 0; t < threads; t++) start(fibers[t]);
    for (int left = threads; left > 0;) {
        left = 0;
        for (int t = 0; t < threads; t++) {
            if (fibers[t].is_done) continue;
            running = t;
            thread_at.x = t;
            swapcontext(&home, &fibers[t].context);
            left += !fibers[t].is_done;
        }
    }
}
template <class... A, size_t... I>
void call(void (*kernel)(A...), void** given, std::index_sequence<I...>) {
    kernel(*static_cast<A*>(given[I])...);
}
template <class... A>
void launch(void (*kernel)(A...), bool has_barriers, int wide, int high, int threads, int bytes,
            void** given) {
    shared.assign(bytes / 8 + 2, 0.0);
    block_size.x = threads;
    body = [=] { call(kernel, given, std::index_sequence_for<A...>{}); };
    for (block_at.y = 0; int(block_at.y) < high; block_at.y++) {
        for (block_at.x = 0; int(block_at.x) < wide; block_at.x++) {
            if (has_barriers) {
                play_block(threads);
            } else {
                for (int t = 0; t < threads; t++) {
                    thread_at.x = t;
                    body();
                }
            }
        }
    }
}
}  // namespace host

#define threadIdx host::thread_at
#define blockIdx host::block_at
#define blockDim host::block_size
#define SHARED(name) double* name = host::shared.data()
#define __syncthreads() host::pause()
#define __syncwarp() host::pause()
#define __ldg(at) (*(at))
static inline int __ffs(unsigned bits) { return __builtin_ffs(int(bits)); }
static inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
static inline unsigned __activemask() { return 1u << (threadIdx.x & 31); }
static inline unsigned __match_any_sync(unsigned mask, long long) { return mask; }
static inline unsigned __reduce_add_sync(unsigned, unsigned value) { return value; }
template <class T>
static inline T atomicAdd(T* at, T value) {
    T before = *at;
    *at += value;
    return before;
}

#define KERNEL_(has_barriers, name, given)                                                       \
    static void name given;                                                                      \
    extern "C" void launch_##name(int wide, int high, int threads, int bytes, void** values) {   \
        host::launch(name, has_barriers, wide, high, threads, bytes, values);                    \
    }                                                                                            \
    static void name given
#define KERNEL(name, threads, blocks, given) KERNEL_(false, name, given)
#define KERNEL_WITH_BARRIERS(name, threads, blocks, given) KERNEL_(true, name, given)
