// A running consensus: every round all agents average, choose and pull.
#include "choice.h"

struct Links {
    const int *indptr, *indices;
    const double* weights;
};

#define SOME 6  // arms averaged in one go over the neighbours: more would need more registers

// Writes one agent's averages of all arms. Pairs of one agent are `stride` apart, agents `step`.
__device__ __forceinline__ void average(const Links& links, long long agent, const double2* values,
                                        long long stride, long long step, double2* own) {
    const int start = links.indptr[agent], end = links.indptr[agent + 1];
    UNROLL for (int first = 0; first < K; first += SOME) {
        double2 mixed[SOME];
        UNROLL for (int k = 0; k < SOME; k++) mixed[k] = make_double2(0.0, 0.0);
        for (int j = start; j < end; j++) {
            const double weight = links.weights[j];
            const double2* theirs = values + links.indices[j] * step;
            UNROLL for (int k = 0; k < SOME; k++) {
                if (first + k >= K) break;
                double2 value = theirs[(first + k) * stride];
                mixed[k].x += weight * value.x;
                mixed[k].y += weight * value.y;
            }
        }
        UNROLL for (int k = 0; k < SOME; k++) {
            if (first + k >= K) break;
            own[(first + k) * stride] = mixed[k];
        }
    }
}

// One agent that chooses and pulls; pulls of one arm in a row are booked together.
struct Agent {
    Books books;
    const word_t key, words;
    const double* numbers;
    const double* row;
    double gained = 0.0;
    int arm = 0, start = 0;

    __device__ Agent(const World& world, const Tally& tally, const Span& span, long long at,
                     const double* numbers_)
        : books(world, tally, span, at), key(word_at(world.reward_keys[books.run], books.agent)),
          words(word_at(world.decision_keys[books.run], books.agent)),
          numbers(numbers_ + books.agent * NUMBERS), row(world.tables) {}

    __device__ void book(int end) {
        if (end > start) books.enter(arm, start, end, gained);
        start = end;
        gained = 0.0;
    }
    __device__ __forceinline__ void play(int r, double time, double2* own, int stride) {
        const double agents = double(books.world.agents);
        const double2* cubics = books.world.cubics;
        const long long done = books.span.first + r;
        Estimate estimate = estimate_of(own, stride, agents, time, agents);
        int chosen = choose(estimate, IS_RANDOM ? word_at(words, done) : 0, numbers, cubics,
                            books.tally.trouble);
        bool is_elsewhere = r >= books.border;
        if (is_elsewhere || chosen != arm) {
            book(r);
            if (is_elsewhere) books.enter_segment(r);
            arm = chosen;
            row = books.row(arm);
        }
        double reward = reward_of(row, variate_of(word_at(key, done), cubics));
        gained += reward;
        own[arm * stride] = make_double2(own[arm * stride].x + reward, own[arm * stride].y + 1.0);
        if (r + 1 == books.stop) {
            book(r + 1);
            books.note();
        }
    }
};

// Whole runs: block = run, thread = agent, averages of this round and the last in shared memory.
KERNEL_WITH_BARRIERS(runs, THREADS, RESIDENT,
                     (const World* world_at, const Tally* tally_at, const Span* span_at,
                      const int* indptr, const int* indices, const double* weights, double2* state,
                      const double* times, const double* numbers)) {
    SHARED(shared);
    const Links links = {indptr, indices, weights};
    const int agents = int(world_at->agents), agent = threadIdx.x, rounds = int(span_at->rounds);
    const bool is_there = agent < agents;
    const long long at = (is_there ? agent : 0) * world_at->runs + blockIdx.x;
    double2* values = (double2*)shared;  // (K, agents)
    double2* others = values + K * agents;
    double2* kept = state + (long long)blockIdx.x * agents * K;
    Agent player(*world_at, *tally_at, *span_at, at, numbers);
    if (is_there)
        for (int k = 0; k < K; k++) values[k * agents + agent] = kept[k * agents + agent];
    for (int r = 0; r < rounds; r++) {
        __syncthreads();  // the last round is over
        if (is_there) {
            average(links, agent, values, agents, 1, others + agent);
            player.play(r, times[r], others + agent, agents);
        }
        double2* swapped = values;
        values = others;
        others = swapped;
    }
    if (!is_there) return;
    player.book(rounds);
    for (int k = 0; k < K; k++) kept[k * agents + agent] = values[k * agents + agent];
}

// One round on a graph that does not fit into shared memory: thread = agent, rows in memory.
KERNEL(one_round, 128, RESIDENT,
       (const World* world_at, const Tally* tally_at, const Span* span_at, const int* indptr,
        const int* indices, const double* weights, const double2* before, double2* after,
        const double* times, const double* numbers)) {
    const Links links = {indptr, indices, weights};
    const long long at = (long long)blockIdx.x * 128 + threadIdx.x;
    if (at >= world_at->agents * world_at->runs) return;
    Agent player(*world_at, *tally_at, *span_at, at, numbers);
    const long long first = player.books.run * world_at->agents * K;
    double2* own = after + first + player.books.agent * (long long)K;
    average(links, player.books.agent, before + first, 1, K, own);
    player.play(0, times[0], own, 1);
    player.book(1);
}
