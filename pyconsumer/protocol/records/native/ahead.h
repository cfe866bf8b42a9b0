/* Decompression ahead of the reader, by native threads that touch no Python object. ahead.c explains how it works.
 *
 * A queue belongs to one consumer, a job to one record set. All functions for a queue and its jobs are called by one
 * thread at a time, the reader. Only the workers, which are internal, run concurrently.
 */
#ifndef PYCONSUMER_AHEAD_H
#define PYCONSUMER_AHEAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pyconsumer_queue pyconsumer_queue;
typedef struct pyconsumer_job pyconsumer_job;

typedef struct pyconsumer_counts {
    uint64_t queued;   /* batches that were queued */
    uint64_t workers;  /* batches claimed by workers */
    uint64_t helped;   /* batches claimed by the reader while it waited for another one */
    uint64_t late;     /* batches abandoned after a wait: the reader decompresses them itself */
    uint64_t done;     /* claimed batches whose run has ended */
    uint64_t wakeups;  /* wake-ups of workers, each a system call */
    uint64_t waits;    /* times the reader slept until a worker finished */
    uint64_t jobs;     /* current jobs, including ended ones that a worker still reads */
    uint64_t held;     /* current bytes of output, including room that was claimed for it */
    uint64_t threads;  /* current workers, of all queues */
} pyconsumer_counts;

/* The outcome of a batch. There is output only if the checksum is right and the result is PYCONSUMER_UNPACKED. */
typedef struct pyconsumer_found {
    int result;
    int has_right_crc;
    uint8_t *output; /* to be returned by pyconsumer_give_back */
    size_t written;
    size_t capacity;
} pyconsumer_found;

enum {
    PYCONSUMER_OWN = 0,   /* the reader decompresses it */
    PYCONSUMER_READY = 1, /* its outcome is known */
    PYCONSUMER_BUSY = 2   /* a worker decompresses it now */
};

/* Creates a queue. Returns NULL if there is no memory. `room`: limit in bytes of the output that waits for the reader.
 * `worth`: a worker is woken only if at least this much output, in bytes, is expected. */
pyconsumer_queue *pyconsumer_queue_new(int threads, size_t room, size_t worth);
void pyconsumer_queue_free(pyconsumer_queue *queue); /* its jobs may end later */
int pyconsumer_queue_is_used(const pyconsumer_queue *queue); /* returns whether it has jobs */
void pyconsumer_queue_counts(const pyconsumer_queue *queue, pyconsumer_counts *counts);

/* Creates a job for up to `most` batches of a record set, which must stay in place until the job has ended. Returns
 * NULL if there is no memory. */
pyconsumer_job *pyconsumer_job_new(pyconsumer_queue *queue, const uint8_t *data, size_t most, size_t limit,
                                   int check_crcs);
/* Adds a compressed batch of format v2, `size` bytes at `position`, which is after the batches added so far. */
void pyconsumer_job_add(pyconsumer_job *job, size_t position, size_t size, int codec, uint32_t crc);
/* Queues the job and returns its number of batches. Nothing can be added afterwards. */
size_t pyconsumer_job_start(pyconsumer_job *job);
/* Abandons the batches before a position, and returns the state of the batch there. If it is READY, `found` is set. */
int pyconsumer_job_reach(pyconsumer_job *job, size_t position, pyconsumer_found *found);
/* Waits for a batch that is BUSY, while the reader decompresses others, and returns its state as pyconsumer_job_reach
 * does. With `is_last`, a batch that is still BUSY after this time is abandoned, so the result is not BUSY. */
int pyconsumer_job_wait(pyconsumer_job *job, size_t position, uint64_t nanoseconds, int is_last,
                        pyconsumer_found *found);
/* Ends a job. Returns 0 if a worker still reads the record set; `view` is then kept for pyconsumer_ended_view. */
int pyconsumer_job_end(pyconsumer_job *job, void *view);
/* Returns a kept view that no worker reads any longer, or NULL. */
void *pyconsumer_ended_view(void);

void pyconsumer_give_back(uint8_t *output, size_t capacity);

/* Stops workers from claiming more, and waits up to this time for those at work. For the end of the process. */
void pyconsumer_ahead_stop(unsigned milliseconds);

#ifdef PYCONSUMER_FAULTS
/* For tests, never shipped: makes workers fail from now on, and delays each of their batches by these microseconds. */
enum {
    PYCONSUMER_NO_FAULT = 0,
    PYCONSUMER_WORKERS_DIE = 1,
    PYCONSUMER_WORKERS_HAVE_NO_MEMORY = 2,
    PYCONSUMER_WORKERS_DO_NOT_START = 3
};
__attribute__((visibility("default"))) void pyconsumer_ahead_fault(int fault, unsigned delay);
#endif

#ifdef __cplusplus
}
#endif
#endif
