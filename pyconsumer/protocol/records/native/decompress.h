/* Decompression of snappy, lz4 and zstd in Kafka's framing, as compression.py has it.
 *
 * No Python, no lock, no memory but the zstd context that the caller keeps: any thread may call. First
 * pyconsumer_bound walks over the headers and says how much room is needed, never more than the limit; then
 * pyconsumer_unpack fills it. What is wrong with damaged data is said by compression.py, which walks once more.
 */
#ifndef PYCONSUMER_DECOMPRESS_H
#define PYCONSUMER_DECOMPRESS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PYCONSUMER_SNAPPY = 2, PYCONSUMER_LZ4 = 3, PYCONSUMER_ZSTD = 4 };

enum {
    PYCONSUMER_UNPACKED = 0,
    PYCONSUMER_DAMAGED = 1,
    PYCONSUMER_TOO_LARGE = 2, /* more than the limit would come out */
    PYCONSUMER_NO_MEMORY = 3
};

typedef struct pyconsumer_extent {
    size_t bound;  /* bytes that are enough for the output, at most the limit */
    int is_exact;  /* whether no fewer come out, if nothing is damaged */
    int is_capped; /* whether the limit is lower than what the headers allow */
} pyconsumer_extent;

/* Returns UNPACKED, DAMAGED, or TOO_LARGE where the headers say so already. Another codec is DAMAGED. */
int pyconsumer_bound(int codec, const uint8_t *data, size_t size, size_t limit, pyconsumer_extent *extent);

/* Unpacks into the extent's room; `written` becomes how many bytes came. `context` is of pyconsumer_new_context, and used
 * by one thread at a time. `magic` 0: the header checksum of lz4 is not checked (KAFKA-3160). */
int pyconsumer_unpack(int codec, int magic, const uint8_t *data, size_t size, const pyconsumer_extent *extent,
                      void *context, uint8_t *output, size_t *written);

void *pyconsumer_new_context(void); /* NULL: no memory */
void pyconsumer_free_context(void *context);

#ifdef __cplusplus
}
#endif
#endif
