// Agents play a span of rounds alone, on totals that they read at its start. Thread = agent.
#include "world.h"
#if !HAS_BONUS
#include "choice.h"
#endif

#define STRETCH 128     // rounds for which one bound on the other arms is used
#define FLOATING 1e-6f  // of means and widths: more than a comparison in floats is off by

struct Reading {
    double factor, weight, least, num_agents;
    long long own_pulls;
    long long is_anew;  // whether what `fresh` holds is old: then it is not read, nor need be cleared
};

// An arm's index s/n + √(a/n) as mean + width·√a.
__device__ __forceinline__ real2 mean_and_width(real total, real count, real least) {
    if (count <= least) return make_real2(INF, 0);
    return make_real2(total / count, rsqrt(count));
}

#if HAS_BONUS
// The next variates of one agent, BLOCK apart; those in the tails are put off and made together.
__device__ __forceinline__ void make_variates(word_t key, long long done, const real2* cubics,
                                              real* variates) {
    unsigned tails = 0;
    UNROLL for (int i = 0; i < NEAR; i++) {
        word_t word = word_at(key, done + i);
#if IS_NORMAL
        variates[i * BLOCK] = centre_normal(word, cubics);
        tails |= is_tail(word) ? 1u << i : 0u;
#else
        variates[i * BLOCK] = uniform_of(word);
#endif
    }
    while (tails) {
        int i = __ffs(tails) - 1;
        tails &= tails - 1;
        variates[i * BLOCK] = tail_called(word_at(key, done + i));
    }
}

// As `_play_own_pulls` of the CPU engine: all arms are looked at only when the arm in play may have
// lost its lead, which a bound on the others tells without division and root. Looks compare floats,
// which take half the registers of doubles; arms too close for those are compared once more.
struct Player {
    float mean[K], width[K];
    float widest = 0, largest = 1;  // no width nor size of a mean is larger
    real2* totals;  // of this thread, BLOCK apart
    real total, count, bound, exploration;
    bool must_look;
    int arm;

    __device__ Player(real2* totals_, const Reading& reading) : totals(totals_) {
        UNROLL for (int k = 0; k < K; k++) {
            real2 found = mean_and_width(totals[k * BLOCK].x, totals[k * BLOCK].y,
                                         real(reading.least));
            mean[k] = float(found.x);
            width[k] = float(found.y);
            include(mean[k], width[k]);
        }
        arm = -1;
        must_look = true;
    }
    __device__ __forceinline__ void include(float its_mean, float its_width) {
        widest = fmax(widest, its_width);
        largest = its_width > 0 ? fmax(largest, fabs(its_mean)) : largest;
    }
    __device__ __forceinline__ void leave(const Reading& reading) {
        if (arm < 0) return;
        totals[arm * BLOCK] = make_real2(total, count);
        real2 found = mean_and_width(total, count, real(reading.least));
        const float its_mean = float(found.x), its_width = float(found.y);
        UNROLL for (int k = 0; k < K; k++) {
            mean[k] = k == arm ? its_mean : mean[k];
            width[k] = k == arm ? its_width : width[k];
        }
        include(its_mean, its_width);
    }
    __device__ __forceinline__ int look(real now, real later, const Reading& reading) {
        const real root = sqrt(now);
        const float near_root = float(root);
        float best = -1e30f, second = -1e30f;
        int found = 0;
        UNROLL for (int k = 0; k < K; k++) {
            const float value = mean[k] + width[k] * near_root;
            found = value > best ? k : found;
            second = fmax(second, fmin(best, value));
            best = fmax(best, value);
        }
        const float unsure = FLOATING * (largest + widest * near_root);
        bound = second + widest * float(sqrt(later) - root) + unsure;
        exploration = now;
        if (best - second > unsure && best < INF) return found;
        return look_closer(root, totals, real(reading.least));
    }
    __device__ __noinline__ static int look_closer(real root, const real2* totals, real least) {
        real best = LOWEST;
        for (int k = 0; k < K; k++) {
            best = fmax(best, value_of(totals[k * BLOCK], root, least));
            if (best == INF) return k;
        }
        const real enough = best - TIE * fmax(real(1), fabs(best));
        for (int k = 0; k < K; k++)
            if (value_of(totals[k * BLOCK], root, least) >= enough) return k;
        return 0;
    }
    __device__ __forceinline__ static real value_of(real2 total, real root, real least) {
        const real2 found = mean_and_width(total.x, total.y, least);
        return found.x + found.y * root;
    }
    __device__ __forceinline__ void take(int found) {
        arm = found;
        must_look = false;
        total = totals[arm * BLOCK].x;
        count = totals[arm * BLOCK].y;
    }
    __device__ __forceinline__ void add(real reward, real weight) {
        total += weight * reward;
        count += weight;
        real lack = bound * count - total;
        must_look = lack > 0 && exploration * count <= lack * lack;
    }
};
#endif

// `levels`: a of the bonus in every round, or the time where the index has none.
KERNEL(play, BLOCK, RESIDENT,
       (const World* world_at, const Tally* tally_at, const Span* span_at, const real2* read,
        real2* fresh, const real* levels, const Reading* reading_at, const real* numbers,
        int* live)) {
    SHARED(shared);
    const World& world = *world_at;
    const Tally& tally = *tally_at;
    const Span& span = *span_at;
    const Reading& reading = *reading_at;
    const real weight = real(reading.weight), factor = real(reading.factor);
    const bool own_pulls = reading.own_pulls;
    const int rounds = int(span.rounds);
    const long long everywhere = world.agents * world.runs;
    const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (at >= everywhere) return;
    real2* totals = (real2*)shared + threadIdx.x;
    UNROLL for (int k = 0; k < K; k++) {
        real2 settled = read[k * everywhere + at];
        totals[k * BLOCK] = make_real2(factor * settled.x, factor * settled.y);
    }
    double* ledger = (double*)((real2*)shared + K * BLOCK) + threadIdx.x;
    Books books(world, tally, span, at, ledger, BLOCK);
    books.open();
    const bool is_crowded = world.runs < 32;
    const word_t key = word_at(world.reward_keys[books.run], books.agent);
    real gained = 0;
    real2 aged = make_real2(0, 0);  // the same pulls in units of the span
    int start = 0, arm = 0;
    const bool is_anew = reading.is_anew;  // for up to 64 arms
    word_t booked = is_anew ? 0 : ~0ull;   // arms of which something is there
    auto book = [&](int end) {
        if (end == start) return;
        real2* own = fresh + arm * everywhere + at;
        if (!FORGETS) aged = make_real2(gained, real(end - start));
        if (booked >> (arm % 64) & 1) aged = make_real2(own->x + aged.x, own->y + aged.y);
        booked |= word_t(1) << (arm % 64);
        *own = aged;
        aged = make_real2(0, 0);
        int* alive = live + arm * ((world.runs + 31) / 32) + books.run / 32;
        if (*alive == 0) *alive = 1;
        books.enter(arm, start, end, gained, is_crowded);
        gained = 0;
        start = end;
    };
#if HAS_BONUS
    real* variates = (real*)(ledger + LINES * BLOCK - threadIdx.x) + threadIdx.x;
    Player player(totals, reading);
#else
    const word_t words = word_at(world.decision_keys[books.run], books.agent);
    numbers += books.agent * NUMBERS;
#endif
    Row row = {};
    const real2* const cubics = world.cubics;
    const long long first = span.first;
    const int stretch = own_pulls ? STRETCH - 1 : -1;  // then only round 0 has none of its bits
    int due = 0;  // the next round before which something must be done
    for (int r = 0;; r++) {
        int chosen = arm;
#if HAS_BONUS
        if (r % NEAR == 0 && r < rounds) make_variates(key, first + r, cubics, variates);
        if ((player.must_look || (r & stretch) == 0) && r < rounds) {
            player.leave(reading);
            int last = (r / STRETCH + 1) * STRETCH;
            last = own_pulls && last < rounds ? last : rounds;
            chosen = player.look(levels[r], levels[last - 1], reading);
            player.take(chosen);
        }
#else
        if ((r == 0 || own_pulls || IS_RANDOM || FORGETS) && r < rounds) {
            const Estimate estimate = estimate_of(totals, BLOCK, age_of(span, r).y, levels[r],
                                                  real(reading.num_agents));
            chosen = choose(estimate, IS_RANDOM ? word_at(words, first + r) : 0, numbers, cubics,
                            tally.trouble);
        }
#endif
        // What is pulled of one arm is booked when it is left, and when others need to know.
        if (r == due || chosen != arm) {
            book(r);
            if (r == books.stop) books.note();
            if (r >= books.border) books.enter_segment(r);
            if (r == rounds) break;
            due = books.stop < books.border ? books.stop : books.border;
            due = due < rounds ? due : rounds;
            arm = chosen;
            row.take(books.row(arm));
        }
#if HAS_BONUS
        real reward = row.reward(variates[r % NEAR * BLOCK]);
        if (own_pulls) player.add(reward, weight);
#else
        real reward = row.reward(variate_of(word_at(key, first + r), cubics));
        const real age = age_of(span, r).x;
        aged = make_real2(aged.x + age * reward, aged.y + age);
        if (own_pulls) {
            real2* own = totals + arm * BLOCK;
            *own = make_real2(own->x + weight * age * reward, own->y + weight * age);
        }
#endif
        gained += reward;
    }
    books.close();
    for (int k = 0; k < K && is_anew; k++)
        if (!(booked >> (k % 64) & 1)) fresh[k * everywhere + at] = make_real2(0, 0);
    if (const real end = age_of(span, rounds).y; end != 1) {
        for (int k = 0; k < K; k++) {
            real2* own = fresh + k * everywhere + at;
            *own = make_real2(end * own->x, end * own->y);
        }
    }
}
