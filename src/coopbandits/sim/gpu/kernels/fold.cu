// Adds up what agents noted, FAN of them at a time in a fixed order: the same bits in any batch.
// In the end there is one for every recorded round, line and run: these are the rounds from `first`.
#define FAN 64
KERNEL(fold, 128, 1,
       (const double* noted, double* folded, long long slots, long long size, long long runs,
        long long lines, long long first)) {
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
    folded[left > 1 ? (row * left + part) * runs + run
                    : ((first + slot) * lines + line) * runs + run] = found;
}

// Pulls between recorded rounds become pulls up to them, for some rounds from `first`; `size` is
// runs times arms, and a thread has one of them.
KERNEL(accumulate, 128, 1,
       (unsigned long long* counts, long long first, long long slots, long long size)) {
    const long long at = (long long)blockIdx.x * 128 + threadIdx.x;
    if (at >= size) return;
    unsigned long long pulls = first > 0 ? counts[(first - 1) * size + at] : 0;
    for (long long slot = first; slot < first + slots; slot++)
        pulls = counts[slot * size + at] += pulls;
}
