// A stage is mixed: C steps with the sparse P, or one product with the dense q_C(P).
// Values are pairs (sum, count), for every arm (agents, runs). Arms nobody pulled are left out.
#include "links.h"
#include "world.h"

// out ← lead·P in − drop·out; the last step adds to the totals as well. DEGREE is that of all
// agents, with one weight for all links and one for the own value, or 0 where they differ.
KERNEL(mix_sparse, 128, 1,
       (const int* indptr, const int* indices, const real* weights, const real2* in,
        real2* out, real2* totals, const int* alive, long long agents, long long runs,
        double lead_, double drop_, int is_last)) {
    const long long everywhere = agents * runs;
    const real lead = real(lead_), drop = real(drop_);
    const long long at = (long long)blockIdx.x * 128 + threadIdx.x;
    if (at >= everywhere) return;
    const unsigned agent = unsigned(at) / unsigned(runs), run = unsigned(at) % unsigned(runs);
    const long long slab = alive[blockIdx.y] * everywhere;
    const real2* from = in + slab + run;
    real2 before = make_real2(0, 0);
    if (drop != 0) before = out[slab + at];
    real sum = 0, count = 0;
#if DEGREE > 0
    int near[DEGREE];
    real2 theirs[DEGREE];
    find_near(indices, agent, near);
    real2 own = in[slab + at];
    UNROLL for (int j = 0; j < DEGREE; j++) theirs[j] = __ldg(from + near[j] * runs);
    UNROLL for (int j = 0; j < DEGREE; j++) {
        sum += theirs[j].x;
        count += theirs[j].y;
    }
    sum = weights[0] * own.x + weights[1] * sum;
    count = weights[0] * own.y + weights[1] * count;
#else
    for (int j = indptr[agent]; j < indptr[agent + 1]; j++) {
        real2 theirs = __ldg(from + indices[j] * runs);
        sum += weights[j] * theirs.x;
        count += weights[j] * theirs.y;
    }
#endif
    real2 mixed = make_real2(lead * sum - drop * before.x, lead * count - drop * before.y);
    out[slab + at] = mixed;
    if (is_last) {
        real2 total = totals[slab + at];
        totals[slab + at] = make_real2(total.x + mixed.x, total.y + mixed.y);
    }
}

// What agents remember in units of the next stage.
KERNEL(scale, 128, 1, (real2* values, long long size, double factor)) {
    const long long at = (long long)blockIdx.x * 128 + threadIdx.x;
    if (at < size)
        values[at] = make_real2(real(factor) * values[at].x, real(factor) * values[at].y);
}

// totals ← totals + Q in, arm by arm: a product of Q (agents, agents) with (agents, runs) pairs.
// Lanes are runs; a block makes TILE agents of 32 runs, a warp EACH of them. Factors are read 16
// bytes at a time, since with fewer of them floats wait for shared memory.
#define TILE (WARPS * EACH)
#define THREADS (32 * WARPS)
#define DEEP 16
#define WIDE int(16 / sizeof(real))
struct alignas(16) Wide {
    real at[WIDE];
};
KERNEL_WITH_BARRIERS(mix_dense, THREADS, 512 / THREADS,
                     (const real* dense, const real2* in, real2* totals, const int* live,
                      long long agents, long long runs)) {
    SHARED(shared);
    real2* values = (real2*)shared;            // (DEEP, 32)
    real* factors = (real*)(values + DEEP * 32);  // (DEEP, TILE)
    const long long groups = (runs + 31) / 32, group = blockIdx.x % groups;
    const long long arm = blockIdx.y, first = blockIdx.x / groups * TILE;
    if (live[arm * groups + group] == 0) return;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long run = group * 32 + lane, slab = arm * agents * runs;
    real sums[EACH], counts[EACH];
    UNROLL for (int i = 0; i < EACH; i++) sums[i] = counts[i] = 0;
    for (long long from = 0; from < agents; from += DEEP) {
        for (int each = threadIdx.x; each < DEEP * 32; each += THREADS) {
            long long agent = from + each / 32, other = group * 32 + each % 32;
            bool is_there = agent < agents && other < runs;
            values[each] = is_there ? in[slab + agent * runs + other] : make_real2(0, 0);
        }
        for (int each = threadIdx.x; each < DEEP * TILE; each += THREADS) {
            long long agent = from + each / TILE, target = first + each % TILE;
            bool is_there = agent < agents && target < agents;
            factors[each] = is_there ? dense[agent * agents + target] : 0;
        }
        __syncthreads();
        UNROLL for (int a = 0; a < DEEP; a++) {
            real2 value = values[a * 32 + lane];
            const Wide* wides = (const Wide*)(factors + a * TILE + warp * EACH);
            UNROLL for (int i = 0; i < EACH; i += WIDE) {
                const Wide wide = wides[i / WIDE];
                UNROLL for (int j = 0; j < WIDE; j++) {
                    sums[i + j] += wide.at[j] * value.x;
                    counts[i + j] += wide.at[j] * value.y;
                }
            }
        }
        __syncthreads();
    }
    if (run >= runs) return;
    UNROLL for (int i = 0; i < EACH; i++) {
        long long target = first + warp * EACH + i;
        if (target >= agents) break;
        real2* total = totals + slab + target * runs + run;
        *total = make_real2(total->x + sums[i], total->y + counts[i]);
    }
}
