/* Decompression ahead of the reader, by native threads. No Python; see ahead.c for how it works.
 *
 * A queue belongs to one consumer, a job to one record set. All functions on a queue or its jobs are called by one thread
 * at a time, the reader; only the workers, which nobody sees, run beside it.
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
    uint64_t workers;  /* of them decompressed by workers */
    uint64_t helped;   /* by the reader, while it waited for another one */
    uint64_t late;     /* given up on: the reader does it again */
    uint64_t wakeups;  /* of workers, a system call each */
    uint64_t waits;    /* of the reader for a worker */
    uint64_t jobs;     /* that are there now, with those that have ended and that a worker is still at */
    uint64_t held;     /* bytes of output now, room that workers have claimed included */
    uint64_t threads;  /* that run now, for all queues */
} pyconsumer_counts;

/* What became of a batch. With a wrong checksum, or a result other than PYCONSUMER_UNPACKED, there is no output. */
typedef struct pyconsumer_found {
    int result;
    int has_right_crc;
    uint8_t *output; /* for pyconsumer_give_back */
    size_t written;
    size_t capacity;
} pyconsumer_found;

enum {
    PYCONSUMER_OWN = 0,   /* the reader decompresses it */
    PYCONSUMER_READY = 1, /* it has been done */
    PYCONSUMER_BUSY = 2   /* a worker is at it */
};

/* `room`: bytes of output that may wait at a time; `worth`: fewer than so many to decompress are not worth a wake-up. NULL:
 * no memory. */
pyconsumer_queue *pyconsumer_queue_new(int threads, size_t room, size_t worth);
void pyconsumer_queue_free(pyconsumer_queue *queue); /* its jobs may end later */
int pyconsumer_queue_is_used(const pyconsumer_queue *queue); /* whether it has jobs */
void pyconsumer_queue_counts(const pyconsumer_queue *queue, pyconsumer_counts *counts);

/* A job for up to `most` batches of a record set, which stays where it is until the job has ended. NULL: no memory. */
pyconsumer_job *pyconsumer_job_new(pyconsumer_queue *queue, const uint8_t *data, size_t most, size_t limit, int check_crcs);
/* One more compressed batch of format v2, behind those before: `size` bytes at `position`. */
void pyconsumer_job_add(pyconsumer_job *job, size_t position, size_t size, int codec, uint32_t crc);
/* Queues the job, and returns for how many batches. Nothing can be added from now on. */
size_t pyconsumer_job_start(pyconsumer_job *job);
/* Gives up what is before a position, and returns what has become of the batch there. */
int pyconsumer_job_reach(pyconsumer_job *job, size_t position, pyconsumer_found *found);
/* The same for one that is BUSY, up to so many nanoseconds: meanwhile the reader decompresses others. With `is_last` it is
 * given up on then: the result is not BUSY. */
int pyconsumer_job_wait(pyconsumer_job *job, size_t position, uint64_t nanoseconds, int is_last, pyconsumer_found *found);
/* Ends a job. Returns 0 if a worker still reads the record set: then `view` is kept for pyconsumer_ended_view. */
int pyconsumer_job_end(pyconsumer_job *job, void *view);
/* A view that nobody reads any more, or NULL. */
void *pyconsumer_ended_view(void);

void pyconsumer_give_back(uint8_t *output, size_t capacity);

/* Lets workers begin nothing more, and waits so long until none is at work. For the end of the process. */
void pyconsumer_ahead_stop(unsigned milliseconds);

/* For tests: what workers do wrong from now on, and how long (microseconds) each of their runs is delayed. */
enum {
    PYCONSUMER_NO_FAULT = 0,
    PYCONSUMER_WORKERS_DIE = 1,
    PYCONSUMER_WORKERS_HAVE_NO_MEMORY = 2,
    PYCONSUMER_WORKERS_DO_NOT_START = 3
};
void pyconsumer_ahead_fault(int fault, unsigned delay);

#ifdef __cplusplus
}
#endif
#endif
