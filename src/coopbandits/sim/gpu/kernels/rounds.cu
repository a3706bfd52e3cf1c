// A running consensus: every round all agents average, choose and pull.
#include "agent.h"

struct Links {
    const int *indptr, *indices;
    const real* weights;
};

// SOME arms are averaged in one go over the neighbours: more would need more registers.
#define FEW 4   // neighbours that are kept in registers, where LINKS, their number, is the same for all

// The neighbours of one agent, itself included, and their weights.
struct Near {
#if LINKS > 0 && LINKS <= FEW
    int agents[LINKS];
    real weights[LINKS];
    __device__ Near(const Links& links, int agent) {
        UNROLL for (int j = 0; j < LINKS; j++) {
            agents[j] = links.indices[agent * LINKS + j];
            weights[j] = links.weights[agent * LINKS + j];
        }
    }
    template <class Use>
    __device__ __forceinline__ void each(Use use) const {
        UNROLL for (int j = 0; j < LINKS; j++) use(agents[j], weights[j]);
    }
#else
    const Links& links;
    const int start, end;
    __device__ Near(const Links& links_, int agent)
        : links(links_), start(links_.indptr[agent]), end(links_.indptr[agent + 1]) {}
    template <class Use>
    __device__ __forceinline__ void each(Use use) const {
        for (int j = start; j < end; j++) use(links.indices[j], links.weights[j]);
    }
#endif
};

// Whole runs: block = run, thread = agent, all averages in shared memory.
KERNEL_WITH_BARRIERS(runs, THREADS, RESIDENT,
                     (const World* world_at, const Tally* tally_at, const Span* span_at,
                      const int* indptr, const int* indices, const real* weights, real2* state,
                      const real* times, const real* numbers)) {
    SHARED(shared);
    const Links links = {indptr, indices, weights};
    const int agents = int(world_at->agents), rounds = int(span_at->rounds);
    const bool is_there = int(threadIdx.x) < agents;
    const int agent = is_there ? threadIdx.x : 0;
    real2* values = (real2*)shared + agent;  // (K, agents)
    double* ledger = (double*)((real2*)shared + K * agents) + agent;
    real2* kept = state + (long long)blockIdx.x * agents * K + agent;
    const Near near(links, agent);
    Agent player(Books(*world_at, *tally_at, *span_at, agent * world_at->runs + blockIdx.x,
                       ledger, agents),
                 numbers, false);
    if (is_there) {
        player.books.open();
        for (int k = 0; k < K; k++) values[k * agents] = kept[k * agents];
    }
    for (int r = 0; r < rounds; r++) {
        __syncthreads();  // the last round is over
        UNROLL for (int first = 0; first < K; first += SOME) {
            real2 mixed[SOME];
            UNROLL for (int k = 0; k < SOME; k++) mixed[k] = make_real2(0, 0);
            near.each([&](int other, real weight) {
                const real2* theirs = (const real2*)shared + other;
                UNROLL for (int k = 0; k < SOME; k++) {
                    if (first + k >= K) break;
                    real2 value = theirs[(first + k) * agents];
                    mixed[k].x += weight * value.x;
                    mixed[k].y += weight * value.y;
                }
            });
            __syncthreads();  // all have read these arms
            UNROLL for (int k = 0; k < SOME; k++)
                if (is_there && first + k < K) values[(first + k) * agents] = mixed[k];
        }
        if (is_there) player.play(r, times[r], values, agents);
    }
    if (!is_there) return;
    player.book(rounds);
    player.books.close();
    for (int k = 0; k < K; k++) kept[k * agents] = values[k * agents];
}

// One round on a graph that does not fit into shared memory. A warp averages the rows of its agents,
// lanes side by side on one row, into a tile of shared memory; then every lane plays an agent.
#define WIDE 33  // pairs from one arm to the next: with 32, lanes would meet in one bank
KERNEL_WITH_BARRIERS(one_round, THREADS, RESIDENT,
                     (const World* world_at, const Tally* tally_at, const Span* span_at,
                      const int* indptr, const int* indices, const real* weights,
                      const real2* before, real2* after, const real* times,
                      const real* numbers)) {
    SHARED(shared);
    const int lane = threadIdx.x % 32;
    const long long agents = world_at->agents, runs = world_at->runs, everywhere = agents * runs;
    const long long first = (long long)blockIdx.x * THREADS + threadIdx.x - lane;
    real2* tile = (real2*)shared + threadIdx.x / 32 * K * WIDE;  // (K, WIDE)
    for (int each = lane; each < 32 * K; each += 32) {
        const int who = each / K, k = each % K;
        if (first + who >= everywhere) break;
        const unsigned agent = unsigned(first + who) / unsigned(runs);
        const unsigned run = unsigned(first + who) % unsigned(runs);
        const real2* from = before + run * agents * K + k;
        real2 mixed = make_real2(0, 0);
#if LINKS > 0
        real2 theirs[LINKS];
        UNROLL for (int j = 0; j < LINKS; j++)
            theirs[j] = __ldg(from + indices[agent * LINKS + j] * (long long)K);
        UNROLL for (int j = 0; j < LINKS; j++) {
            mixed.x += weights[agent * LINKS + j] * theirs[j].x;
            mixed.y += weights[agent * LINKS + j] * theirs[j].y;
        }
#else
        for (int j = indptr[agent]; j < indptr[agent + 1]; j++) {
            real2 value = __ldg(from + indices[j] * (long long)K);
            mixed.x += weights[j] * value.x;
            mixed.y += weights[j] * value.y;
        }
#endif
        tile[k * WIDE + who] = mixed;
    }
    __syncwarp();
    if (const long long at = first + lane; at < everywhere) {
        Agent player(Books(*world_at, *tally_at, *span_at, at, tally_at->ledger + at, everywhere),
                     numbers, runs < 32);
        player.play(0, times[0], tile + lane, WIDE);
        player.book(1);
    }
    __syncwarp();
    for (int each = lane; each < 32 * K; each += 32) {
        const int who = each / K, k = each % K;
        if (first + who >= everywhere) break;
        const unsigned agent = unsigned(first + who) / unsigned(runs);
        const unsigned run = unsigned(first + who) % unsigned(runs);
        after[(run * agents + agent) * K + k] = tile[k * WIDE + who];
    }
}
