#pragma once
// Draws, of which some are dear: one in forty normals takes logarithms, and in a warp nearly always
// one lane has such a one. Where an index draws one normal per arm, whatever it has seen, these are
// made before all values, by all lanes together: ASKS only notes the word, and the compiler leaves out
// the rest; the normal made of it is handed over as `late`.
template <bool ASKS>
struct Draws {
    const double2* cubics;
    word_t asked = 0;
    double late = 0.0;
    __device__ explicit Draws(const double2* cubics_) : cubics(cubics_) {}
    __device__ __forceinline__ double normal_of(word_t word) {
        if (ASKS) {
            asked = word;
            return 0.0;
        }
#if ONE_NORMAL
        return late;
#else
        return ::normal_of(word, cubics);
#endif
    }
    __device__ __noinline__ double gamma_of(word_t key, double shape) {
        double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
        for (long long trial = 0;; trial++) {
            double x = normal_of(word_at(key, 2 * trial)), base = 1.0 + c * x;
            if (base <= 0.0) continue;
            double v = base * base * base;
            double bound = 0.5 * x * x + d * (1.0 - v + log(v));
            if (log(uniform_of(word_at(key, 2 * trial + 1))) < bound) return d * v;
        }
    }
};
