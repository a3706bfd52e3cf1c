#pragma once
// Draws, of which some are dear: one in forty normals takes logarithms, and in a warp nearly always
// one lane has such a one. Where an index draws one normal per arm, whatever it has seen, `choose`
// makes it: ASKS only notes the word, and the compiler leaves out the rest; the normal made of it is
// handed over as `late`.
template <bool ASKS>
struct Draws {
    const real2* cubics;
    word_t asked = 0;
    real late = 0;
    __device__ explicit Draws(const real2* cubics_) : cubics(cubics_) {}
    __device__ __forceinline__ real normal_of(word_t word) {
        if (ASKS) {
            asked = word;
            return 0;
        }
#if ONE_NORMAL
        return late;
#else
        return ::normal_of(word, cubics);
#endif
    }
    __device__ __noinline__ real gamma_of(word_t key, real shape) {
        real d = shape - real(1.0) / real(3.0), c = real(1.0) / sqrt(real(9.0) * d);
        for (long long trial = 0;; trial++) {
            real x = normal_of(word_at(key, 2 * trial)), base = real(1.0) + c * x;
            if (base <= real(0.0)) continue;
            real v = base * base * base;
            real bound = real(0.5) * x * x + d * (real(1.0) - v + log(v));
            if (log(uniform_of(word_at(key, 2 * trial + 1))) < bound) return d * v;
        }
    }
};
