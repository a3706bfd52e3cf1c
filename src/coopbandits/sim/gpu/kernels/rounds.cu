// A running consensus: every round all agents average, choose and pull.
#include "agent.h"
#include "links.h"

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

#if AGENTS > 0
// Whole runs: block = run, thread = agent, all averages in shared memory.
KERNEL_WITH_BARRIERS(runs, THREADS, RESIDENT,
                     (const World* world_at, const Tally* tally_at, const Span* span_at,
                      const int* indptr, const int* indices, const real* weights, real2* state,
                      const real* times, const real* numbers)) {
    SHARED(shared);
    const Links links = {indptr, indices, weights};
    constexpr int agents = AGENTS;  // known, so that places need not be computed
    const int rounds = int(span_at->rounds);
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
    const real end = age_of(*span_at, rounds).y;
    for (int k = 0; k < K; k++)
        kept[k * agents] = make_real2(end * values[k * agents].x, end * values[k * agents].y);
}

#else
// Some pairs of one row, 16 bytes, that are fetched together.
#define PAIRS (16 / int(sizeof(real2)))
#define CHUNKS ((K + PAIRS - 1) / PAIRS)  // of a row
#define MAIN (CHUNKS / 2 * 2)  // of them fill sectors of 32 bytes; the last may stand elsewhere
struct alignas(16) Chunk {
    real2 pairs[PAIRS];
};
__device__ __forceinline__ Chunk fetched(const Chunk* at) {
#if SINGLE
    const float4 all = __ldg((const float4*)at);
    return {{make_real2(all.x, all.y), make_real2(all.z, all.w)}};
#else
    return {{__ldg((const real2*)at)}};
#endif
}
__device__ __forceinline__ void add_to(Chunk& sum, real weight, const Chunk& other) {
    UNROLL for (int p = 0; p < PAIRS; p++) {
        sum.pairs[p].x += weight * other.pairs[p].x;
        sum.pairs[p].y += weight * other.pairs[p].y;
    }
}

// Where a chunk of the rows of all agents stands, and how far it is to the next agent's.
struct Column {
    long long start;
    int apart;
};
__device__ __forceinline__ Column column_of(int at, long long everywhere) {
    if (at < MAIN) return {at, MAIN};
    return {everywhere * MAIN, 1};
}

// One round on a graph that does not fit into shared memory. A warp averages the rows of its agents,
// lanes side by side on one row, into a tile of shared memory; then every lane plays an agent.
// With a DEGREE there is one weight for own values, and one for all others.
#define WIDE 33  // pairs from one arm to the next: with 32, lanes would meet in one bank
KERNEL_WITH_BARRIERS(one_round, THREADS, RESIDENT,
                     (const World* world_at, const Tally* tally_at, const Span* span_at,
                      const int* indptr, const int* indices, const real* weights,
                      const Chunk* before, Chunk* after, const real* times,
                      const real* numbers)) {
    SHARED(shared);
    const int lane = threadIdx.x % 32;
    const long long agents = world_at->agents, runs = IS_ONE_RUN ? 1 : world_at->runs;
    const long long everywhere = agents * runs;
    const long long first = (long long)blockIdx.x * THREADS + threadIdx.x - lane;
    real2* tile = (real2*)shared + threadIdx.x / 32 * K * WIDE;  // (K, WIDE)
    for (int each = lane; each < 32 * CHUNKS; each += 32) {
        const int who = each / CHUNKS, at = each % CHUNKS;
        if (first + who >= everywhere) break;
        const unsigned agent = unsigned(first + who) / unsigned(runs);
        const unsigned run = unsigned(first + who) % unsigned(runs);
        const Column column = column_of(at, everywhere);
        const Chunk* from = before + column.start + run * agents * column.apart;
        Chunk mixed = {};
#if DEGREE > 0
        int near[DEGREE];
        Chunk theirs[DEGREE], own = fetched(from + agent * (long long)column.apart);
        find_near(indices, agent, near);
        UNROLL for (int j = 0; j < DEGREE; j++)
            theirs[j] = fetched(from + near[j] * (long long)column.apart);
        const real weight = weights[1];
        UNROLL for (int j = 0; j < DEGREE; j++) add_to(mixed, weight, theirs[j]);
        add_to(mixed, weights[0], own);
#else
        for (int j = indptr[agent]; j < indptr[agent + 1]; j++)
            add_to(mixed, weights[j], fetched(from + indices[j] * (long long)column.apart));
#endif
        UNROLL for (int p = 0; p < PAIRS; p++)
            if (at * PAIRS + p < K) tile[(at * PAIRS + p) * WIDE + who] = mixed.pairs[p];
    }
    __syncwarp();
    if (const long long at = first + lane; at < everywhere) {
        Agent player(Books(*world_at, *tally_at, *span_at, at, tally_at->ledger + at, everywhere),
                     numbers, runs < 32);
        player.play(0, times[0], tile + lane, WIDE);
        player.book(1);
    }
    __syncwarp();
    const real end = age_of(*span_at, 1).y;
    for (int each = lane; each < 32 * CHUNKS; each += 32) {
        const int who = each / CHUNKS, at = each % CHUNKS;
        if (first + who >= everywhere) break;
        const unsigned agent = unsigned(first + who) / unsigned(runs);
        const unsigned run = unsigned(first + who) % unsigned(runs);
        Chunk played = {}, all = {};
        UNROLL for (int p = 0; p < PAIRS; p++)
            if (at * PAIRS + p < K) all.pairs[p] = tile[(at * PAIRS + p) * WIDE + who];
        add_to(played, end, all);
        const Column column = column_of(at, everywhere);
        after[column.start + (run * agents + agent) * column.apart] = played;
    }
}
#endif
