// The small functions of `core.draws`, `problems.rewards` and `core.choice`, bit for bit.
#pragma once

typedef unsigned long long word_t;

#define INF (1e300 * 1e300)
#define ROUNDING 4e-9
#define TIE 1e-9

__device__ __forceinline__ word_t word_at(word_t key, long long counter) {
    word_t x = key + word_t(counter + 1) * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}
__device__ __forceinline__ double uniform_of(word_t word) {
    return (double(word >> 12) + 0.5) * 2.220446049250313e-16;
}
__device__ __forceinline__ word_t word_of(double uniform) {
    return word_at(word_t(uniform * 4503599627370496.0), 0);
}

// Wichura's AS 241: numerator and denominator, highest power first, of centre, tail and far tail.
__device__ __forceinline__ double ratio_of(const double* top, const double* bottom, double r) {
    double above = 0.0, below = 0.0;
    UNROLL for (int i = 0; i < 8; i++) {
        above = above * r + top[i];
        below = below * r + bottom[i];
    }
    return above / below;
}
__device__ __forceinline__ double tail_by_logarithm(double p) {
    const double TAIL[2][8] = {
        {7.74545014278341407640e-4, 0.0227238449892691845833, 0.241780725177450611770,
         1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550,
         4.63033784615654529590, 1.42343711074968357734},
        {1.05075007164441684324e-9, 5.47593808499534494600e-4, 0.0151986665636164571966,
         0.148103976427480074590, 0.689767334985100004550, 1.67638483018380384940,
         2.05319162663775882187, 1.0}};
    const double FAR[2][8] = {
        {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
         0.0265321895265761230930, 0.296560571828504891230, 1.78482653991729133580,
         5.46378491116411436990, 6.65790464350110377720},
        {2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
         7.86869131145613259100e-4, 0.0148753612908506148525, 0.136929880922735805310,
         0.599832206555887937690, 1.0}};
    double other = 1.0 - p, r = sqrt(-log(other < p ? other : p));
    double size = r <= 5.0 ? ratio_of(TAIL[0], TAIL[1], r - 1.6) : ratio_of(FAR[0], FAR[1], r - 5.0);
    return copysign(size, p - 0.5);
}
// The same as a call, for where it is seldom needed.
__device__ __noinline__ double tail_quantile(double p) { return tail_by_logarithm(p); }
__device__ __noinline__ double normal_quantile(double p) {
    const double CENTRE[2][8] = {
        {2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
         45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
         133.14166789178437745, 3.3871328727963666080},
        {5226.4952788528545610, 28729.085735721942674, 39307.895800092710610,
         21213.794301586595867, 5394.1960214247511077, 687.18700749205790830,
         42.313330701600911252, 1.0}};
    double q = p - 0.5;
    if (fabs(q) > 0.425) return tail_quantile(p);
    double r = 0.180625 - q * q, above = 0.0, below = 0.0;
    for (int i = 0; i < 8; i++) {
        above = above * r + CENTRE[0][i];
        below = below * r + CENTRE[1][i];
    }
    return q * above / below;
}

// In 28 of 2048 cells at either end nothing is tabulated.
__device__ __forceinline__ bool is_tail(word_t word) { return unsigned(word >> 53) - 28u >= 1992u; }
__device__ __forceinline__ double centre_normal(word_t word, const double2* cubics) {
    unsigned cell = unsigned(word >> 53);
    double x = double((long long)((word >> 5) & 0xFFFFFFFFFFFFull));
    double2 low = __ldg(cubics + 2 * cell), high = __ldg(cubics + 2 * cell + 1);
    return low.x + x * (low.y + x * (high.x + x * high.y));
}
__device__ __forceinline__ double normal_of(word_t word, const double2* cubics) {
    return is_tail(word) ? tail_quantile(uniform_of(word)) : centre_normal(word, cubics);
}

// FORM is one of `problems.rewards`; WIDTH the numbers of a row.
__device__ __forceinline__ double reward_of(const double* row, double variate) {
#if FORM == 0
    return row[0] + row[1] * variate;
#elif FORM == 1
    return variate < row[0] ? 1.0 : 0.0;
#elif FORM == 2
    const int cells = WIDTH / 2;
    double position = variate * cells;
    int cell = int(position) < cells - 1 ? int(position) : cells - 1;
    double start = row[2 * cell];
    return start + (position - cell) * (row[2 * cell + 1] - start);
#else
    int size = int(row[0]), place = int(variate * size);
    return row[1 + (place < size - 1 ? place : size - 1)];
#endif
}
// The row of the arm in play; numbers are kept at hand where they are few.
struct Row {
#if FORM < 2
    double numbers[WIDTH];
    __device__ __forceinline__ void take(const double* row) {
        UNROLL for (int i = 0; i < WIDTH; i++) numbers[i] = row[i];
    }
#else
    const double* numbers;
    __device__ __forceinline__ void take(const double* row) { numbers = row; }
#endif
    __device__ __forceinline__ double reward(double variate) const {
        return reward_of(numbers, variate);
    }
};
__device__ __forceinline__ double variate_of(word_t word, const double2* cubics) {
#if IS_NORMAL
    return normal_of(word, cubics);
#else
    return uniform_of(word);
#endif
}
