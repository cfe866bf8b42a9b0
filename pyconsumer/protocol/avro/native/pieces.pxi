# Pieces of memory for columns, which are used again.
#
# The system provides large pieces page by page, each on its first use, which costs more than to fill them. So large
# pieces that nobody uses are kept for the next columns, up to a limit. Whoever calls these functions holds the GIL.

from libc.stddef cimport size_t


cdef extern from *:
    """
    #include <stdlib.h>
    #include <string.h>

    #ifdef PYCONSUMER_NO_POOL  /* so that an address sanitizer sees the exact size of each piece, and its end */
    #define PYCONSUMER_MOST_KEPT 0
    #define PYCONSUMER_SMALLEST_KEPT SIZE_MAX
    #else
    #define PYCONSUMER_MOST_KEPT ((size_t)32 << 20)  /* bytes */
    #define PYCONSUMER_SMALLEST_KEPT ((size_t)64 << 10)
    #endif

    enum { PYCONSUMER_BEFORE_PIECE = 64, PYCONSUMER_MOST_PIECES = 128, PYCONSUMER_MOST_WASTED = 4 };

    static char *pyconsumer_kept[PYCONSUMER_MOST_PIECES];
    static int pyconsumer_kept_count = 0;
    static size_t pyconsumer_kept_bytes = 0;

    /* The number of bytes of a piece, which stands before it. */
    static inline size_t pyconsumer_piece_size(const void *piece) {
        size_t size;
        memcpy(&size, (const char *)piece - PYCONSUMER_BEFORE_PIECE, sizeof size);
        return size;
    }

    /* Return a piece of at least `size` bytes, NULL if there is no memory. */
    static void *pyconsumer_piece(size_t size) {
        int place, best = -1;
        size_t found, best_size = 0;
        char *start;
        if (size >= PYCONSUMER_SMALLEST_KEPT) {
            for (place = 0; place < pyconsumer_kept_count; place++) {
                found = pyconsumer_piece_size(pyconsumer_kept[place]);
                if (found >= size && found / PYCONSUMER_MOST_WASTED <= size && (best < 0 || found < best_size)) {
                    best = place;
                    best_size = found;
                }
            }
            if (best >= 0) {
                start = pyconsumer_kept[best];
                pyconsumer_kept[best] = pyconsumer_kept[--pyconsumer_kept_count];
                pyconsumer_kept_bytes -= best_size;
                return start;
            }
        }
        if (size > SIZE_MAX - PYCONSUMER_BEFORE_PIECE) return NULL;
        start = (char *)malloc(PYCONSUMER_BEFORE_PIECE + size);
        if (start == NULL) return NULL;
        memcpy(start, &size, sizeof size);
        return start + PYCONSUMER_BEFORE_PIECE;
    }

    /* Give back a piece. NULL is none. */
    static void pyconsumer_piece_back(void *piece) {
        size_t size;
        if (piece == NULL) return;
        size = pyconsumer_piece_size(piece);
        if (size < PYCONSUMER_SMALLEST_KEPT || pyconsumer_kept_count == PYCONSUMER_MOST_PIECES
            || size > PYCONSUMER_MOST_KEPT - pyconsumer_kept_bytes) {
            free((char *)piece - PYCONSUMER_BEFORE_PIECE);
            return;
        }
        pyconsumer_kept[pyconsumer_kept_count++] = (char *)piece;
        pyconsumer_kept_bytes += size;
    }

    /* Return a piece of at least `size` bytes with the first `used` bytes of another one, which is given back. */
    static void *pyconsumer_piece_of(void *piece, size_t used, size_t size) {
        void *made;
        if (piece != NULL && pyconsumer_piece_size(piece) >= size) return piece;
        made = pyconsumer_piece(size);
        if (made != NULL && piece != NULL) {
            memcpy(made, piece, used);
            pyconsumer_piece_back(piece);
        }
        return made;
    }

    /* Return the piece, or a smaller one with its first `used` bytes if most of it is empty. */
    static void *pyconsumer_piece_cut(void *piece, size_t used) {
        void *made;
        size_t size = pyconsumer_piece_size(piece);
        if (size <= PYCONSUMER_SMALLEST_KEPT || used >= size / PYCONSUMER_MOST_WASTED) return piece;
        made = pyconsumer_piece(used);
        if (made == NULL) return piece;
        memcpy(made, piece, used);
        pyconsumer_piece_back(piece);
        return made;
    }
    """
    void *pyconsumer_piece(size_t size) noexcept
    void pyconsumer_piece_back(void *piece) noexcept
    void *pyconsumer_piece_of(void *piece, size_t used, size_t size) noexcept
    void *pyconsumer_piece_cut(void *piece, size_t used) noexcept
