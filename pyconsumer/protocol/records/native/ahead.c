/* Decompression ahead of the reader, by native threads: states, ownership, order.
 *
 * The reader is the thread that takes records. It queues a job for a record set. Each batch is a slot of the job.
 * Workers, and the reader itself, claim slots from the front and leave the output in the slot until the reader reaches
 * that batch.
 *
 * Ownership
 *
 * 1. The record set belongs to the reader. Workers read the parts of it whose slots are CLAIMED or LEFT. If there is
 *    such a slot when the reader drops the record set, the job keeps the view of it, and pyconsumer_ended_view returns
 *    the view later, so that only the reader ever releases one. Memory is not reused while a worker reads it, even
 *    after a seek.
 * 2. A slot's output belongs to the thread that claimed the slot until it is DONE, then to the reader.
 * 3. The lists of queues and jobs, idle memory and all counts are protected by the lock. It is held for no longer than
 *    a few list operations, never during decompression, and never while Python code runs.
 *
 * States of a slot. They are changed by compare and swap, since the reader checks them without the lock.
 *
 *     WAITING -> CLAIMED   by a worker, or by the reader that helps, under the lock.
 *     WAITING -> OWN       the reader reached it first and decompresses it as if there were no workers, or skipped it.
 *     CLAIMED -> DONE      by the thread that claimed it. The result may be that it is damaged.
 *     CLAIMED -> LEFT      the reader abandoned it: skipped it, or waited too long. The output is dropped in the end.
 *     LEFT    -> OWN       by the thread that claimed it, under the lock.
 *     DONE    -> OWN       the reader took the output.
 *
 * Order: jobs in the order they were queued, slots in the order of the record set. A worker claims a run of slots of
 * one job at a time. If the output of the next slot has no room in its queue, that slot is not skipped: no worker
 * claims more of this queue, and the reader decompresses what it needs.
 *
 * Room: a claimed slot counts as the upper bound of its output, so that there is always room for the output. A slot
 * that is DONE counts as the memory of its output. If zstd frames do not state their size, the bound is often eight
 * times as large as the output, so these are decompressed into scratch memory, which each thread keeps, and then
 * copied.
 *
 * Waiting: workers sleep on `work`. One is woken when enough output is expected and at least half of the room is free.
 * The reader sleeps on `done`, only for a CLAIMED slot when no other slot can be claimed. It sleeps no longer
 * than decompressing it itself would take. So a worker that is late, or has died, costs no more than that.
 *
 * Lifetime: workers are started when there is work, block all signals, and end with the last queue. A forked child has
 * none. There, slots that they had claimed are left to the reader. At the end of the process workers stop claiming, and
 * are not joined.
 */
#include "ahead.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "crc32c.h"
#include "decompress.h"

enum { BATCH_OVERHEAD = 61, CRC_START = 21 };
enum { RUN_SLOTS = 16, RUN_BYTES = 1 << 16, USUAL_RATIO = 4 };
enum { SMALLEST_PIECE = 4096, PIECE_SIZES = 14, LARGEST_ROOM = SMALLEST_PIECE << (PIECE_SIZES - 1) };
enum { STACK_BYTES = 1 << 20 };

enum { WAITING, CLAIMED, LEFT, DONE, OWN };

typedef struct slot {
    size_t position, size; /* of the batch */
    int codec;
    uint32_t crc;
    pyconsumer_extent extent;
    int state;
    size_t counted; /* bytes of its queue's room that it uses, protected by the lock */
    pyconsumer_found found;
} slot;

/* Memory that a thread keeps for decompression. */
typedef struct tools {
    void *context; /* of zstd */
    uint8_t *scratch;
    size_t capacity; /* of the scratch */
} tools;

struct pyconsumer_job {
    pyconsumer_queue *queue;
    pyconsumer_job *before, *after; /* in its queue, in a list of ended jobs only `after` */
    const uint8_t *data;
    size_t limit;
    int check_crcs;
    int is_started, has_ended;
    void *view;     /* kept for a worker, after the end */
    size_t running; /* slots of runs in progress */
    size_t count, most;
    size_t next; /* no slot before this one is WAITING */
    size_t at;   /* the slot that the reader has reached */
    slot slots[];
};

struct pyconsumer_queue {
    pyconsumer_queue *after;
    pyconsumer_job *first, *last;
    pyconsumer_job *open; /* no job before this one has a slot that is WAITING */
    int threads;
    int has_owner;
    size_t jobs; /* that refer to it, including ended ones */
    size_t room, held, worth;
    size_t waiting; /* expected bytes of output of slots that are WAITING, atomic */
    tools tools;    /* for the reader that helps */
    pyconsumer_counts counts;
};

typedef struct run {
    pyconsumer_job *job;
    size_t count;
    slot *slots[RUN_SLOTS];
} run;

typedef struct piece {
    struct piece *after;
} piece;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work, done;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static pyconsumer_queue *queues;        /* all of them */
static pyconsumer_queue *turn;          /* the queue to serve next; NULL: the first one */
static pyconsumer_job *ended;           /* jobs that have ended and have runs in progress */
static pyconsumer_job *kept;            /* ended jobs without runs whose view must be released; atomic */
static int threads, sleeping, is_called; /* workers; sleeping ones; whether one was woken and is not up yet */
static int working;                     /* runs in progress */
static int readers_waiting;             /* atomic */
static int is_stopping, cannot_start;
static piece *idle[PIECE_SIZES];
static size_t idle_bytes;

#ifdef PYCONSUMER_NO_POOL /* so that an address sanitizer sees each allocation and release */
enum { MOST_IDLE = 0 };
#else
enum { MOST_IDLE = 8 << 20 };
#endif

static int state_of(const slot *it) { return __atomic_load_n(&it->state, __ATOMIC_SEQ_CST); }

static int change(slot *it, int from, int to) {
    return __atomic_compare_exchange_n(&it->state, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void set_state(slot *it, int to) { __atomic_store_n(&it->state, to, __ATOMIC_SEQ_CST); }

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Waits for `done`, at most for this time. The lock is held. */
static void wait_done(uint64_t nanoseconds) {
    struct timespec until;
#ifdef __APPLE__
    until.tv_sec = (time_t)(nanoseconds / 1000000000u);
    until.tv_nsec = (long)(nanoseconds % 1000000000u);
    pthread_cond_timedwait_relative_np(&done, &lock, &until);
#else
    uint64_t at = now_ns() + nanoseconds;
    until.tv_sec = (time_t)(at / 1000000000u);
    until.tv_nsec = (long)(at % 1000000000u);
    pthread_cond_timedwait(&done, &lock, &until);
#endif
}

/* --- memory for output. The lock is held */

static int size_class(size_t size, size_t *capacity) {
    int found = 0;
    *capacity = SMALLEST_PIECE;
    while (*capacity < size && found < PIECE_SIZES) {
        *capacity *= 2;
        found++;
    }
    return found;
}

static size_t capacity_for(size_t size) {
    size_t capacity;
    size_class(size, &capacity);
    return capacity;
}

static uint8_t *take_piece(size_t size) {
    size_t capacity;
    int found = size_class(size, &capacity);
    piece *taken = found < PIECE_SIZES ? idle[found] : NULL;
    if (taken != NULL) {
        idle[found] = taken->after;
        idle_bytes -= capacity;
        return (uint8_t *)taken;
    }
    return malloc(MOST_IDLE ? capacity : size ? size : 1);
}

static void give_piece(uint8_t *start, size_t capacity) {
    size_t same;
    int found = size_class(capacity, &same);
    if (idle_bytes + capacity > MOST_IDLE || found >= PIECE_SIZES) {
        free(start);
        return;
    }
    ((piece *)start)->after = idle[found];
    idle[found] = (piece *)start;
    idle_bytes += capacity;
}

static void free_pieces(void) {
    int i;
    for (i = 0; i < PIECE_SIZES; i++) {
        while (idle[i] != NULL) {
            piece *first = idle[i];
            idle[i] = first->after;
            free(first);
        }
    }
    idle_bytes = 0;
}

/* --- memory that a thread keeps */

static void free_tools(tools *own) {
    if (own->context != NULL) pyconsumer_free_context(own->context);
    free(own->scratch);
    memset(own, 0, sizeof *own);
}

/* Returns `size` bytes of scratch, whose content is not kept; NULL if there is no memory. */
static uint8_t *scratch_of(tools *own, size_t size) {
    if (own->capacity < size) {
        free(own->scratch);
        own->scratch = malloc(size);
        own->capacity = own->scratch != NULL ? size : 0;
    }
    return own->scratch;
}

/* --- queues. The lock is held */

static void free_queue(pyconsumer_queue *queue) {
    pyconsumer_queue **at = &queues;
    while (*at != queue) at = &(*at)->after;
    *at = queue->after;
    if (turn == queue) turn = queue->after;
    free_tools(&queue->tools);
    free(queue);
    if (queues == NULL) {
        free_pieces();
        pthread_cond_broadcast(&work); /* workers end */
    }
}

static void unref_queue(pyconsumer_queue *queue) {
    queue->jobs -= 1;
    if (queue->jobs == 0 && !queue->has_owner) free_queue(queue);
}

/* Sets how much of its queue's room a slot uses. */
static void count_room(pyconsumer_queue *queue, slot *it, size_t size) {
    queue->held += size - it->counted;
    it->counted = size;
}

static void forget_output(pyconsumer_queue *queue, slot *it) {
    if (it->found.output != NULL) give_piece(it->found.output, it->found.capacity);
    it->found.output = NULL;
    count_room(queue, it, 0);
}

/* Allocates `size` bytes for the output of a claimed slot. Returns NULL if there is no memory. */
static uint8_t *take_output(pyconsumer_queue *queue, slot *it, size_t size) {
    it->found.output = take_piece(size);
    it->found.capacity = capacity_for(size);
    if (it->found.output != NULL) count_room(queue, it, it->found.capacity);
    return it->found.output;
}

/* Returns the expected size of the output: the size stated in the frames, or a guess. */
static size_t expected_of(const slot *it) {
    return it->extent.is_exact || it->size > it->extent.bound / USUAL_RATIO ? it->extent.bound : it->size * USUAL_RATIO;
}

static void subtract_waiting(pyconsumer_queue *queue, const slot *it) {
    __atomic_sub_fetch(&queue->waiting, expected_of(it), __ATOMIC_SEQ_CST);
}

/* Claims slots of one job. Returns their number. */
static size_t claim(pyconsumer_queue *queue, size_t most_slots, run *claimed) {
    size_t bytes = 0;
    claimed->count = 0;
    if (is_stopping) return 0;
    for (; queue->open != NULL; queue->open = queue->open->after) {
        pyconsumer_job *job = queue->open;
        for (; job->next < job->count; job->next++) {
            slot *it = &job->slots[job->next];
            size_t most;
            if (state_of(it) != WAITING) continue;
            most = capacity_for(it->extent.bound);
            if (claimed->count == most_slots || bytes >= RUN_BYTES || most > queue->room - queue->held) goto full;
            if (!change(it, WAITING, CLAIMED)) continue;
            count_room(queue, it, most);
            subtract_waiting(queue, it);
            bytes += expected_of(it);
            claimed->job = job;
            claimed->slots[claimed->count++] = it;
        }
        if (claimed->count) break;
    }
full:
    if (claimed->count) {
        claimed->job->running += claimed->count;
        working += 1;
    }
    return claimed->count;
}

static int has_work(const pyconsumer_queue *queue) {
    return queue->open != NULL && queue->held <= queue->room / 2 &&
           __atomic_load_n(&queue->waiting, __ATOMIC_SEQ_CST) >= queue->worth;
}

#ifdef PYCONSUMER_FAULTS
static int fault; /* atomic, as is the next */
static unsigned fault_delay;

void pyconsumer_ahead_fault(int what, unsigned delay) {
    __atomic_store_n(&fault, what, __ATOMIC_SEQ_CST);
    __atomic_store_n(&fault_delay, delay, __ATOMIC_SEQ_CST);
}

static int may_not_start(void) { return __atomic_load_n(&fault, __ATOMIC_SEQ_CST) == PYCONSUMER_WORKERS_DO_NOT_START; }

/* Delays a worker, and returns 0 if it finds no memory for the batch. It may end the thread. */
static int play_fault(int what) {
    unsigned delay = __atomic_load_n(&fault_delay, __ATOMIC_SEQ_CST);
    if (delay) {
        struct timespec pause;
        pause.tv_sec = delay / 1000000;
        pause.tv_nsec = (long)(delay % 1000000) * 1000;
        nanosleep(&pause, NULL);
    }
    if (what == PYCONSUMER_WORKERS_DIE) pthread_exit(NULL);
    return what != PYCONSUMER_WORKERS_HAVE_NO_MEMORY;
}

static int current_fault(void) { return __atomic_load_n(&fault, __ATOMIC_SEQ_CST); }
#else
static int may_not_start(void) { return 0; }
static int play_fault(int what) { return what == 0; }
static int current_fault(void) { return 0; }
#endif

static void *work_on(void *nothing);

static void start_worker(void) {
    pthread_attr_t attributes;
    pthread_t started;
    sigset_t all, before;
    int error = EAGAIN;
    if (cannot_start || may_not_start()) return;
    if (pthread_attr_init(&attributes) != 0) return;
    sigfillset(&all);
    if (pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
        pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 && pthread_sigmask(SIG_SETMASK, &all, &before) == 0) {
        error = pthread_create(&started, &attributes, work_on, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    if (error == 0) {
        threads += 1;
    } else {
        cannot_start = 1; /* the reader does all the work until another queue is created */
    }
}

/* Wakes or starts a worker if there is enough to do. */
static void call_worker(pyconsumer_queue *queue) {
    if (is_stopping || is_called || !has_work(queue)) return;
    if (sleeping > 0) {
        is_called = 1;
        queue->counts.wakeups += 1;
        pthread_cond_signal(&work);
    } else if (threads < queue->threads) {
        start_worker();
    }
}

/* --- decompression. Without the lock */

static void decompress(const pyconsumer_job *job, slot *it, tools *own) {
    const uint8_t *batch = job->data + it->position;
    const uint8_t *data = batch + BATCH_OVERHEAD;
    size_t size = it->size - BATCH_OVERHEAD, written = 0;
    uint8_t *output;
    int result;
    if (job->check_crcs && crc32c_of(batch + CRC_START, it->size - CRC_START, 0, 1) != it->crc) {
        it->found.has_right_crc = 0;
        return;
    }
    if (it->codec == PYCONSUMER_ZSTD && own->context == NULL) {
        own->context = pyconsumer_new_context();
        if (own->context == NULL) return;
    }
    if (it->extent.is_exact) {
        pthread_mutex_lock(&lock);
        output = take_output(job->queue, it, it->extent.bound);
        pthread_mutex_unlock(&lock);
    } else {
        output = scratch_of(own, it->extent.bound);
    }
    if (output == NULL) return;
    result = pyconsumer_unpack(it->codec, 2, data, size, &it->extent, own->context, output, &written);
    if (result == PYCONSUMER_UNPACKED && !it->extent.is_exact) {
        pthread_mutex_lock(&lock);
        output = take_output(job->queue, it, written);
        pthread_mutex_unlock(&lock);
        if (output == NULL) return;
        memcpy(output, own->scratch, written);
    }
    it->found.written = written;
    it->found.result = result;
}

static void do_run(run *claimed, tools *own, int is_worker) {
    size_t i;
    int what = is_worker ? current_fault() : 0;
    for (i = 0; i < claimed->count; i++) {
        slot *it = claimed->slots[i];
        int has_memory = !is_worker || play_fault(what);
        it->found.result = PYCONSUMER_NO_MEMORY;
        it->found.has_right_crc = 1;
        if (has_memory && state_of(it) == CLAIMED) decompress(claimed->job, it, own);
        if (change(it, CLAIMED, DONE) && __atomic_load_n(&readers_waiting, __ATOMIC_SEQ_CST)) {
            pthread_mutex_lock(&lock);
            pthread_cond_broadcast(&done);
            pthread_mutex_unlock(&lock);
        }
    }
}

/* Frees an ended job without runs in progress, or keeps it until its view is released. The lock is held. */
static void put_away(pyconsumer_job *job) {
    unref_queue(job->queue);
    if (job->view == NULL) {
        free(job);
    } else {
        job->after = kept;
        __atomic_store_n(&kept, job, __ATOMIC_SEQ_CST);
    }
}

/* Ends a run. The lock is held. */
static void finish_run(run *claimed) {
    pyconsumer_job *job = claimed->job, **at;
    pyconsumer_queue *queue = job->queue;
    size_t i;
    for (i = 0; i < claimed->count; i++) {
        slot *it = claimed->slots[i];
        if (state_of(it) == LEFT) {
            forget_output(queue, it);
            set_state(it, OWN);
        } else if (it->found.output == NULL) {
            count_room(queue, it, 0); /* damaged, or out of memory */
        }
    }
    queue->counts.done += claimed->count;
    working -= 1;
    job->running -= claimed->count;
    if (!job->has_ended || job->running) return;
    for (at = &ended; *at != job; at = &(*at)->after) {
    }
    *at = job->after;
    put_away(job);
}

static pyconsumer_queue *claim_anywhere(run *claimed) {
    pyconsumer_queue *first = turn != NULL ? turn : queues, *queue = first;
    if (first == NULL) return NULL;
    do {
        if (claim(queue, RUN_SLOTS, claimed)) {
            turn = queue->after;
            return queue;
        }
        queue = queue->after != NULL ? queue->after : queues;
    } while (queue != first);
    return NULL;
}

static void *work_on(void *nothing) {
    tools own = {NULL, NULL, 0};
    run claimed;
    (void)nothing;
    pthread_mutex_lock(&lock);
    while (!is_stopping && queues != NULL) {
        pyconsumer_queue *queue = claim_anywhere(&claimed);
        if (queue == NULL) {
            sleeping += 1;
            pthread_cond_wait(&work, &lock);
            sleeping -= 1;
            is_called = 0;
            continue;
        }
        call_worker(queue); /* another one, if there is enough for two */
        queue->counts.workers += claimed.count;
        pthread_mutex_unlock(&lock);
        do_run(&claimed, &own, 1);
        pthread_mutex_lock(&lock);
        finish_run(&claimed);
        if (is_stopping && working == 0) pthread_cond_broadcast(&done);
    }
    threads -= 1;
    pthread_mutex_unlock(&lock);
    free_tools(&own);
    return NULL;
}

/* Lets the reader decompress another batch while it waits. The lock is held. Returns 0 if there was none to claim. */
static int help(pyconsumer_queue *queue) {
    run claimed;
    tools own;
    if (!claim(queue, 1, &claimed)) return 0;
    queue->counts.helped += 1;
    own = queue->tools; /* a child that is forked during the run must not use them */
    memset(&queue->tools, 0, sizeof queue->tools);
    pthread_mutex_unlock(&lock);
    do_run(&claimed, &own, 0);
    pthread_mutex_lock(&lock);
    free_tools(&queue->tools);
    queue->tools = own;
    finish_run(&claimed);
    return 1;
}

/* --- fork: it takes the lock, so the child gets consistent state. It gets no workers */

static void before_fork(void) { pthread_mutex_lock(&lock); }

static void after_fork(void) { pthread_mutex_unlock(&lock); }

static void take_over_slots(pyconsumer_job *job) {
    size_t i;
    for (i = 0; i < job->count; i++) {
        slot *it = &job->slots[i];
        if (state_of(it) == CLAIMED || state_of(it) == LEFT) {
            forget_output(job->queue, it);
            set_state(it, OWN);
        }
    }
    job->running = 0;
}

static void make_conditions(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifndef __APPLE__
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_cond_init(&work, &attributes);
    pthread_cond_init(&done, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void in_child(void) {
    pyconsumer_queue *queue;
    pyconsumer_job *job;
    make_conditions(); /* other threads may have been using the old ones */
    threads = sleeping = is_called = working = cannot_start = 0;
    __atomic_store_n(&readers_waiting, 0, __ATOMIC_SEQ_CST);
    for (queue = queues; queue != NULL; queue = queue->after) {
        for (job = queue->first; job != NULL; job = job->after) take_over_slots(job);
    }
    while ((job = ended) != NULL) {
        ended = job->after;
        take_over_slots(job);
        put_away(job);
    }
    pthread_mutex_init(&lock, NULL);
}

static void set_up(void) {
    crc32c_init();
    make_conditions();
    pthread_atfork(before_fork, after_fork, in_child);
}

/* --- functions for the reader */

pyconsumer_queue *pyconsumer_queue_new(int wanted, size_t room, size_t worth) {
    pyconsumer_queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL) return NULL;
    pthread_once(&once, set_up);
    queue->threads = wanted;
    queue->room = room < LARGEST_ROOM ? room : LARGEST_ROOM;
    queue->worth = worth ? worth : 1;
    queue->has_owner = 1;
    pthread_mutex_lock(&lock);
    queue->after = queues;
    queues = queue;
    cannot_start = 0;
    pthread_mutex_unlock(&lock);
    return queue;
}

void pyconsumer_queue_free(pyconsumer_queue *queue) {
    pthread_mutex_lock(&lock);
    queue->has_owner = 0;
    if (queue->jobs == 0) free_queue(queue);
    pthread_mutex_unlock(&lock);
}

/* Takes no lock, since only the reader changes the list. */
int pyconsumer_queue_is_used(const pyconsumer_queue *queue) { return queue->first != NULL; }

void pyconsumer_queue_counts(const pyconsumer_queue *queue, pyconsumer_counts *counts) {
    pthread_mutex_lock(&lock);
    *counts = queue->counts;
    counts->jobs = queue->jobs;
    counts->held = queue->held;
    counts->threads = (uint64_t)threads;
    pthread_mutex_unlock(&lock);
}

pyconsumer_job *pyconsumer_job_new(pyconsumer_queue *queue, const uint8_t *data, size_t most, size_t limit,
                                   int check_crcs) {
    pyconsumer_job *job = calloc(1, sizeof *job + most * sizeof(slot));
    if (job == NULL) return NULL;
    job->queue = queue;
    job->data = data;
    job->most = most;
    job->limit = limit;
    job->check_crcs = check_crcs;
    return job;
}

void pyconsumer_job_add(pyconsumer_job *job, size_t position, size_t size, int codec, uint32_t crc) {
    slot *it = &job->slots[job->count];
    if (job->count == job->most || size < BATCH_OVERHEAD) return;
    it->position = position;
    it->size = size;
    it->codec = codec;
    it->crc = crc;
    /* Batches that are damaged or too large are left to the reader. */
    if (pyconsumer_bound(codec, job->data + position + BATCH_OVERHEAD, size - BATCH_OVERHEAD, job->limit,
                         &it->extent) != PYCONSUMER_UNPACKED ||
        it->extent.bound > job->queue->room / 2) {
        return;
    }
    job->count += 1;
}

size_t pyconsumer_job_start(pyconsumer_job *job) {
    pyconsumer_queue *queue = job->queue;
    size_t i, bytes = 0;
    if (job->count == 0) return 0;
    job->is_started = 1;
    for (i = 0; i < job->count; i++) bytes += expected_of(&job->slots[i]);
    pthread_mutex_lock(&lock);
    job->before = queue->last;
    *(queue->last != NULL ? &queue->last->after : &queue->first) = job;
    queue->last = job;
    if (queue->open == NULL) queue->open = job;
    queue->jobs += 1;
    queue->counts.queued += job->count;
    __atomic_add_fetch(&queue->waiting, bytes, __ATOMIC_SEQ_CST);
    call_worker(queue);
    pthread_mutex_unlock(&lock);
    return job->count;
}

/* Gives the reader the outcome of a slot that is DONE. Returns OWN if there was no memory to decompress it. */
static int take_done(pyconsumer_queue *queue, slot *it, pyconsumer_found *found) {
    int is_ready = it->found.result != PYCONSUMER_NO_MEMORY || !it->found.has_right_crc;
    pthread_mutex_lock(&lock);
    if (it->found.result != PYCONSUMER_UNPACKED) forget_output(queue, it);
    *found = it->found;
    it->found.output = NULL;
    count_room(queue, it, 0);
    set_state(it, OWN);
    call_worker(queue);
    pthread_mutex_unlock(&lock);
    return is_ready ? PYCONSUMER_READY : PYCONSUMER_OWN;
}

/* Abandons a slot that the reader has skipped. */
static void pass(pyconsumer_queue *queue, slot *it) {
    pyconsumer_found found;
    if (change(it, WAITING, OWN)) {
        subtract_waiting(queue, it);
    } else if (!change(it, CLAIMED, LEFT) && state_of(it) == DONE) {
        take_done(queue, it, &found);
        if (found.output != NULL) pyconsumer_give_back(found.output, found.capacity);
    }
}

int pyconsumer_job_reach(pyconsumer_job *job, size_t position, pyconsumer_found *found) {
    slot *it;
    while (job->at < job->count && job->slots[job->at].position < position) pass(job->queue, &job->slots[job->at++]);
    if (job->at == job->count || job->slots[job->at].position != position) return PYCONSUMER_OWN;
    it = &job->slots[job->at];
    if (change(it, WAITING, OWN)) {
        subtract_waiting(job->queue, it);
        return PYCONSUMER_OWN;
    }
    switch (state_of(it)) {
    case DONE:
        return take_done(job->queue, it, found);
    case CLAIMED:
        return PYCONSUMER_BUSY;
    default:
        return PYCONSUMER_OWN;
    }
}

int pyconsumer_job_wait(pyconsumer_job *job, size_t position, uint64_t nanoseconds, int is_last,
                        pyconsumer_found *found) {
    pyconsumer_queue *queue = job->queue;
    slot *it = &job->slots[job->at];
    uint64_t until = now_ns() + nanoseconds, now;
    int has_slept = 0;
    pthread_mutex_lock(&lock);
    while (state_of(it) == CLAIMED && (now = now_ns()) < until) {
        if (help(queue)) continue;
        has_slept = 1;
        __atomic_add_fetch(&readers_waiting, 1, __ATOMIC_SEQ_CST);
        if (state_of(it) == CLAIMED) wait_done(until - now);
        __atomic_sub_fetch(&readers_waiting, 1, __ATOMIC_SEQ_CST);
    }
    queue->counts.waits += has_slept ? 1 : 0;
    if (is_last && change(it, CLAIMED, LEFT)) queue->counts.late += 1;
    pthread_mutex_unlock(&lock);
    return pyconsumer_job_reach(job, position, found);
}

int pyconsumer_job_end(pyconsumer_job *job, void *view) {
    pyconsumer_queue *queue = job->queue;
    int is_read = 0;
    size_t i;
    if (!job->is_started) {
        free(job);
        return 1;
    }
    pthread_mutex_lock(&lock);
    if (queue->open == job) queue->open = job->after;
    *(job->before != NULL ? &job->before->after : &queue->first) = job->after;
    *(job->after != NULL ? &job->after->before : &queue->last) = job->before;
    for (i = 0; i < job->count; i++) {
        slot *it = &job->slots[i];
        if (change(it, WAITING, OWN)) {
            subtract_waiting(queue, it);
        } else if (!change(it, CLAIMED, LEFT) && state_of(it) == DONE) {
            forget_output(queue, it);
            set_state(it, OWN);
        }
        is_read |= state_of(it) == LEFT;
    }
    job->has_ended = 1;
    job->view = is_read ? view : NULL;
    if (job->running) {
        job->after = ended;
        ended = job;
        call_worker(queue);
    } else {
        free(job);
        call_worker(queue);
        unref_queue(queue);
    }
    pthread_mutex_unlock(&lock);
    return !is_read;
}

void *pyconsumer_ended_view(void) {
    pyconsumer_job *job;
    void *view = NULL;
    if (__atomic_load_n(&kept, __ATOMIC_SEQ_CST) == NULL) return NULL;
    pthread_mutex_lock(&lock);
    job = kept;
    if (job != NULL) {
        __atomic_store_n(&kept, job->after, __ATOMIC_SEQ_CST);
        view = job->view;
        free(job);
    }
    pthread_mutex_unlock(&lock);
    return view;
}

void pyconsumer_give_back(uint8_t *output, size_t capacity) {
    pthread_mutex_lock(&lock);
    if (queues == NULL) {
        free(output);
    } else {
        give_piece(output, capacity);
    }
    pthread_mutex_unlock(&lock);
}

void pyconsumer_ahead_stop(unsigned milliseconds) {
    uint64_t until = now_ns() + (uint64_t)milliseconds * 1000000u, now;
    pthread_once(&once, set_up);
    pthread_mutex_lock(&lock);
    is_stopping = 1;
    pthread_cond_broadcast(&work);
    while (working > 0 && (now = now_ns()) < until) wait_done(until - now);
    pthread_mutex_unlock(&lock);
}
