/* See libraries.h. Where a library comes from, the first that applies:
 *
 * 1. The file that PYCONSUMER_LIBZSTD or PYCONSUMER_LIBLZ4 names; "none" means that the library is not used.
 * 2. With PYCONSUMER_LINKED_CODECS, the library that this module was linked with. Release wheels are built so: the
 *    tools that repair wheels bundle what a module was linked with.
 * 3. The loader's search by the name of the library, which holds its binary interface's number, then by the places in
 *    which macOS does not look by itself.
 *
 * A library that is too old, or that lacks a function, is not used, and no other is tried: the reason is kept.
 */
#define _GNU_SOURCE /* dladdr */
#include "libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decompress.h"

#ifdef PYCONSUMER_LINKED_CODECS
void *ZSTD_createDCtx(void);
size_t ZSTD_freeDCtx(void *context);
size_t ZSTD_decompressDCtx(void *context, void *output, size_t room, const void *data, size_t size);
unsigned ZSTD_isError(size_t result);
int ZSTD_getErrorCode(size_t result);
unsigned ZSTD_versionNumber(void);
int LZ4_decompress_safe_usingDict(const char *data, char *output, int size, int room, const char *history,
                                  int history_size);
int LZ4_versionNumber(void);
#define LINKED(function) (void (*)(void)) function
#else
#define LINKED(function) NULL
#endif

#ifdef __APPLE__
#define NAMES(name) \
    {"lib" name ".1.dylib", "@rpath/lib" name ".1.dylib", "/opt/homebrew/lib/lib" name ".1.dylib", \
     "/usr/local/lib/lib" name ".1.dylib", "/opt/local/lib/lib" name ".1.dylib", NULL}
#else
#define NAMES(name) {"lib" name ".so.1", NULL}
#endif

enum { OLDEST_ZSTD = 10400, PROBLEM_BYTES = 400, FILE_BYTES = 1024 };

typedef void (*any_function)(void);

typedef struct entry {
    const char *name;
    any_function linked;
    void *place; /* of the pointer to the function */
} entry;

typedef struct source {
    pyconsumer_library library;
    const char *setting; /* the environment variable */
    unsigned oldest;
    const char *const *names;
    char problem[PROBLEM_BYTES], file[FILE_BYTES];
} source;

static const char *const ZSTD_NAMES[] = NAMES("zstd"), *const LZ4_NAMES[] = NAMES("lz4");

static pyconsumer_zstd zstd;
static pyconsumer_lz4 lz4;
static unsigned (*version_of_zstd)(void), (*version_of_lz4)(void);
static source from_zstd = {{"libzstd", "", "", 0}, "PYCONSUMER_LIBZSTD", OLDEST_ZSTD, ZSTD_NAMES, "", ""};
static source from_lz4 = {{"liblz4", "", "", 0}, "PYCONSUMER_LIBLZ4", 0, LZ4_NAMES, "", ""};
static pthread_once_t once_zstd = PTHREAD_ONCE_INIT, once_lz4 = PTHREAD_ONCE_INIT;

static void set_problem(source *from, const char *problem, const char *more) {
    snprintf(from->problem, PROBLEM_BYTES, "%s%s", problem, more != NULL ? more : "");
    from->library.problem = from->problem;
}

/* Opens the library. Returns NULL if it cannot be loaded, or is not to be used. */
static void *open_library(source *from, const char *wanted) {
    const char *const *name = from->names;
    void *opened = NULL;
    if (wanted != NULL) {
        if (strcmp(wanted, "none") == 0) {
            set_problem(from, from->setting, " is none");
            return NULL;
        }
        opened = dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
        if (opened == NULL) set_problem(from, "", dlerror());
        return opened;
    }
    for (; *name != NULL; name++) {
        opened = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        if (opened != NULL) return opened;
        if (name == from->names) set_problem(from, "", dlerror());
    }
    return NULL;
}

/* Finds the functions of a library, of which the first returns its version. */
static void find(source *from, const entry *entries, size_t count) {
    const char *wanted = getenv(from->setting);
    void *opened = NULL, *address;
    unsigned (*version)(void);
    Dl_info where;
    size_t i;
    if (wanted != NULL && *wanted == '\0') wanted = NULL;
    if (wanted != NULL || entries[0].linked == NULL) {
        opened = open_library(from, wanted);
        if (opened == NULL) return;
    }
    from->library.problem = "";
    for (i = 0; i < count; i++) {
        any_function found = entries[i].linked;
        if (opened != NULL) {
            void *symbol = dlsym(opened, entries[i].name);
            memcpy(&found, &symbol, sizeof found); /* C has no conversion between the two */
        }
        if (found == NULL) {
            set_problem(from, "it has no function ", entries[i].name);
            return;
        }
        memcpy(entries[i].place, &found, sizeof found);
    }
    memcpy(&address, entries[0].place, sizeof address);
    if (dladdr(address, &where) && where.dli_fname != NULL) {
        snprintf(from->file, FILE_BYTES, "%s", where.dli_fname);
        from->library.file = from->file;
    }
    memcpy(&version, entries[0].place, sizeof version);
    from->library.version = version();
    if (from->library.version < from->oldest) set_problem(from, "it is too old", NULL);
}

static void find_zstd(void) {
    const entry entries[] = {
        {"ZSTD_versionNumber", LINKED(ZSTD_versionNumber), &version_of_zstd},
        {"ZSTD_createDCtx", LINKED(ZSTD_createDCtx), &zstd.new_context},
        {"ZSTD_freeDCtx", LINKED(ZSTD_freeDCtx), &zstd.free_context},
        {"ZSTD_decompressDCtx", LINKED(ZSTD_decompressDCtx), &zstd.decompress},
        {"ZSTD_isError", LINKED(ZSTD_isError), &zstd.is_error},
        {"ZSTD_getErrorCode", LINKED(ZSTD_getErrorCode), &zstd.error_code},
    };
    find(&from_zstd, entries, sizeof entries / sizeof *entries);
}

static void find_lz4(void) {
    const entry entries[] = {
        {"LZ4_versionNumber", LINKED(LZ4_versionNumber), &version_of_lz4},
        {"LZ4_decompress_safe_usingDict", LINKED(LZ4_decompress_safe_usingDict), &lz4.decompress},
    };
    find(&from_lz4, entries, sizeof entries / sizeof *entries);
}

const pyconsumer_library *pyconsumer_library_of(int codec) {
    switch (codec) {
    case PYCONSUMER_LZ4:
        pthread_once(&once_lz4, find_lz4);
        return &from_lz4.library;
    case PYCONSUMER_ZSTD:
        pthread_once(&once_zstd, find_zstd);
        return &from_zstd.library;
    default:
        return NULL;
    }
}

static int is_used(const pyconsumer_library *library) { return library->problem[0] == '\0'; }

const pyconsumer_zstd *pyconsumer_find_zstd(void) {
    return is_used(pyconsumer_library_of(PYCONSUMER_ZSTD)) ? &zstd : NULL;
}

const pyconsumer_lz4 *pyconsumer_find_lz4(void) {
    return is_used(pyconsumer_library_of(PYCONSUMER_LZ4)) ? &lz4 : NULL;
}
