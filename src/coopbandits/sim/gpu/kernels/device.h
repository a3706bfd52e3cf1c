// What kernels say on a device; host.h says the same for a C++ compiler.
#pragma once
#define UNROLL _Pragma("unroll")
#define PRAGMA(words) _Pragma(#words)
#define UNROLL_BY(times) PRAGMA(unroll times)
#define SHARED(name) extern __shared__ double name[]
#define KERNEL(name, threads, blocks, given) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name given
#define KERNEL_WITH_BARRIERS KERNEL
