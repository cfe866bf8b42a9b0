/* The decoder of zstd, which its project generates as one file, and the functions that decompress.c needs. They are in
 * a file of their own because zstd defines the same macros as lz4.c. No symbol is visible outside the extension, where
 * it could clash with another copy of zstd in the process.
 */
#include "decompress.h"

#define ZSTDLIB_VISIBLE
#define ZSTDERRORLIB_VISIBLE
#include "vendored/zstd/zstddeclib.c"

void *pyconsumer_zstd_new(void) { return ZSTD_createDCtx(); }

void pyconsumer_zstd_free(void *context) { ZSTD_freeDCtx((ZSTD_DCtx *)context); }

/* Decompresses all frames of the data; returns TOO_LARGE if they need more room. */
int pyconsumer_zstd_unpack(void *context, const uint8_t *data, size_t size, uint8_t *output, size_t room,
                           size_t *written) {
    size_t got = ZSTD_decompressDCtx((ZSTD_DCtx *)context, output, room, data, size);
    if (!ZSTD_isError(got)) {
        *written = got;
        return PYCONSUMER_UNPACKED;
    }
    switch (ZSTD_getErrorCode(got)) {
    case ZSTD_error_memory_allocation:
        return PYCONSUMER_NO_MEMORY;
    case ZSTD_error_dstSize_tooSmall:
        return PYCONSUMER_TOO_LARGE;
    default:
        return PYCONSUMER_DAMAGED;
    }
}
