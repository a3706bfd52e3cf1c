// The small functions of `core.draws`, `problems.rewards` and `core.choice`: bit for bit where a real
// number is a double; where SINGLE asks for floats, close to them.
#pragma once

typedef unsigned long long word_t;
#if SINGLE
typedef float real;
typedef float2 real2;
#define LOWEST (-1e30f)
#define ROUNDING 4e-6f
#define TIE 1e-6f
#else
typedef double real;
typedef double2 real2;
#define LOWEST (-1e300)
#define ROUNDING 4e-9
#define TIE 1e-9
#endif
#define INF real(1e300 * 1e300)

__device__ __forceinline__ real2 make_real2(real x, real y) {
    real2 made;
    made.x = x;
    made.y = y;
    return made;
}

__device__ __forceinline__ word_t word_at(word_t key, long long counter) {
    word_t x = key + word_t(counter + 1) * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}
#if SINGLE
__device__ __forceinline__ real uniform_of(word_t word) {
    return (float(unsigned(word >> 41)) + 0.5f) * 1.1920929e-7f;  // never 1
}
#else
__device__ __forceinline__ real uniform_of(word_t word) {
    return (double(word >> 12) + 0.5) * 2.220446049250313e-16;
}
#endif
__device__ __forceinline__ word_t word_of(real uniform) {
    return word_at(word_t(double(uniform) * 4503599627370496.0), 0);
}

// Wichura's AS 241: numerator and denominator, highest power first, of centre, tail and far tail.
__device__ __forceinline__ real ratio_of(const real* top, const real* bottom, real r) {
    real above = 0, below = 0;
    UNROLL for (int i = 0; i < 8; i++) {
        above = above * r + top[i];
        below = below * r + bottom[i];
    }
    return above / below;
}
// Of the smaller of the two tails that a probability leaves.
__device__ __forceinline__ real tail_size(real p) {
    const real TAIL[2][8] = {
        {real(7.74545014278341407640e-4), real(0.0227238449892691845833),
         real(0.241780725177450611770), real(1.27045825245236838258), real(3.64784832476320460504),
         real(5.76949722146069140550), real(4.63033784615654529590), real(1.42343711074968357734)},
        {real(1.05075007164441684324e-9), real(5.47593808499534494600e-4),
         real(0.0151986665636164571966), real(0.148103976427480074590),
         real(0.689767334985100004550), real(1.67638483018380384940), real(2.05319162663775882187),
         real(1.0)}};
    const real FAR[2][8] = {
        {real(2.01033439929228813265e-7), real(2.71155556874348757815e-5),
         real(1.24266094738807843860e-3), real(0.0265321895265761230930),
         real(0.296560571828504891230), real(1.78482653991729133580), real(5.46378491116411436990),
         real(6.65790464350110377720)},
        {real(2.04426310338993978564e-15), real(1.42151175831644588870e-7),
         real(1.84631831751005468180e-5), real(7.86869131145613259100e-4),
         real(0.0148753612908506148525), real(0.136929880922735805310),
         real(0.599832206555887937690), real(1.0)}};
    real r = sqrt(-log(p));
    return r <= real(5.0) ? ratio_of(TAIL[0], TAIL[1], r - real(1.6))
                          : ratio_of(FAR[0], FAR[1], r - real(5.0));
}
__device__ __forceinline__ real tail_by_logarithm(real p) {
    real other = real(1.0) - p;
    return copysign(tail_size(other < p ? other : p), p - real(0.5));
}
// A draw in the tails. A float near 1 says too little of what is left, so that half is turned over.
__device__ __forceinline__ real tail_normal(word_t word) {
#if SINGLE
    const bool is_upper = word >> 63;
    const word_t low = is_upper ? ~word : word;
    const float size = tail_size((float(low >> 12) + 0.5f) * 2.220446e-16f);
    return is_upper ? size : -size;
#else
    return tail_by_logarithm(uniform_of(word));
#endif
}
// The same as a call, for where it is seldom needed.
__device__ __noinline__ real tail_called(word_t word) { return tail_normal(word); }
__device__ __noinline__ real normal_quantile(real p) {
    const real CENTRE[2][8] = {
        {real(2509.0809287301226727), real(33430.575583588128105), real(67265.770927008700853),
         real(45921.953931549871457), real(13731.693765509461125), real(1971.5909503065514427),
         real(133.14166789178437745), real(3.3871328727963666080)},
        {real(5226.4952788528545610), real(28729.085735721942674), real(39307.895800092710610),
         real(21213.794301586595867), real(5394.1960214247511077), real(687.18700749205790830),
         real(42.313330701600911252), real(1.0)}};
    real q = p - real(0.5);
    if (fabs(q) > real(0.425)) return tail_by_logarithm(p);
    real r = real(0.180625) - q * q, above = 0, below = 0;
    for (int i = 0; i < 8; i++) {
        above = above * r + CENTRE[0][i];
        below = below * r + CENTRE[1][i];
    }
    return q * above / below;
}

// In 28 of 2048 cells at either end nothing is tabulated.
__device__ __forceinline__ bool is_tail(word_t word) { return unsigned(word >> 53) - 28u >= 1992u; }
__device__ __forceinline__ real centre_normal(word_t word, const real2* cubics) {
#if SINGLE
    const unsigned high = unsigned(word >> 32), cell = high >> 21;  // the rest is below rounding
    real x = float(high & 0x1FFFFFu) * 4.7683716e-7f;
#else
    const unsigned cell = unsigned(word >> 53);
    real x = double((long long)((word >> 5) & 0xFFFFFFFFFFFFull));
#endif
#if SINGLE
    float4 c = __ldg((const float4*)cubics + cell);  // one load: half as many as two of half its size
    return c.x + x * (c.y + x * (c.z + x * c.w));
#else
    real2 low = __ldg(cubics + 2 * cell), high = __ldg(cubics + 2 * cell + 1);
    return low.x + x * (low.y + x * (high.x + x * high.y));
#endif
}
__device__ __forceinline__ real normal_of(word_t word, const real2* cubics) {
    return is_tail(word) ? tail_called(word) : centre_normal(word, cubics);
}

// FORM is one of `problems.rewards`; WIDTH the numbers of a row.
__device__ __forceinline__ real reward_of(const real* row, real variate) {
#if FORM == 0
    return row[0] + row[1] * variate;
#elif FORM == 1
    return variate < row[0] ? real(1) : real(0);
#elif FORM == 2
    const int cells = WIDTH / 2;
    real position = variate * cells;
    int cell = int(position) < cells - 1 ? int(position) : cells - 1;
    real start = row[2 * cell];
    return start + (position - cell) * (row[2 * cell + 1] - start);
#else
    int size = int(row[0]), place = int(variate * size);
    return row[1 + (place < size - 1 ? place : size - 1)];
#endif
}
// The row of the arm in play; numbers are kept at hand where they are few.
struct Row {
#if FORM < 2
    real numbers[WIDTH];
    __device__ __forceinline__ void take(const real* row) {
        UNROLL for (int i = 0; i < WIDTH; i++) numbers[i] = row[i];
    }
#else
    const real* numbers;
    __device__ __forceinline__ void take(const real* row) { numbers = row; }
#endif
    __device__ __forceinline__ real reward(real variate) const {
        return reward_of(numbers, variate);
    }
};
__device__ __forceinline__ real variate_of(word_t word, const real2* cubics) {
#if IS_NORMAL
    return normal_of(word, cubics);
#else
    return uniform_of(word);
#endif
}
