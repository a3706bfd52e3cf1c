// What all kernels are given, and how a pull is booked. Places of agents are agent·runs + run.
#pragma once
#include "leaves.h"

struct World {
    const real* tables;        // (versions, rows, WIDTH)
    const double* prices;      // (versions, rows, 3)
    const long long* places;   // (agents,) the first row of every agent
    const long long* starts;   // (segments,)
    const real2* cubics;
    const word_t* reward_keys;    // (runs,)
    const word_t* decision_keys;  // (runs,)
    long long agents, runs, rows, versions, segments, period;
};
struct Tally {
    unsigned long long* counts;  // (slots, runs, K) pulls between recorded rounds
    double* ledger;              // (LINES, agents·runs) reward, regret, and more with many tables
    double* noted;               // (LINES, slots of this span, agents·runs) the same at its stops
    int* arms;                   // (runs, agents, horizon) where kept
    int* made;                   // (agents·runs, K) where kept
    int* trouble;                // 1: an index raised an error or is NaN; 2: its pick failed
    long long horizon;
};
struct Span {
    long long first, rounds;
    const long long* stops;  // rounds from `first` on after which totals are noted; the last is far
    long long slot, num_stops;
    const real2* ages;  // with FORGETS, as `age_of` says, and once more for the end of the span
};
// What a pull of a round counts in units of the span, and what a unit counts then: what agents
// remember ages without being touched (see `sim.cpu.ageing`).
__device__ __forceinline__ real2 age_of(const Span& span, int r) {
#if FORGETS
    return span.ages[r];
#else
    return make_real2(1, 1);
#endif
}

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
// Little is kept at hand, since registers are dear, and bookings are rare.
struct Books {
    const World& world;
    const Tally& tally;
    const Span& span;
    const long long at;  // agent·runs + run
    const int agent, run;
    double* const ledger;  // of this agent, its lines `apart` from each other: shared memory, or all
    const long long apart;
    int place = 0, border = -1, stop, passed = 0;  // border and stop are counted within the span

    __device__ Books(const World& w, const Tally& t, const Span& s, long long at_, double* ledger_,
                     long long apart_)
        : world(w), tally(t), span(s), at(at_), agent(int(unsigned(at_) / unsigned(w.runs))),
          run(int(unsigned(at_) % unsigned(w.runs))), ledger(ledger_), apart(apart_) {
        stop = near(span.stops[0]);
    }
    // Many bookings go into a ledger in shared memory, which is opened before and closed after them.
    __device__ __forceinline__ void open() {
        const long long all = world.agents * world.runs;
        UNROLL for (int i = 0; i < LINES; i++) ledger[i * apart] = tally.ledger[i * all + at];
    }
    __device__ __forceinline__ void close() {
        const long long all = world.agents * world.runs;
        UNROLL for (int i = 0; i < LINES; i++) tally.ledger[i * all + at] = ledger[i * apart];
    }
    __device__ static int near(long long rounds) {
        return rounds < (1 << 30) ? int(rounds) : 1 << 30;
    }
    __device__ long long row_of(int arm) const {
        return (world.versions > 1 ? run * world.rows : 0) + place + arm;
    }
    __device__ __forceinline__ const real* row(int arm) const {
        return world.tables + row_of(arm) * WIDTH;
    }
    __device__ void enter_segment(int r) {
        long long ends, done = span.first + r;
        place = int(world.places[agent] + place_of_segment(world, done, &ends));
        border = near(ends - span.first);
    }
    // `is_crowded`: all warps book into few places, so that lanes with the same one do so together.
    __device__ void enter(int arm, int start, int end, double gained, bool is_crowded) {
        long long target = ((span.slot + passed) * world.runs + run) * K + arm;
        unsigned pulls = unsigned(end - start);
        bool is_first = true;
        if (is_crowded) {
            unsigned same = __match_any_sync(__activemask(), target);
            pulls = __reduce_add_sync(same, pulls);
            is_first = int(threadIdx.x & 31) == __ffs(same) - 1;
        }
        if (is_first) atomicAdd(tally.counts + target, (unsigned long long)pulls);
        const double* price = world.prices + row_of(arm) * 3;
        ledger[0] += gained;
        ledger[apart] += (end - start) * price[0];
#if LINES > 2
        ledger[3 * apart] += (end - start) * price[1];
        ledger[4 * apart] += (end - start) * price[2];
#endif
#if KEEPS_PULLS
        tally.made[at * K + arm] += end - start;
#endif
#if KEEPS_ARMS
        int* kept = tally.arms + (run * world.agents + agent) * tally.horizon + span.first;
        for (int r = start; r < end; r++) kept[r] = arm;
#endif
    }
    // Writes down where the ledger stands after a recorded round.
    __device__ void note() {
        const long long all = world.agents * world.runs;
        for (int line = 0; line < LINES; line++)
            tally.noted[(line * span.num_stops + passed) * all + at] =
                ledger[(line == 2 ? 1 : line) * apart];
        stop = near(span.stops[++passed]);
    }
};
