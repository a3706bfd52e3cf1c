#pragma once

// The neighbours of an agent on a graph where all have DEGREE of them.
__device__ __forceinline__ void find_near(const int* indices, unsigned agent, int* near) {
#if DEGREE % 4 == 0
    UNROLL for (int j = 0; j < DEGREE / 4; j++) {
        int4 four = __ldcs((const int4*)indices + agent * (DEGREE / 4) + j);
        near[4 * j] = four.x, near[4 * j + 1] = four.y;
        near[4 * j + 2] = four.z, near[4 * j + 3] = four.w;
    }
#else
    UNROLL for (int j = 0; j < DEGREE; j++) near[j] = indices[agent * DEGREE + j];
#endif
}
