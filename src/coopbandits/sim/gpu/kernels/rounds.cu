// A running consensus: every round all agents average, choose and pull.
#include "choice.h"

struct Links {
    const int *indptr, *indices;
    const double* weights;
};

// One agent's averages of all arms, over pairs that are `stride` apart by arm and `step` by agent.
__device__ __forceinline__ void average(const Links& links, long long agent, const double2* values,
                                        long long stride, long long step, double2* mixed) {
    UNROLL for (int k = 0; k < K; k++) mixed[k] = make_double2(0.0, 0.0);
    const int end = links.indptr[agent + 1];
    for (int j = links.indptr[agent]; j < end; j++) {
        const double weight = links.weights[j];
        const double2* theirs = values + links.indices[j] * step;
        UNROLL for (int k = 0; k < K; k++) {
            mixed[k].x += weight * theirs[k * stride].x;
            mixed[k].y += weight * theirs[k * stride].y;
        }
    }
}

__device__ __forceinline__ void choose_and_pull(const World& world, const Tally& tally,
                                                Books& books, word_t key, word_t words, int r,
                                                double time, const double* numbers, double2* own,
                                                int stride) {
    const long long done = books.span.first + r;
    if (r >= books.border) books.enter_segment(r);
    Estimate estimate = estimate_of(own, stride, double(world.agents), time, double(world.agents));
    int arm = choose(estimate, IS_RANDOM ? word_at(words, done) : 0, numbers, world.cubics,
                     tally.trouble);
    double reward = reward_of(books.row(arm), variate_of(word_at(key, done), world.cubics));
    own[arm * stride] = make_double2(own[arm * stride].x + reward, own[arm * stride].y + 1.0);
    books.enter(arm, r, r + 1, reward);
    if (r + 1 == books.stop) books.note();
}

// Whole runs: block = run, thread = agent, all averages in shared memory.
KERNEL_WITH_BARRIERS(runs, THREADS, RESIDENT,
                     (const World* world_at, const Tally* tally_at, const Span* span_at,
                      const int* indptr, const int* indices, const double* weights, double2* state,
                      const double* times, const double* numbers)) {
    SHARED(shared);
    const World& world = *world_at;
    const Tally& tally = *tally_at;
    const Span& span = *span_at;
    const Links links = {indptr, indices, weights};
    const int agents = int(world.agents), agent = threadIdx.x, rounds = int(span.rounds);
    const bool is_there = agent < agents;
    const long long at = (is_there ? agent : 0) * world.runs + blockIdx.x;
    double2* values = (double2*)shared;  // (K, agents)
    double2* kept = state + (long long)blockIdx.x * agents * K;
    Books books(world, tally, span, at);
    const word_t key = word_at(world.reward_keys[books.run], books.agent);
    const word_t words = word_at(world.decision_keys[books.run], books.agent);
    numbers += books.agent * NUMBERS;
    if (is_there)
        for (int k = 0; k < K; k++) values[k * agents + agent] = kept[k * agents + agent];
    __syncthreads();
    for (int r = 0; r < rounds; r++) {
        double2 mixed[K];
        if (is_there) average(links, agent, values, agents, 1, mixed);
        __syncthreads();
        if (is_there) {
            UNROLL for (int k = 0; k < K; k++) values[k * agents + agent] = mixed[k];
            choose_and_pull(world, tally, books, key, words, r, times[r], numbers, values + agent,
                            agents);
        }
        __syncthreads();
    }
    if (!is_there) return;
    for (int k = 0; k < K; k++) kept[k * agents + agent] = values[k * agents + agent];
}

// One round on a graph that does not fit into shared memory: thread = agent, rows in memory.
KERNEL(one_round, 128, 4,
       (const World* world_at, const Tally* tally_at, const Span* span_at, const int* indptr,
        const int* indices, const double* weights, const double2* before, double2* after,
        const double* times, const double* numbers)) {
    const World& world = *world_at;
    const Tally& tally = *tally_at;
    const Span& span = *span_at;
    const Links links = {indptr, indices, weights};
    const long long at = (long long)blockIdx.x * 128 + threadIdx.x;
    if (at >= world.agents * world.runs) return;
    Books books(world, tally, span, at);
    const word_t key = word_at(world.reward_keys[books.run], books.agent);
    const word_t words = word_at(world.decision_keys[books.run], books.agent);
    const double2* values = before + books.run * world.agents * K;
    double2 mixed[K];
    average(links, books.agent, values, 1, K, mixed);
    double2* own = after + (books.run * world.agents + books.agent) * K;
    choose_and_pull(world, tally, books, key, words, 0, times[0], numbers + books.agent * NUMBERS,
                    mixed, 1);
    UNROLL for (int k = 0; k < K; k++) own[k] = mixed[k];
}
