// One choice by any index: its own functions, translated from Python, stand in `index.h`.
#pragma once
#include "world.h"

// Totals of one agent: `factor` times a column of pairs (sum, count).
struct Sums {
    const real2* at;
    int stride;
    real factor;
    __device__ __forceinline__ real operator[](int k) const { return factor * at[k * stride].x; }
};
struct Counts {
    const real2* at;
    int stride;
    real factor;
    __device__ __forceinline__ real operator[](int k) const { return factor * at[k * stride].y; }
};
struct Estimate {
    Sums sums;
    Counts counts;
    real time, num_agents, anticipation;
    const real* squares;  // none here: statistics with squares have no kernel
};
__device__ __forceinline__ Estimate estimate_of(const real2* at, int stride, real factor,
                                                real time, real num_agents) {
    return {{at, stride, factor}, {at, stride, factor}, time, num_agents, real(1), nullptr};
}

template <class A, class B>
struct Two {
    A first;
    B second;
};
template <class A, class B>
__device__ __forceinline__ Two<A, B> two(A a, B b) { return {a, b}; }
__device__ __forceinline__ real larger(real a, real b) { return b > a ? b : a; }
__device__ __forceinline__ real smaller(real a, real b) { return b < a ? b : a; }

#include "index.h"

// The plain way: all values, then what the index picks, or the lowest arm within rounding of the
// largest value.
__device__ __noinline__ int choose_by_all(const Estimate& estimate, word_t word,
                                          const real* numbers, const real2* cubics,
                                          int* trouble) {
    real scratch[SCRATCH], values[K];
    Index<false> whole(cubics);
    whole.prepare(estimate, word, numbers, scratch);
    for (int k = 0; k < K; k++) {
#if ONE_NORMAL
        Index<true> asking(cubics);
        asking.value(k, estimate, word, numbers, scratch);
        whole.late = normal_of(asking.asked, cubics);
#endif
        values[k] = whole.value(k, estimate, word, numbers, scratch);
        if (values[k] != values[k]) *trouble = 1;
    }
#if !IS_OURS
    if (whole.raised) *trouble = 1;
#endif
#if HAS_PICK
    int arm = int(whole.pick(values, estimate, word, numbers, scratch));
#if !IS_OURS
    if (whole.raised) arm = -1;
#endif
    if (arm >= 0 && arm < K) return arm;
    *trouble = 2;
    return 0;
#else
    real largest = values[0];
    for (int k = 1; k < K; k++) largest = larger(largest, values[k]);
    if (fabs(largest) < INF) largest -= TIE * larger(real(1), fabs(largest));
    int arm = 0;
    for (int k = K - 1; k >= 0; k--) if (values[k] >= largest) arm = k;
    return arm;
#endif
}

// The same arm with less at hand: the best and the second best, in one go over the arms. Where two
// arms may tie, the plain way decides. Arms whose normals are in the tails are put off, and looked at
// by all lanes together.
struct Leader {
    real best = LOWEST, second = LOWEST;
    int arm = 0;
    __device__ __forceinline__ void consider(int k, real value) {
        const bool leads = value > best;
        second = larger(second, leads ? best : value);
        best = leads ? value : best;
        arm = leads ? k : arm;
    }
};
__device__ __forceinline__ int choose(const Estimate& estimate, word_t word, const real* numbers,
                                      const real2* cubics, int* trouble) {
#if HAS_PICK || !IS_OURS || (ONE_NORMAL && K > 64)
    return choose_by_all(estimate, word, numbers, cubics, trouble);
#else
    real scratch[SCRATCH];
    Leader leader;
    Index<false> whole(cubics);
#if !BY_ARM
    whole.prepare(estimate, word, numbers, scratch);
#endif
#if ONE_NORMAL
    word_t tails = 0;
    Index<true> asking(cubics);
    // The value of one arm, given its normal.
    auto value_by = [&](int k, real normal) {
#if BY_ARM
        // As if all arms were this one: the compiler sees that they are, and prepares one.
        const Estimate alone = {{estimate.sums.at + k * estimate.sums.stride, 0, estimate.sums.factor},
                                {estimate.counts.at + k * estimate.counts.stride, 0,
                                 estimate.counts.factor},
                                estimate.time, estimate.num_agents, estimate.anticipation,
                                estimate.squares};
        whole.prepare(alone, word, numbers, scratch);
        k = 0;
#endif
        whole.late = normal;
        return whole.value(k, estimate, word, numbers, scratch);
    };
    UNROLL for (int k = 0; k < K; k++) {
        asking.value(k, estimate, word, numbers, scratch);
        const bool is_late = is_tail(asking.asked);
        tails |= is_late ? word_t(1) << k : 0;
        const real value = value_by(k, centre_normal(asking.asked, cubics));
        leader.consider(k, is_late ? LOWEST : value);
    }
    for (; tails; tails &= tails - 1) {
        const int k = __ffsll(tails) - 1;
        asking.value(k, estimate, word, numbers, scratch);
        leader.consider(k, value_by(k, tail_normal(asking.asked)));
    }
#else
    UNROLL for (int k = 0; k < K; k++)
        leader.consider(k, whole.value(k, estimate, word, numbers, scratch));
#endif
    const real best = leader.best;
    if (best < INF && best - leader.second > ROUNDING * larger(real(1), fabs(best)))
        return leader.arm;
    return choose_by_all(estimate, word, numbers, cubics, trouble);
#endif
}
