/* Decompression of snappy, lz4 and zstd in Kafka's framing, as in compression.py.
 *
 * It uses no Python, no lock and no memory but the caller's zstd context, so any thread may call it. First,
 * pyconsumer_bound walks over the headers and returns how much room is needed, at most the limit. Then
 * pyconsumer_unpack fills it. Errors in damaged data are described by compression.py, which reads the data again. A
 * codec that pyconsumer_serves denies is left to compression.py, too.
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
    PYCONSUMER_TOO_LARGE = 2, /* the output would exceed the limit */
    PYCONSUMER_NO_MEMORY = 3
};

typedef struct pyconsumer_extent {
    size_t used;   /* bytes of the input that are read; those behind are ignored, as Java's readers do */
    size_t bound;  /* bytes that suffice for the output, at most the limit */
    int is_exact;  /* whether the output has exactly this size unless the data is damaged */
    int is_capped; /* whether the headers allow more than the limit */
} pyconsumer_extent;

/* Returns whether a codec is decompressed here: snappy is, lz4 and zstd if their libraries are found. */
int pyconsumer_serves(int codec);

/* Returns UNPACKED, DAMAGED, or TOO_LARGE if the headers already show that. Other codecs are DAMAGED. */
int pyconsumer_bound(int codec, const uint8_t *data, size_t size, size_t limit, pyconsumer_extent *extent);

/* Decompresses into `output`, which has room for the extent's bound, and sets `written` to the number of bytes.
 * `context` comes from pyconsumer_new_context. One thread at a time uses it. With `magic` 0, the header checksum of lz4
 * is not checked (KAFKA-3160). */
int pyconsumer_unpack(int codec, int magic, const uint8_t *data, size_t size, const pyconsumer_extent *extent,
                      void *context, uint8_t *output, size_t *written);

void *pyconsumer_new_context(void); /* of zstd; returns NULL if there is no memory */
void pyconsumer_free_context(void *context);

#ifdef __cplusplus
}
#endif
#endif
