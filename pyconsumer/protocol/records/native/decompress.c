/* See decompress.h. Snappy, and the frames of lz4, are decoded here, blocks of lz4, and the frames of zstd, by the
 * libraries that libraries.c finds.
 *
 * Rules
 *
 * 1. Before a byte is read, its position is compared with the end of the input. Before one is written, with the end of
 *    the output. Bytes after those written, up to the end of the output, may contain anything.
 * 2. Before a length is added to a position, it is compared with the number of bytes left.
 * 3. What is read although it is odd is listed in compression.py.
 */
#include "decompress.h"

#include <string.h>

#include "libraries.h"

static uint32_t little32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Adds to the bound, which may then exceed the limit. The sum is at most UINT64_MAX / 2. */
static void add_bound(uint64_t *bound, uint64_t more) {
    *bound = more > UINT64_MAX / 2 - *bound ? UINT64_MAX / 2 : *bound + more;
}

static void set_extent(pyconsumer_extent *extent, size_t used, uint64_t bound, size_t limit, int is_exact) {
    extent->used = used;
    extent->is_capped = bound > limit;
    extent->bound = extent->is_capped ? limit : (size_t)bound;
    extent->is_exact = is_exact && !extent->is_capped;
}

enum { SKIPPABLE_MAGIC = 0x184D2A50 }; /* to ...5F, in lz4 and zstd */

static int is_skippable(uint32_t magic) { return (magic & 0xFFFFFFF0u) == SKIPPABLE_MAGIC; }

/* --- snappy: blocks, bare or framed by xerial */

static const uint8_t XERIAL_MAGIC[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};
enum { XERIAL_HEADER = 16 };

static int is_xerial(const uint8_t *data, size_t size) {
    return size >= sizeof XERIAL_MAGIC && memcmp(data, XERIAL_MAGIC, sizeof XERIAL_MAGIC) == 0;
}

/* Returns the next block from `at` on in xerial's framing; `end` if there is none, NULL if its length is invalid.
 * Headers of further streams are skipped: only their first four bytes count. */
static const uint8_t *xerial_block(const uint8_t *at, const uint8_t *end, size_t *size) {
    uint32_t length;
    while (end - at >= 4 && memcmp(at, XERIAL_MAGIC, 4) == 0) {
        if (end - at < XERIAL_HEADER) return NULL;
        at += XERIAL_HEADER;
    }
    *size = 0;
    if (end - at < 4) return end;
    length = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    at += 4;
    if (length == 0 || length > 0x7FFFFFFF || length > (size_t)(end - at)) return NULL;
    *size = length;
    return at;
}

/* Reads the length with which a block begins. Returns the position after it, or NULL if it is invalid. */
static const uint8_t *snappy_length(const uint8_t *at, size_t size, uint32_t *length) {
    const uint8_t *end = at + size;
    uint64_t found = 0;
    int shift;
    for (shift = 0; shift < 35 && at < end; shift += 7) {
        uint64_t byte = *at++;
        found |= (byte & 0x7F) << shift;
        if (byte < 0x80) {
            if (found >> 32) return NULL;
            *length = (uint32_t)found;
            return at;
        }
    }
    return NULL;
}

static int snappy_block_bound(const uint8_t *data, size_t size, size_t limit, uint64_t *bound) {
    uint32_t length;
    if (snappy_length(data, size, &length) == NULL) return PYCONSUMER_DAMAGED;
    if (length > limit - *bound) return PYCONSUMER_TOO_LARGE;
    if (length > 64 * (uint64_t)size) return PYCONSUMER_DAMAGED; /* a copy yields at most 64 bytes and takes 2 */
    *bound += length;
    return PYCONSUMER_UNPACKED;
}

static int snappy_bound(const uint8_t *data, size_t size, size_t limit, pyconsumer_extent *extent) {
    uint64_t bound = 0;
    int result = PYCONSUMER_UNPACKED;
    if (!is_xerial(data, size)) {
        result = snappy_block_bound(data, size, limit, &bound);
    } else {
        const uint8_t *at = data + XERIAL_HEADER, *end = data + size;
        if (size < XERIAL_HEADER) return PYCONSUMER_DAMAGED;
        while (at < end && result == PYCONSUMER_UNPACKED) {
            size_t length;
            at = xerial_block(at, end, &length);
            if (at == NULL) return PYCONSUMER_DAMAGED;
            if (at == end) break;
            result = snappy_block_bound(at, length, limit, &bound);
            at += length;
        }
    }
    set_extent(extent, size, bound, limit, 1);
    return result;
}

enum { SNAPPY_SLACK = 64 + 16 }; /* the most that one element of a block writes, and 16 bytes more */

/* Copies 1 to 64 bytes from `distance` bytes before `to`. The two may overlap. It may write beyond the copy,
 * within SNAPPY_SLACK bytes from `to`. */
static inline void copy_near(uint8_t *to, size_t distance, size_t length) {
    const uint8_t *from = to - distance;
    if (distance >= 16) {
        memcpy(to, from, 16);
        if (length <= 16) return;
        memcpy(to + 16, from + 16, 16);
        if (length <= 32) return;
        memcpy(to + 32, from + 32, 16);
        memcpy(to + 48, from + 48, 16);
        return;
    }
    /* Bytes that repeat at a distance also repeat at its multiples: at 8 or more, 8 bytes can be copied at once. */
    if (distance < 8) {
        size_t period = distance, done;
        while (period < 8) period += distance;
        for (done = 0; done < period; done++) to[done] = from[done];
        if (length <= period) return;
        from = to;
        to += period;
        length -= period;
    }
    for (;;) {
        memcpy(to, from, 8);
        if (length <= 8) return;
        to += 8;
        from += 8;
        length -= 8;
    }
}

/* For each tag of a copy: the length (8 bits), the number of bytes after the tag (4 bits), and in the rest the high
 * bits of the distance. */
#define SNAPPY_NEAR(tag) ((tag >> 2 & 7) + 4) | 1 << 8 | (uint32_t)(tag >> 5) << 20
#define SNAPPY_FAR(tag) ((tag >> 2) + 1) | 2 << 8
#define SNAPPY_FARTHEST(tag) ((tag >> 2) + 1) | 4 << 8
#define SNAPPY_FOUR(tag) 0, SNAPPY_NEAR((tag + 1)), SNAPPY_FAR((tag + 2)), SNAPPY_FARTHEST((tag + 3))
#define SNAPPY_SIXTEEN(tag) SNAPPY_FOUR(tag), SNAPPY_FOUR((tag + 4)), SNAPPY_FOUR((tag + 8)), SNAPPY_FOUR((tag + 12))
#define SNAPPY_SIXTY_FOUR(tag) \
    SNAPPY_SIXTEEN(tag), SNAPPY_SIXTEEN((tag + 16)), SNAPPY_SIXTEEN((tag + 32)), SNAPPY_SIXTEEN((tag + 48))
static const uint32_t SNAPPY_COPIES[256] = {SNAPPY_SIXTY_FOUR(0), SNAPPY_SIXTY_FOUR(64), SNAPPY_SIXTY_FOUR(128),
                                            SNAPPY_SIXTY_FOUR(192)};
static const uint32_t SNAPPY_MASKS[5] = {0, 0xFF, 0xFFFF, 0, 0xFFFFFFFF};

static int snappy_block(const uint8_t *data, size_t size, uint8_t *output, size_t room, size_t *written) {
    const uint8_t *end = data + size, *at;
    uint8_t *to = output, *limit;
    uint32_t expected;
    at = snappy_length(data, size, &expected);
    if (at == NULL || expected > room) return PYCONSUMER_DAMAGED;
    limit = output + expected;
    while (at < end) {
        unsigned tag = *at++;
        size_t length, distance, left = (size_t)(end - at);
        uint32_t copy;
        if ((tag & 3) == 0) {
            length = (tag >> 2) + 1;
            if (length <= 16 && left >= 16 && limit - to >= 16) {
                memcpy(to, at, 16);
                to += length;
                at += length;
                continue;
            }
            if (length > 60) {
                size_t bytes = length - 60, i;
                if (left < bytes) return PYCONSUMER_DAMAGED;
                for (length = 0, i = 0; i < bytes; i++) length |= (size_t)at[i] << (8 * i);
                length += 1;
                at += bytes;
                left -= bytes;
            }
            if (length > left || length > (size_t)(limit - to)) return PYCONSUMER_DAMAGED;
            memcpy(to, at, length);
            to += length;
            at += length;
            continue;
        }
        copy = SNAPPY_COPIES[tag];
        length = copy & 0xFF;
        if (left >= 4) {
            distance = (copy >> 12) + (little32(at) & SNAPPY_MASKS[copy >> 8 & 15]);
        } else {
            size_t bytes = copy >> 8 & 15, i;
            if (left < bytes) return PYCONSUMER_DAMAGED;
            for (distance = copy >> 12, i = 0; i < bytes; i++) distance |= (size_t)at[i] << (8 * i);
        }
        at += copy >> 8 & 15;
        if (distance == 0 || distance > (size_t)(to - output)) return PYCONSUMER_DAMAGED;
        if (limit - to >= SNAPPY_SLACK) {
            copy_near(to, distance, length);
            to += length;
        } else {
            if (length > (size_t)(limit - to)) return PYCONSUMER_DAMAGED;
            for (; length; length--, to++) *to = to[-(ptrdiff_t)distance];
        }
    }
    *written = (size_t)(to - output);
    return to == limit ? PYCONSUMER_UNPACKED : PYCONSUMER_DAMAGED;
}

static int snappy_unpack(const uint8_t *data, size_t size, uint8_t *output, size_t room, size_t *written) {
    const uint8_t *at = data + XERIAL_HEADER, *end = data + size;
    size_t total = 0;
    if (!is_xerial(data, size)) return snappy_block(data, size, output, room, written);
    while (at < end) {
        size_t length, more = 0;
        at = xerial_block(at, end, &length);
        if (at == end) break;
        if (at == NULL || snappy_block(at, length, output + total, room - total, &more) != PYCONSUMER_UNPACKED) {
            return PYCONSUMER_DAMAGED;
        }
        total += more;
        at += length;
    }
    *written = total;
    return PYCONSUMER_UNPACKED;
}

/* --- lz4: frames of blocks */

enum {
    LZ4_FRAME_MAGIC = 0x184D2204,
    LZ4_HAS_DICTIONARY = 0x01,
    LZ4_FLAG_RESERVED = 0x02,
    LZ4_HAS_CONTENT_CHECKSUM = 0x04,
    LZ4_HAS_CONTENT_SIZE = 0x08,
    LZ4_HAS_BLOCK_CHECKSUMS = 0x10,
    LZ4_HAS_OWN_BLOCKS = 0x20, /* blocks do not refer to previous ones */
    LZ4_HISTORY = 65536
};
#define LZ4_STORED 0x80000000u

static uint32_t rotated(uint32_t value, int bits) { return value << bits | value >> (32 - bits); }

/* Returns the xxHash32 with seed 0, the checksum of lz4 frames. */
static uint32_t checksum32(const uint8_t *at, size_t size) {
    static const uint32_t P1 = 2654435761u, P2 = 2246822519u, P3 = 3266489917u, P4 = 668265263u, P5 = 374761393u;
    const uint8_t *end = at + size;
    uint32_t value;
    if (size >= 16) {
        uint32_t a = P1 + P2, b = P2, c = 0, d = 0u - P1;
        do {
            a = rotated(a + little32(at) * P2, 13) * P1;
            b = rotated(b + little32(at + 4) * P2, 13) * P1;
            c = rotated(c + little32(at + 8) * P2, 13) * P1;
            d = rotated(d + little32(at + 12) * P2, 13) * P1;
            at += 16;
        } while (end - at >= 16);
        value = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18);
    } else {
        value = P5;
    }
    value += (uint32_t)size;
    for (; end - at >= 4; at += 4) value = rotated(value + little32(at) * P3, 17) * P4;
    for (; at < end; at++) value = rotated(value + *at * P5, 11) * P1;
    value = (value ^ value >> 15) * P2;
    value = (value ^ value >> 13) * P3;
    return value ^ value >> 16;
}

typedef struct lz4_frame {
    const uint8_t *descriptor;
    const uint8_t *blocks; /* after the header; the byte before is its checksum */
    unsigned flags;
    size_t block_bytes;
} lz4_frame;

/* Reads the header at `at`, after the magic number. Returns 0 if it is damaged. */
static int lz4_header(const uint8_t *at, const uint8_t *end, lz4_frame *frame) {
    unsigned size_id;
    size_t length;
    if (end - at < 3) return 0;
    frame->flags = at[0];
    size_id = at[1] >> 4 & 7;
    if (frame->flags >> 6 != 1 || frame->flags & LZ4_FLAG_RESERVED || at[1] & 0x8F || size_id < 4) return 0;
    length = 2 + (frame->flags & LZ4_HAS_CONTENT_SIZE ? 8 : 0) + (frame->flags & LZ4_HAS_DICTIONARY ? 4 : 0);
    if ((size_t)(end - at) < length + 1) return 0;
    frame->descriptor = at;
    frame->blocks = at + length + 1;
    frame->block_bytes = (size_t)1 << (2 * size_id + 8);
    return 1;
}

/* Returns the position after a skippable frame whose magic number has been read; NULL if it is incomplete. */
static const uint8_t *pass_skippable(const uint8_t *at, const uint8_t *end) {
    uint32_t length;
    if (end - at < 4) return NULL;
    length = little32(at);
    at += 4;
    return length > (size_t)(end - at) ? NULL : at + length;
}

/* Returns the position of the first frame, after its magic number; NULL if there is none. */
static const uint8_t *lz4_first_frame(const uint8_t *at, const uint8_t *end) {
    while (end - at >= 4) {
        uint32_t magic = little32(at);
        at += 4;
        if (!is_skippable(magic)) return magic == LZ4_FRAME_MAGIC ? at : NULL;
        at = pass_skippable(at, end);
        if (at == NULL) return NULL;
    }
    return NULL;
}

static int lz4_bound(const uint8_t *data, size_t size, size_t limit, pyconsumer_extent *extent) {
    const uint8_t *end = data + size, *at = lz4_first_frame(data, end);
    uint64_t bound = 0;
    lz4_frame frame;
    if (at == NULL || !lz4_header(at, end, &frame)) return PYCONSUMER_DAMAGED;
    at = frame.blocks;
    for (;;) {
        uint32_t block;
        size_t length, trailer = frame.flags & LZ4_HAS_BLOCK_CHECKSUMS ? 4 : 0;
        if (end - at < 4) return PYCONSUMER_DAMAGED;
        block = little32(at);
        at += 4;
        if (block == 0) break;
        length = block & ~LZ4_STORED;
        if (length > frame.block_bytes || length + trailer > (size_t)(end - at)) return PYCONSUMER_DAMAGED;
        add_bound(&bound, block & LZ4_STORED || 255 * length < frame.block_bytes
                              ? (block & LZ4_STORED ? length : 255 * length)
                              : frame.block_bytes);
        at += length + trailer;
    }
    if (frame.flags & LZ4_HAS_CONTENT_CHECKSUM) {
        if (end - at < 4) return PYCONSUMER_DAMAGED;
        at += 4;
    }
    set_extent(extent, (size_t)(at - data), bound, limit, 0);
    return PYCONSUMER_UNPACKED;
}

/* Decompresses the first frame; pyconsumer_bound has checked that its header and its blocks are complete. */
static int lz4_unpack(int magic_of_batch, const uint8_t *data, const pyconsumer_extent *extent, uint8_t *output,
                      size_t *written) {
    const pyconsumer_lz4 *library = pyconsumer_find_lz4();
    const uint8_t *end = data + extent->used, *at = lz4_first_frame(data, end);
    uint8_t *to = output, *limit = output + extent->bound;
    lz4_frame frame;
    if (library == NULL) return PYCONSUMER_DAMAGED; /* the caller has asked pyconsumer_serves */
    if (at == NULL || !lz4_header(at, end, &frame)) return PYCONSUMER_DAMAGED;
    at = frame.blocks;
    if (magic_of_batch != 0 &&
        (checksum32(frame.descriptor, (size_t)(at - 1 - frame.descriptor)) >> 8 & 0xFF) != at[-1]) {
        return PYCONSUMER_DAMAGED;
    }
    for (;;) {
        uint32_t block = little32(at);
        size_t length = block & ~LZ4_STORED, room = (size_t)(limit - to);
        at += 4;
        if (block == 0) break;
        if (frame.flags & LZ4_HAS_BLOCK_CHECKSUMS && checksum32(at, length) != little32(at + length)) {
            return PYCONSUMER_DAMAGED;
        }
        if (block & LZ4_STORED) {
            if (length > room) return extent->is_capped ? PYCONSUMER_TOO_LARGE : PYCONSUMER_DAMAGED;
            memcpy(to, at, length);
            to += length;
        } else {
            size_t history = frame.flags & LZ4_HAS_OWN_BLOCKS ? 0 : (size_t)(to - output);
            int is_short = room < frame.block_bytes, got;
            if (history > LZ4_HISTORY) history = LZ4_HISTORY;
            got = library->decompress((const char *)at, (char *)to, (int)length,
                                      (int)(is_short ? room : frame.block_bytes), (const char *)(to - history),
                                      (int)history);
            if (got < 0) return extent->is_capped && is_short ? PYCONSUMER_TOO_LARGE : PYCONSUMER_DAMAGED;
            to += got;
        }
        at += length + (frame.flags & LZ4_HAS_BLOCK_CHECKSUMS ? 4 : 0);
    }
    *written = (size_t)(to - output);
    return PYCONSUMER_UNPACKED;
}

/* --- zstd: frames */

enum { ZSTD_BLOCK_BYTES = 128 * 1024, ZSTD_LONGEST_WINDOW = 1 << 27, ZSTD_WINDOW_OF_ANY = 8 << 20 };
#define ZSTD_FRAME_MAGIC 0xFD2FB528u

/* Walks over the frame at `at`, after its magic number, and returns the position after it; NULL if it is damaged, or
 * cut off, which sets `is_cut_off`. */
static const uint8_t *zstd_frame(const uint8_t *at, const uint8_t *end, size_t limit, uint64_t *bound, int *is_exact,
                                 int *is_cut_off) {
    static const uint8_t DICTIONARY_BYTES[4] = {0, 1, 2, 4}, SIZE_BYTES[4] = {0, 2, 4, 8};
    unsigned descriptor;
    uint64_t content = 0, found = 0, window = 0;
    size_t size_bytes, dictionary_bytes, block_bytes = ZSTD_BLOCK_BYTES;
    if (end - at < 1) goto cut_off;
    descriptor = *at++;
    size_bytes = SIZE_BYTES[descriptor >> 6];
    if (descriptor & 0x20) {
        if (size_bytes == 0) size_bytes = 1;
    } else {
        if (end - at < 1) goto cut_off;
        window = (uint64_t)1 << (10 + (*at >> 3));
        window += (window >> 3) * (*at & 7);
        /* This decoder allocates no window, but the library that Python uses does, and both must accept the same. */
        if (window > ZSTD_LONGEST_WINDOW) return NULL;
        if (window > (limit > ZSTD_WINDOW_OF_ANY ? limit : ZSTD_WINDOW_OF_ANY)) return NULL;
        at += 1;
    }
    dictionary_bytes = DICTIONARY_BYTES[descriptor & 3];
    if ((size_t)(end - at) < dictionary_bytes + size_bytes) goto cut_off;
    at += dictionary_bytes;
    if (size_bytes) {
        size_t i;
        for (i = 0; i < size_bytes; i++) content |= (uint64_t)at[i] << (8 * i);
        if (size_bytes == 2) content += 256;
        at += size_bytes;
    }
    if (descriptor & 0x20) window = content;
    if (window < block_bytes) block_bytes = (size_t)window;
    for (;;) {
        uint32_t block;
        size_t length, taken;
        unsigned kind;
        if (end - at < 3) goto cut_off;
        block = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16;
        at += 3;
        kind = block >> 1 & 3;
        length = block >> 3;
        if (kind == 3 || length > block_bytes) return NULL;
        add_bound(&found, kind == 2 ? block_bytes : length);
        taken = kind == 1 ? 1 : length;
        if (taken > (size_t)(end - at)) goto cut_off;
        at += taken;
        if (block & 1) break;
    }
    if (descriptor & 4) {
        if (end - at < 4) goto cut_off;
        at += 4;
    }
    if (size_bytes) {
        if (content > found) return NULL;
        found = content;
    } else {
        *is_exact = 0;
    }
    add_bound(bound, found);
    return at;
cut_off:
    *is_cut_off = 1;
    return NULL;
}

/* Returns whether up to three bytes can be the beginning of a frame. */
static int begins_zstd_frame(const uint8_t *at, size_t size) {
    static const uint8_t MAGIC[3] = {0x28, 0xB5, 0x2F}, SKIPPABLE[3] = {0x50, 0x2A, 0x4D};
    if (memcmp(at, MAGIC, size) == 0) return 1;
    return (at[0] & 0xF0) == SKIPPABLE[0] && memcmp(at + 1, SKIPPABLE + 1, size - 1) == 0;
}


static int zstd_bound(const uint8_t *data, size_t size, size_t limit, pyconsumer_extent *extent) {
    const uint8_t *at = data, *end = data + size;
    uint64_t bound = 0;
    int is_exact = 1;
    if (size == 0) return PYCONSUMER_DAMAGED;
    while (at < end) {
        const uint8_t *start = at;
        int is_cut_off = 0;
        if (end - at < 4) {
            if (!begins_zstd_frame(at, (size_t)(end - at))) return PYCONSUMER_DAMAGED;
            is_cut_off = 1;
            at = NULL;
        } else {
            uint32_t magic = little32(at);
            at += 4;
            if (is_skippable(magic)) {
                at = pass_skippable(at, end);
                is_cut_off = at == NULL;
            } else if (magic == ZSTD_FRAME_MAGIC) {
                at = zstd_frame(at, end, limit, &bound, &is_exact, &is_cut_off);
            } else {
                return PYCONSUMER_DAMAGED;
            }
        }
        if (at != NULL) continue;
        if (!is_cut_off || start == data) return PYCONSUMER_DAMAGED;
        end = start; /* the frame behind the last whole one is ignored */
        at = end;
    }
    set_extent(extent, (size_t)(end - data), bound, limit, is_exact);
    return PYCONSUMER_UNPACKED;
}

static int zstd_unpack(const uint8_t *data, const pyconsumer_extent *extent, void *context, uint8_t *output,
                       size_t *written) {
    const pyconsumer_zstd *library = pyconsumer_find_zstd();
    size_t got;
    if (library == NULL) return PYCONSUMER_DAMAGED; /* the caller has asked pyconsumer_serves */
    got = library->decompress(context, output, extent->bound, data, extent->used);
    if (!library->is_error(got)) {
        *written = got;
        return PYCONSUMER_UNPACKED;
    }
    switch (library->error_code(got)) {
    case PYCONSUMER_ZSTD_NO_MEMORY:
        return PYCONSUMER_NO_MEMORY;
    case PYCONSUMER_ZSTD_NO_ROOM:
        return extent->is_capped ? PYCONSUMER_TOO_LARGE : PYCONSUMER_DAMAGED;
    default:
        return PYCONSUMER_DAMAGED;
    }
}

/* --- all codecs */

int pyconsumer_serves(int codec) {
    switch (codec) {
    case PYCONSUMER_SNAPPY:
        return 1;
    case PYCONSUMER_LZ4:
        return pyconsumer_find_lz4() != NULL;
    case PYCONSUMER_ZSTD:
        return pyconsumer_find_zstd() != NULL;
    default:
        return 0;
    }
}

void *pyconsumer_new_context(void) {
    const pyconsumer_zstd *library = pyconsumer_find_zstd();
    return library != NULL ? library->new_context() : NULL;
}

void pyconsumer_free_context(void *context) {
    const pyconsumer_zstd *library = pyconsumer_find_zstd();
    if (library != NULL) library->free_context(context);
}

int pyconsumer_bound(int codec, const uint8_t *data, size_t size, size_t limit, pyconsumer_extent *extent) {
    memset(extent, 0, sizeof *extent);
    switch (codec) {
    case PYCONSUMER_SNAPPY:
        return snappy_bound(data, size, limit, extent);
    case PYCONSUMER_LZ4:
        return lz4_bound(data, size, limit, extent);
    case PYCONSUMER_ZSTD:
        return zstd_bound(data, size, limit, extent);
    default:
        return PYCONSUMER_DAMAGED;
    }
}

int pyconsumer_unpack(int codec, int magic, const uint8_t *data, size_t size, const pyconsumer_extent *extent,
                      void *context, uint8_t *output, size_t *written) {
    *written = 0;
    switch (codec) {
    case PYCONSUMER_SNAPPY:
        return snappy_unpack(data, size, output, extent->bound, written);
    case PYCONSUMER_LZ4:
        return lz4_unpack(magic, data, extent, output, written);
    case PYCONSUMER_ZSTD:
        return zstd_unpack(data, extent, context, output, written);
    default:
        return PYCONSUMER_DAMAGED;
    }
}
