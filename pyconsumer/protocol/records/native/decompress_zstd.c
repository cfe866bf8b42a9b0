/* The decoder of zstd, as its project makes it in one file, and what decompress.c needs of it. A file of its own because it
 * defines the same macros as lz4.c. Nothing of it is visible outside the extension, which another copy in the process
 * could get in the way of.
 */
#include "decompress.h"

#define ZSTDLIB_VISIBLE
#define ZSTDERRORLIB_VISIBLE
#include "vendored/zstd/zstddeclib.c"

void *pyconsumer_zstd_new(void) { return ZSTD_createDCtx(); }

void pyconsumer_zstd_free(void *context) { ZSTD_freeDCtx((ZSTD_DCtx *)context); }

/* All frames of the data; TOO_LARGE if they need more room. */
int pyconsumer_zstd_unpack(void *context, const uint8_t *data, size_t size, uint8_t *output, size_t room, size_t *written) {
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
