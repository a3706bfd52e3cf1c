// What all kernels are given, and how a pull is booked. Places of agents are agent·runs + run.
#pragma once
#include "leaves.h"

struct World {
    const double* tables;      // (versions, rows, WIDTH)
    const double* prices;      // (versions, rows, 3)
    const long long* places;   // (agents,) the first row of every agent
    const long long* starts;   // (segments,)
    const double2* cubics;
    const word_t* reward_keys;    // (runs,)
    const word_t* decision_keys;  // (runs,)
    long long agents, runs, rows, versions, segments, period;
};
struct Tally {
    unsigned long long* counts;  // (runs, slots, K) pulls between recorded rounds
    double* ledger;              // (LINES, agents·runs) reward, regret, and more with many tables
    double* noted;               // (LINES, slots of this span, agents·runs) the same at its stops
    int* arms;                   // (runs, agents, horizon) where kept
    int* made;                   // (agents·runs, K) where kept
    int* trouble;                // 1: a value is no number; 2: an arm was picked that there is not
    long long slots, horizon;
};
struct Span {
    long long first, rounds;
    const long long* stops;  // rounds from `first` on after which totals are noted; the last is far
    long long slot, num_stops;
};

__device__ __forceinline__ long long place_of_segment(const World& world, long long done,
                                                      long long* border) {
    if (world.segments == 1) {
        *border = 1ll << 62;
        return 0;
    }
    long long within = world.period > 0 ? done % world.period : done, low = 0;
    long long high = world.segments;
    while (low < high) {
        long long middle = (low + high) / 2;
        if (world.starts[middle] <= within) low = middle + 1; else high = middle;
    }
    if (low < world.segments) *border = done - within + world.starts[low];
    else *border = world.period > 0 ? done - within + world.period : 1ll << 62;
    return (low - 1) * K;
}

// One agent's bookings: pulls of one arm are entered together when it is left or a round recorded.
struct Books {
    const World& world;
    const Tally& tally;
    const Span& span;
    long long at, agent, run, everywhere, place, border;
    const double *rows, *prices;
    double reward, regret;
#if LINES > 2
    double common, best;
#endif
    int passed;

    __device__ Books(const World& w, const Tally& t, const Span& s, long long at_)
        : world(w), tally(t), span(s), at(at_) {
        agent = at / world.runs;
        run = at % world.runs;
        everywhere = world.agents * world.runs;
        long long version = world.versions > 1 ? run * world.rows : 0;
        rows = world.tables + version * WIDTH;
        prices = world.prices + version * 3;
        reward = tally.ledger[at];
        regret = tally.ledger[everywhere + at];
#if LINES > 2
        common = tally.ledger[3 * everywhere + at];
        best = tally.ledger[4 * everywhere + at];
#endif
        passed = 0;
        border = -1;
        place = 0;
    }
    __device__ __forceinline__ const double* row(int arm) const {
        return rows + (place + arm) * WIDTH;
    }
    __device__ __forceinline__ bool enters_segment(long long done) const { return done >= border; }
    __device__ __forceinline__ void enter_segment(long long done) {
        place = world.places[agent] + place_of_segment(world, done, &border);
    }
    __device__ void enter(int arm, long long start, long long end, double gained) {
        // Lanes of a warp that book into the same place do so together.
        long long target = (run * tally.slots + span.slot + passed) * K + arm;
        unsigned same = __match_any_sync(__activemask(), target);
        unsigned pulls = __reduce_add_sync(same, unsigned(end - start));
        if (int(threadIdx.x & 31) == __ffs(same) - 1)
            atomicAdd(tally.counts + target, (unsigned long long)pulls);
        reward += gained;
        const double* price = prices + (place + arm) * 3;
        regret += (end - start) * price[0];
#if LINES > 2
        common += (end - start) * price[1];
        best += (end - start) * price[2];
#endif
#if KEEPS_PULLS
        tally.made[at * K + arm] += int(end - start);
#endif
#if KEEPS_ARMS
        int* kept = tally.arms + (run * world.agents + agent) * tally.horizon + span.first;
        for (long long r = start; r < end; r++) kept[r] = arm;
#endif
    }
    __device__ __forceinline__ bool stops_after(long long round) const {
        return round + 1 == span.stops[passed];
    }
    __device__ void note() {
        double* noted = tally.noted + passed * everywhere + at;
        long long line = span.num_stops * everywhere;
        noted[0] = reward;
        noted[line] = regret;
#if LINES > 2
        noted[2 * line] = regret;
        noted[3 * line] = common;
        noted[4 * line] = best;
#endif
        passed++;
    }
    __device__ void close() {
        tally.ledger[at] = reward;
        tally.ledger[everywhere + at] = regret;
#if LINES > 2
        tally.ledger[3 * everywhere + at] = common;
        tally.ledger[4 * everywhere + at] = best;
#endif
    }
};
