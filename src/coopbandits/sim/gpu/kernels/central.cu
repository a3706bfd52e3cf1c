// One controller of all agents: block = run, thread = agent. It sees what was known when the round
// began, or KEPT - 1 rounds before.
#include "agent.h"

KERNEL_WITH_BARRIERS(central, THREADS, RESIDENT,
                     (const World* world_at, const Tally* tally_at, const Span* span_at,
                      real2* history, real2* sums, const real* numbers)) {
    SHARED(shared);
    const int agents = int(world_at->agents), rounds = int(span_at->rounds);
    const bool is_there = int(threadIdx.x) < agents;
    const int agent = is_there ? threadIdx.x : 0;
    real2 *totals = (real2*)shared, *visible = totals + K;
    double* ledger = (double*)(visible + K);
    real* rewards = (real*)(ledger + LINES * agents);
    int* arms = (int*)(rewards + agents);
    real2 *kept = history + (long long)blockIdx.x * KEPT * K, *known = sums + blockIdx.x * K;
    Agent player(Books(*world_at, *tally_at, *span_at, agent * world_at->runs + blockIdx.x,
                       ledger + agent, agents),
                 numbers, false);
    if (is_there) player.books.open();
    for (int k = threadIdx.x; k < K; k += THREADS) totals[k] = known[k];
    for (int r = 0; r < rounds; r++) {
        const long long done = span_at->first + r, row = done % KEPT * K;
        for (int k = threadIdx.x; k < K; k += THREADS) visible[k] = kept[row + k];
        __syncthreads();  // all see what is known
        if (is_there) {
            real time = 0;
            bool is_known = true;
            for (int k = 0; k < K; k++) {
                time += visible[k].y;
                is_known = is_known && visible[k].y > 0;
            }
            const real age = age_of(*span_at, r).y;
            const Estimate estimate = estimate_of(visible, 1, age, larger(2, age * time), 1);
            arms[agent] = KEPT > 1 && !is_known ? int(done % K) : player.chosen(r, estimate);
            rewards[agent] = player.pull(r, arms[agent]);
        }
        __syncthreads();  // all have pulled
        for (int k = threadIdx.x; k < K; k += THREADS) {
            real2 total = totals[k];
            const real age = age_of(*span_at, r).x;
            UNROLL_BY(8) for (int other = 0; other < agents; other++) {
                const bool is_its = arms[other] == k;
                total.x += is_its ? age * rewards[other] : 0;
                total.y += is_its ? age : 0;
            }
            totals[k] = kept[row + k] = total;
        }
    }
    const real end = age_of(*span_at, rounds).y;
    for (int k = threadIdx.x; k < K; k += THREADS) {
        known[k] = make_real2(end * totals[k].x, end * totals[k].y);
        for (int at = k; at < KEPT * K && end != 1; at += K)
            kept[at] = make_real2(end * kept[at].x, end * kept[at].y);
    }
    if (!is_there) return;
    player.book(rounds);
    player.books.close();
}
