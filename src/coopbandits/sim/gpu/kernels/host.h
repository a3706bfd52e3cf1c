// CUDA's words for a C++ compiler: the same kernels on a CPU, one thread after another.
//
// A kernel without barriers runs its threads in plain loops. One with barriers (FIBERS) has every
// thread of a block as a fiber; a barrier switches to the next. A lane is a warp of its own.
#pragma once
#include <ucontext.h>

#include <cstdlib>
#include <utility>

// All that kernels use of <cmath>, which takes longer to compile than most of them.
extern "C" {
double sqrt(double), log(double), exp(double), expm1(double), log1p(double), lgamma(double);
double floor(double), ceil(double), fabs(double), pow(double, double), copysign(double, double);
double fmax(double, double), fmin(double, double);
float sqrtf(float), logf(float), expf(float), expm1f(float), log1pf(float), lgammaf(float);
float floorf(float), ceilf(float), fabsf(float), powf(float, float), copysignf(float, float);
float fmaxf(float, float), fminf(float, float);
}
#define ALSO(name) static inline float name(float x) { return name##f(x); }
#define ALSO_OF_TWO(name) static inline float name(float x, float y) { return name##f(x, y); }
ALSO(sqrt) ALSO(log) ALSO(exp) ALSO(expm1) ALSO(log1p) ALSO(lgamma) ALSO(floor) ALSO(ceil) ALSO(fabs)
ALSO_OF_TWO(pow) ALSO_OF_TWO(copysign) ALSO_OF_TWO(fmax) ALSO_OF_TWO(fmin)
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrt(float x) { return 1.0f / sqrt(x); }

#define __device__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define UNROLL
#define UNROLL_BY(times)

struct alignas(16) double2 {
    double x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

namespace host {
struct Place {
    unsigned x = 0, y = 0;
};
struct Fiber {
    ucontext_t context;
    char* stack = nullptr;
    bool is_done = true;
};
constexpr size_t STACK = 1 << 18;
constexpr int MOST_THREADS = 1024;
static Place thread_at, block_at, block_size;
static double* shared;
static Fiber fibers[MOST_THREADS];
static ucontext_t home;
static int running;
static void (*body)(void**);
static void** given;

static void pause() {
    int self = running;
    Place at = thread_at;
    swapcontext(&fibers[self].context, &home);
    running = self;
    thread_at = at;
}
static void enter() {
    body(given);
    fibers[running].is_done = true;
    swapcontext(&fibers[running].context, &home);
}
static void start(Fiber& fiber) {
    if (fiber.stack == nullptr) fiber.stack = static_cast<char*>(malloc(STACK));
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack;
    fiber.context.uc_stack.ss_size = STACK;
    fiber.context.uc_link = &home;
    makecontext(&fiber.context, enter, 0);
    fiber.is_done = false;
}
static void play_block(int threads) {
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
static void launch(bool has_barriers, int wide, int high, int threads, int bytes) {
    shared = static_cast<double*>(calloc(bytes / 8 + 2, 8));
    block_size.x = threads;
    for (block_at.y = 0; int(block_at.y) < high; block_at.y++) {
        for (block_at.x = 0; int(block_at.x) < wide; block_at.x++) {
            if (has_barriers) {
                play_block(threads);
                continue;
            }
            for (int t = 0; t < threads; t++) {
                thread_at.x = t;
                body(given);
            }
        }
    }
    free(shared);
}
template <class... A, size_t... I>
void call(void (*kernel)(A...), void** values, std::index_sequence<I...>) {
    kernel(*static_cast<A*>(values[I])...);
}
template <class... A>
void call(void (*kernel)(A...), void** values) {
    call(kernel, values, std::index_sequence_for<A...>{});
}
}  // namespace host

#define threadIdx host::thread_at
#define blockIdx host::block_at
#define blockDim host::block_size
#define SHARED(name) double* name = host::shared
#define __syncthreads() host::pause()
#define __syncwarp() host::pause()
#define __ldg(at) (*(at))
#define __ldcs(at) (*(at))
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

#define KERNEL_(has_barriers, name, given_)                                                      \
    static void name given_;                                                                     \
    extern "C" void launch_##name(int wide, int high, int threads, int bytes, void** values) {   \
        host::body = [](void** its) { host::call(name, its); };                                  \
        host::given = values;                                                                    \
        host::launch(has_barriers, wide, high, threads, bytes);                                  \
    }                                                                                            \
    static void name given_
#define KERNEL(name, threads, blocks, given) KERNEL_(false, name, given)
#define KERNEL_WITH_BARRIERS(name, threads, blocks, given) KERNEL_(true, name, given)
