/* The system's libraries for lz4 and zstd, through their stable C interfaces.
 *
 * A library is looked for when it is first needed, and found once or never. The functions here are declared by us: no
 * header of a library is needed to build. Any thread may call them.
 */
#ifndef PYCONSUMER_LIBRARIES_H
#define PYCONSUMER_LIBRARIES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Since zstd 1.4. The codes of errors are stable since 1.3.1. */
typedef struct pyconsumer_zstd {
    void *(*new_context)(void);
    size_t (*free_context)(void *context);
    size_t (*decompress)(void *context, void *output, size_t room, const void *data, size_t size);
    unsigned (*is_error)(size_t result);
    int (*error_code)(size_t result);
} pyconsumer_zstd;

enum { PYCONSUMER_ZSTD_NO_MEMORY = 64, PYCONSUMER_ZSTD_NO_ROOM = 70 };

typedef struct pyconsumer_lz4 {
    /* Decompresses a block that may refer to `history`. Returns the size of the output, or less than 0. */
    int (*decompress)(const char *data, char *output, int size, int room, const char *history, int history_size);
} pyconsumer_lz4;

/* Return the functions of a library, or NULL if there is none that can be used. */
const pyconsumer_zstd *pyconsumer_find_zstd(void);
const pyconsumer_lz4 *pyconsumer_find_lz4(void);

/* What is known of a library. The texts are never freed. */
typedef struct pyconsumer_library {
    const char *name;    /* as the system's loader knows it */
    const char *file;    /* from which it was loaded; empty if that is not known */
    const char *problem; /* empty if the library is used */
    unsigned version;    /* 10504 for 1.5.4; 0 if none was found */
} pyconsumer_library;

/* Looks for the library of a codec. Returns NULL if the codec has none. */
const pyconsumer_library *pyconsumer_library_of(int codec);

#ifdef __cplusplus
}
#endif
#endif
