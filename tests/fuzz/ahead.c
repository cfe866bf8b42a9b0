/* Readers, workers and damaged batches, without Python: tests/fuzz/ahead.py builds it with sanitizers and runs it.
 *
 *     ahead CORPUS INPUTS SEED READERS MODE
 *
 * Each reader has a queue of its own. It makes record sets of batches of the corpus, some of them changed, in memory of their own,
 * queues them, and reads them: all, some, or none, in order, now and then late. What comes out is compared with what this
 * thread alone makes of the same bytes; memory is freed as soon as it may be, so that a sanitizer sees a worker that still reads
 * it. MODE: "plain"; "faults": workers are late, or have no memory; "forks": children go on with what was queued; "dying":
 * workers vanish in the middle of their work.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ahead.h"
#include "crc32c.h"
#include "decompress.h"

enum { OVERHEAD = 61, CRC_START = 21, MOST_BATCHES = 40, MOST_SETS = 4, MOST_CORPUS = 100000 };

typedef struct entry {
    int codec;
    uint32_t size;
    uint8_t *bytes;
} entry;

static entry corpus[MOST_CORPUS];
static size_t corpus_count;
static const char *mode;
static uint64_t inputs, seed, begun; /* the last one is atomic */
static uint64_t totals[12];          /* atomic */
enum { READY, OWNED, LATE_WAITS, DAMAGED_FOUND, WRONG_CRC_FOUND, SKIPPED, ENDED_EARLY, VIEWS_KEPT, FORKS, WORKERS, HELPED, LATE };
static const char *NAMES[12] = {"done ahead", "by the reader", "waits", "damaged", "wrong checksums", "skipped", "ended early",
                                "views kept", "forks", "by workers", "helped", "late"};

static void count(int what, uint64_t more) { __atomic_add_fetch(&totals[what], more, __ATOMIC_RELAXED); }

static void fail(const char *why) {
    fprintf(stderr, "wrong: %s\n", why);
    abort();
}

static uint64_t next(uint64_t *state) { /* splitmix64 */
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static size_t below(uint64_t *state, size_t most) { return most ? (size_t)(next(state) % most) : 0; }

static void pause_us(unsigned us) {
    struct timespec time = {0, (long)us * 1000};
    nanosleep(&time, NULL);
}

typedef struct set {
    uint8_t *data;
    size_t count, at;
    size_t positions[MOST_BATCHES], sizes[MOST_BATCHES];
    int codecs[MOST_BATCHES];
    pyconsumer_job *job;
} set;

static void damage(uint64_t *state, uint8_t *batch, size_t size) {
    size_t changes = 1 + below(state, 3);
    while (changes--) {
        size_t at = OVERHEAD + below(state, size - OVERHEAD);
        switch (below(state, 4)) {
        case 0: batch[at] ^= (uint8_t)(1u << below(state, 8)); break;
        case 1: batch[at] = (uint8_t)next(state); break;
        case 2: batch[OVERHEAD + below(state, size - OVERHEAD < 24 ? size - OVERHEAD : 24)] = (uint8_t)next(state); break;
        default: batch[at] = below(state, 2) ? 0xFF : 0; break;
        }
    }
}

static void put_u32(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

static uint32_t get_u32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Whether all is new; then the number of inputs has been counted. */
static int make_set(uint64_t *state, set *made) {
    const entry *chosen[MOST_BATCHES];
    size_t total = 0, i, wanted = 1 + below(state, below(state, 4) ? 6 : MOST_BATCHES);
    if (__atomic_add_fetch(&begun, wanted, __ATOMIC_RELAXED) > inputs + MOST_BATCHES * 64) return 0;
    for (i = 0; i < wanted; i++) {
        chosen[i] = &corpus[below(state, corpus_count)];
        total += chosen[i]->size;
    }
    made->data = malloc(total);
    made->count = wanted;
    made->at = 0;
    for (i = 0, total = 0; i < wanted; i++) {
        uint8_t *batch = made->data + total;
        size_t size = chosen[i]->size;
        memcpy(batch, chosen[i]->bytes, size);
        if (size > OVERHEAD && below(state, 2)) {
            if (below(state, 8)) size -= below(state, 4) ? 0 : below(state, size - OVERHEAD);
            damage(state, batch, chosen[i]->size);
            if (below(state, 8)) put_u32(batch + 17, crc32c_of(batch + CRC_START, size - CRC_START, 0, 1));
        }
        made->positions[i] = total;
        made->sizes[i] = size;
        made->codecs[i] = chosen[i]->codec;
        total += size;
    }
    return 1;
}

static void compare(const set *it, size_t index, size_t limit, int check_crcs, const pyconsumer_found *found, void *context,
                    uint64_t *state) {
    const uint8_t *batch = it->data + it->positions[index];
    size_t size = it->sizes[index], written = 0;
    pyconsumer_extent extent;
    uint8_t *output;
    int result;
    int is_right = !check_crcs || crc32c_of(batch + CRC_START, size - CRC_START, 0, 1) == get_u32(batch + 17);
    if (is_right != found->has_right_crc) fail("a checksum");
    if (!is_right) {
        if (found->output != NULL) fail("output in spite of a wrong checksum");
        count(WRONG_CRC_FOUND, 1);
        return;
    }
    if (found->result == PYCONSUMER_UNPACKED && below(state, 4)) return; /* all are read, some are compared */
    result = pyconsumer_bound(it->codecs[index], batch + OVERHEAD, size - OVERHEAD, limit, &extent);
    if (result == PYCONSUMER_UNPACKED) {
        output = malloc(extent.bound ? extent.bound : 1);
        result = pyconsumer_unpack(it->codecs[index], 2, batch + OVERHEAD, size - OVERHEAD, &extent, context, output, &written);
        if (result == PYCONSUMER_UNPACKED && found->result == PYCONSUMER_UNPACKED) {
            if (written != found->written || memcmp(output, found->output, written) != 0) fail("an output");
        }
        free(output);
    }
    if (result != found->result) fail("a result");
    if ((found->output != NULL) != (result == PYCONSUMER_UNPACKED)) fail("output in spite of damage, or none");
    if (result != PYCONSUMER_UNPACKED) count(DAMAGED_FOUND, 1);
}

static void free_ended_views(void) {
    void *view;
    while ((view = pyconsumer_ended_view()) != NULL) free(view);
}

/* Reads up to so many batches of a set; 1 when it is at the end. */
static int read_set(uint64_t *state, set *it, size_t most, size_t limit, int check_crcs, void *context) {
    for (; most && it->at < it->count; it->at++, most--) {
        pyconsumer_found found;
        size_t position = it->positions[it->at];
        int is;
        if (below(state, 12) == 0) {
            count(SKIPPED, 1);
            continue;
        }
        is = pyconsumer_job_reach(it->job, position, &found);
        if (is == PYCONSUMER_BUSY) {
            count(LATE_WAITS, 1);
            if (below(state, 2)) is = pyconsumer_job_wait(it->job, position, below(state, 300000), 0, &found);
            if (is == PYCONSUMER_BUSY) is = pyconsumer_job_wait(it->job, position, below(state, 3) ? 5000000 : below(state, 30000), 1, &found);
            if (is == PYCONSUMER_BUSY) fail("busy after the last wait");
        }
        if (is == PYCONSUMER_OWN) {
            count(OWNED, 1);
            continue;
        }
        count(READY, 1);
        compare(it, it->at, limit, check_crcs, &found, context, state);
        if (found.output != NULL) {
            uint8_t sum = 0;
            size_t i;
            for (i = 0; i < found.written; i += 64) sum ^= found.output[i];
            found.output[0] = sum; /* it is ours */
            pyconsumer_give_back(found.output, found.capacity);
        }
    }
    return it->at == it->count;
}

static void end_set(set *it) {
    if (it->at < it->count) count(ENDED_EARLY, 1);
    if (pyconsumer_job_end(it->job, it->data)) {
        free(it->data);
    } else {
        count(VIEWS_KEPT, 1);
    }
}

static void session(uint64_t *state, void *context, int may_fork) {
    size_t limit = below(state, 8) ? 1 << 20 : 20000, rounds = 1 + below(state, 60), i, open = 0;
    int check_crcs = below(state, 4) != 0, is_early;
    size_t room = (size_t)4096 << below(state, 11);
    pyconsumer_queue *queue = pyconsumer_queue_new(1 + (int)below(state, 4), room, below(state, 4) ? 1 : 50000);
    set sets[MOST_SETS];
    pyconsumer_counts counts;
    while (rounds--) {
        if (open < MOST_SETS && below(state, 3)) {
            set *it = &sets[open];
            if (!make_set(state, it)) break;
            it->job = pyconsumer_job_new(queue, it->data, it->count, limit, check_crcs);
            for (i = 0; i < it->count; i++) {
                uint8_t *batch = it->data + it->positions[i];
                pyconsumer_job_add(it->job, it->positions[i], it->sizes[i], it->codecs[i], get_u32(batch + 17));
            }
            pyconsumer_job_start(it->job);
            open++;
        } else if (open) {
            size_t which = below(state, 8) ? 0 : below(state, open); /* the first one, as a rule */
            set *it = &sets[which];
            if (read_set(state, it, 1 + below(state, 20), limit, check_crcs, context) || below(state, 16) == 0) {
                end_set(it);
                memmove(it, it + 1, (open - which - 1) * sizeof *it);
                open--;
            }
        }
        if (below(state, 16) == 0) free_ended_views();
        if (below(state, 8) == 0) pause_us((unsigned)below(state, 300));
        if (may_fork && below(state, 40) == 0) {
            pid_t child = fork();
            int status = 0;
            if (child == 0) {
                uint64_t own = *state + 1;
                pyconsumer_ahead_fault(PYCONSUMER_WORKERS_DO_NOT_START, 0); /* so that nobody changes the counts */
                for (i = 0; i < open; i++) {
                    read_set(&own, &sets[i], MOST_BATCHES, limit, check_crcs, context);
                    end_set(&sets[i]);
                }
                pyconsumer_queue_counts(queue, &counts);
                if (counts.jobs || counts.held || counts.threads) fail("something is left in a child that has no worker");
                pyconsumer_ahead_fault(PYCONSUMER_NO_FAULT, 0);
                pyconsumer_queue_free(queue);
                free_ended_views();
                session(&own, context, 0);
                _exit(0);
            }
            count(FORKS, 1);
            if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("a child");
        }
    }
    for (i = 0; i < open; i++) end_set(&sets[i]);
    is_early = below(state, 4) == 0; /* then the queue goes while workers are still at jobs that have ended */
    for (i = 0; pyconsumer_queue_counts(queue, &counts), counts.jobs && !is_early && strcmp(mode, "dying") != 0; i++) {
        if (i == 100000) fail("a job that has ended stays");
        pause_us(100);
    }
    if (!counts.jobs && counts.held) fail("output that nobody has");
    count(WORKERS, counts.workers);
    count(HELPED, counts.helped);
    count(LATE, counts.late);
    pyconsumer_queue_free(queue);
    free_ended_views();
}

static void *read_on(void *number) {
    uint64_t state = seed * 1000003u + (uint64_t)(size_t)number;
    void *context = pyconsumer_new_context();
    while (__atomic_load_n(&begun, __ATOMIC_RELAXED) < inputs) {
        if (strcmp(mode, "faults") == 0) {
            pyconsumer_ahead_fault(below(&state, 4) ? PYCONSUMER_NO_FAULT : PYCONSUMER_WORKERS_HAVE_NO_MEMORY + (int)below(&state, 2),
                                   below(&state, 2) ? (unsigned)below(&state, 2000) : 0);
        } else if (strcmp(mode, "dying") == 0) {
            pyconsumer_ahead_fault(below(&state, 50) ? PYCONSUMER_NO_FAULT : PYCONSUMER_WORKERS_DIE, 0);
        }
        session(&state, context, strcmp(mode, "forks") == 0);
    }
    pyconsumer_free_context(context);
    return NULL;
}

static void load(const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t head[8];
    if (file == NULL) fail("no corpus");
    while (corpus_count < MOST_CORPUS && fread(head, 1, 8, file) == 8) {
        entry *it = &corpus[corpus_count++];
        it->codec = (int)get_u32(head);
        it->size = get_u32(head + 4);
        it->bytes = malloc(it->size);
        if (fread(it->bytes, 1, it->size, file) != it->size) fail("the corpus is cut off");
    }
    fclose(file);
}

int main(int count_of, char **given) {
    pthread_t readers[16];
    size_t number, i;
    if (count_of != 6) fail("five arguments");
    load(given[1]);
    inputs = strtoull(given[2], NULL, 10);
    seed = strtoull(given[3], NULL, 10);
    number = strtoull(given[4], NULL, 10);
    mode = given[5];
    crc32c_init();
    for (i = 0; i < number; i++) pthread_create(&readers[i], NULL, read_on, (void *)i);
    for (i = 0; i < number; i++) pthread_join(readers[i], NULL);
    pyconsumer_ahead_stop(100);
    free_ended_views();
    for (i = 0; i < corpus_count; i++) free(corpus[i].bytes);
    printf("%s: %llu inputs;", mode, (unsigned long long)begun);
    for (i = 0; i < 12; i++) printf(" %s %llu,", NAMES[i], (unsigned long long)totals[i]);
    printf(" no difference\n");
    return 0;
}
