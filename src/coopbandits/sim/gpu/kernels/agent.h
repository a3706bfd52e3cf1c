#pragma once
#include "choice.h"

// One agent that chooses and pulls; pulls of one arm in a row are booked together.
struct Agent {
    Books books;
    const word_t key, words;
    const real* numbers;
    const bool is_crowded;
    Row row = {};
    real gained = 0;
    int arm = 0, start = 0;

    __device__ Agent(const Books& books_, const real* numbers_, bool is_crowded_)
        : books(books_), key(word_at(books.world.reward_keys[books.run], books.agent)),
          words(word_at(books.world.decision_keys[books.run], books.agent)),
          numbers(numbers_ + books.agent * NUMBERS), is_crowded(is_crowded_) {}

    __device__ void book(int end) {
        if (end > start) books.enter(arm, start, end, gained, is_crowded);
        start = end;
        gained = 0;
    }
    __device__ __forceinline__ int chosen(int r, const Estimate& estimate) const {
        return choose(estimate, IS_RANDOM ? word_at(words, books.span.first + r) : 0, numbers,
                      books.world.cubics, books.tally.trouble);
    }
    // Pulls an arm and returns its reward; what is due after the round is booked and noted.
    __device__ __forceinline__ real pull(int r, int chosen) {
        bool is_elsewhere = r >= books.border;
        if (is_elsewhere || chosen != arm) {
            book(r);
            if (is_elsewhere) books.enter_segment(r);
            arm = chosen;
            row.take(books.row(arm));
        }
        const word_t word = word_at(key, books.span.first + r);
        const real reward = row.reward(variate_of(word, books.world.cubics));
        gained += reward;
        if (r + 1 == books.stop) {
            book(r + 1);
            books.note();
        }
        return reward;
    }
    // On averages of its own, to which the pull is added.
    __device__ __forceinline__ void play(int r, real time, real2* own, int stride) {
        const real agents = real(books.world.agents);
        const real2 age = age_of(books.span, r);
        const Estimate estimate = estimate_of(own, stride, agents * age.y, time, agents);
        const real reward = pull(r, chosen(r, estimate));
        real2* its = own + arm * stride;
        *its = make_real2(its->x + age.x * reward, its->y + age.x);
    }
};
