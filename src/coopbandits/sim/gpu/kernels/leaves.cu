// The leaves themselves, for the test that holds them to Python's.
#include "leaves.h"

KERNEL(fill, 128, 1,
       (const word_t* keys, const real2* cubics, const real* rows, long long size,
        word_t* words, real* uniforms, real* normals, real* quantiles, real* rewards)) {
    const long long at = (long long)blockIdx.x * 128 + threadIdx.x;
    if (at >= size) return;
    words[at] = word_at(keys[at], at);
    uniforms[at] = uniform_of(keys[at]);
    normals[at] = normal_of(keys[at], cubics);
    quantiles[at] = normal_quantile(uniforms[at]);
    rewards[at] = reward_of(rows + at * WIDTH, IS_NORMAL ? normals[at] : uniforms[at]);
}
