// Adds up what agents noted, FAN of them at a time in a fixed order: the same bits in any batch.
// In the end there is one for every line, run and recorded round: of `width` rounds these are the
// `first` and next.
#define FAN 64
KERNEL(fold, 128, 1,
       (const double* noted, double* folded, long long slots, long long size, long long runs,
        long long lines, long long first, long long width)) {
    const long long left = (size + FAN - 1) / FAN;
    const long long at = (long long)blockIdx.x * 128 + threadIdx.x;
    if (at >= lines * slots * left * runs) return;
    const long long run = at % runs, part = at / runs % left, row = at / runs / left;
    const double* from = noted + (row * size + part * FAN) * runs + run;
    const long long end = size - part * FAN < FAN ? size - part * FAN : FAN;
    const long long line = row / slots, slot = row % slots;
    const bool is_regret = line == 1;  // of which the largest is asked for
    double found = 0.0;
    for (long long i = 0; i < end; i++) {
        double value = from[i * runs];
        found = is_regret ? (value > found ? value : found) : found + value;
    }
    folded[left > 1 ? (row * left + part) * runs + run : (line * runs + run) * width + first + slot] =
        found;
}

// Pulls between recorded rounds become pulls up to them. Thread = arm of a run.
KERNEL(accumulate, 128, 1,
       (unsigned long long* counts, long long slots, long long arms, long long runs)) {
    const long long at = (long long)blockIdx.x * 128 + threadIdx.x;
    if (at >= runs * arms) return;
    unsigned long long* pulls = counts + at / arms * slots * arms + at % arms;
    for (long long slot = 1; slot < slots; slot++) pulls[slot * arms] += pulls[(slot - 1) * arms];
}
