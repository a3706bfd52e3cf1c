// One choice by any index: its own functions, translated from Python, stand in `index.h`.
#pragma once
#include "world.h"

// Totals of one agent: `factor` times a column of pairs (sum, count).
struct Sums {
    const double2* at;
    int stride;
    double factor;
    __device__ __forceinline__ double operator[](int k) const { return factor * at[k * stride].x; }
};
struct Counts {
    const double2* at;
    int stride;
    double factor;
    __device__ __forceinline__ double operator[](int k) const { return factor * at[k * stride].y; }
};
struct Estimate {
    Sums sums;
    Counts counts;
    double time, num_agents, anticipation, squares;
};
__device__ __forceinline__ Estimate estimate_of(const double2* at, int stride, double factor,
                                                double time, double num_agents) {
    return {{at, stride, factor}, {at, stride, factor}, time, num_agents, 1.0, 0.0};
}

template <class A, class B>
struct Two {
    A first;
    B second;
};
template <class A, class B>
__device__ __forceinline__ Two<A, B> two(A a, B b) { return {a, b}; }
__device__ __forceinline__ double larger(double a, double b) { return b > a ? b : a; }
__device__ __forceinline__ double smaller(double a, double b) { return b < a ? b : a; }

// Draws, of which some are dear: one in forty normals takes logarithms, and in a warp nearly always
// one lane has such a one. With PUTS_OFF these are left out and only marked, to be made together.
template <bool PUTS_OFF>
struct Draws {
    const double2* cubics;
    bool is_put_off = false;
    __device__ explicit Draws(const double2* cubics_) : cubics(cubics_) {}
    __device__ __forceinline__ double normal_of(word_t word) {
        if (!is_tail(word)) return centre_normal(word, cubics);
        if (!PUTS_OFF) return tail_quantile(uniform_of(word));
        is_put_off = true;
        return 0.0;
    }
    __device__ double gamma_of(word_t key, double shape) {
        double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
        for (long long trial = 0;; trial++) {
            double x = normal_of(word_at(key, 2 * trial)), base = 1.0 + c * x;
            if (is_put_off) return 1.0;
            if (base <= 0.0) continue;
            double v = base * base * base;
            double bound = 0.5 * x * x + d * (1.0 - v + log(v));
            if (log(uniform_of(word_at(key, 2 * trial + 1))) < bound) return d * v;
        }
    }
};

#include "index.h"

__device__ __forceinline__ int best_arm(const double* values) {
    double largest = values[0];
    UNROLL for (int k = 1; k < K; k++) largest = larger(largest, values[k]);
    if (fabs(largest) < INF) largest -= TIE * larger(1.0, fabs(largest));
    int arm = 0;
    UNROLL for (int k = K - 1; k >= 0; k--) if (values[k] >= largest) arm = k;
    return arm;
}

__device__ __forceinline__ int choose(const Estimate& estimate, word_t word, const double* numbers,
                                      const double2* cubics, int* trouble) {
    double scratch[SCRATCH];
    double values[K];
    Index<false> whole(cubics);
    whole.prepare(estimate, word, numbers, scratch);
#if IS_RANDOM
    Index<true> quick(cubics);
    bool put_off[K];
    bool any = false;
    UNROLL for (int k = 0; k < K; k++) {
        quick.is_put_off = false;
        values[k] = quick.value(k, estimate, word, numbers, scratch);
        put_off[k] = quick.is_put_off;
        any |= quick.is_put_off;
    }
    if (any) {
        UNROLL for (int k = 0; k < K; k++)
            if (put_off[k]) values[k] = whole.value(k, estimate, word, numbers, scratch);
    }
#else
    UNROLL for (int k = 0; k < K; k++) values[k] = whole.value(k, estimate, word, numbers, scratch);
#endif
#if !IS_OURS
    for (int k = 0; k < K; k++) if (values[k] != values[k]) *trouble = 1;
#endif
#if HAS_PICK
    int arm = int(whole.pick(values, estimate, word, numbers, scratch));
    if (arm < 0 || arm >= K) {
        *trouble = 2;
        arm = 0;
    }
    return arm;
#else
    return best_arm(values);
#endif
}
