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
    __device__ __noinline__ double gamma_of(word_t key, double shape) {
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

// The plain way: all values, then what the index picks, or the lowest arm within rounding of the
// largest value.
__device__ __noinline__ int choose_by_all(const Estimate& estimate, word_t word,
                                          const double* numbers, const double2* cubics,
                                          int* trouble) {
    double scratch[SCRATCH], values[K];
    Index<false> whole(cubics);
    whole.prepare(estimate, word, numbers, scratch);
    for (int k = 0; k < K; k++) {
        values[k] = whole.value(k, estimate, word, numbers, scratch);
        if (values[k] != values[k]) *trouble = 1;
    }
#if HAS_PICK
    int arm = int(whole.pick(values, estimate, word, numbers, scratch));
    if (arm >= 0 && arm < K) return arm;
    *trouble = 2;
    return 0;
#else
    double largest = values[0];
    for (int k = 1; k < K; k++) largest = larger(largest, values[k]);
    if (fabs(largest) < INF) largest -= TIE * larger(1.0, fabs(largest));
    int arm = 0;
    for (int k = K - 1; k >= 0; k--) if (values[k] >= largest) arm = k;
    return arm;
#endif
}

// The same arm with less at hand: the best and the second best, in one go over the arms. Draws that
// are put off come after; where two arms may tie, the plain way decides.
__device__ __forceinline__ int choose(const Estimate& estimate, word_t word, const double* numbers,
                                      const double2* cubics, int* trouble) {
#if HAS_PICK || !IS_OURS || K > 64
    return choose_by_all(estimate, word, numbers, cubics, trouble);
#else
    double scratch[SCRATCH], best = -1e300, second = -1e300;
    int arm = 0;
    Index<IS_RANDOM> quick(cubics);
    quick.prepare(estimate, word, numbers, scratch);
    word_t put_off = 0;
    UNROLL for (int k = 0; k < K; k++) {
        quick.is_put_off = false;
        double value = quick.value(k, estimate, word, numbers, scratch);
        if (IS_RANDOM && quick.is_put_off) {
            put_off |= word_t(1) << k;
            value = -1e300;
        }
        arm = value > best ? k : arm;
        second = larger(second, smaller(best, value));
        best = larger(best, value);
    }
#if IS_RANDOM
    if (put_off) {
        Index<false> whole(cubics);
        UNROLL for (int k = 0; k < K; k++) {
            if (put_off >> k & 1) {
                double value = whole.value(k, estimate, word, numbers, scratch);
                arm = value > best ? k : arm;
                second = larger(second, smaller(best, value));
                best = larger(best, value);
            }
        }
    }
#endif
    if (best < INF && best - second > ROUNDING * larger(1.0, fabs(best))) return arm;
    return choose_by_all(estimate, word, numbers, cubics, trouble);
#endif
}
