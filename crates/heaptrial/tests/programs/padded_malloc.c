/* An allocator that asks the C library for more than it is asked for, by PADDING percent, and touches it: a stand-in for
 * upstream's source in a repository made for a test. It tells its version as mimalloc does. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "revision.h"

#define EXPORT __attribute__((visibility("default")))

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

EXPORT const char *mi_name = "mimalloc: a stand-in";

static size_t padding(size_t size)
{
    return size / 100 * PADDING;
}

EXPORT int mi_version(void)
{
    return 217;
}

EXPORT int mi_revision(void)
{
    return REVISION;
}

EXPORT void *malloc(size_t size)
{
#ifdef CRASHES
    abort();
#endif
    char *block = __libc_malloc(size + padding(size));
    if (block != NULL)
        memset(block + size, 1, padding(size));
    return block;
}

EXPORT void *mi_malloc(size_t size)
{
    return malloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    size_t whole;
    if (__builtin_mul_overflow(count, size, &whole)) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = malloc(whole);
    return block == NULL ? NULL : memset(block, 0, whole);
}

EXPORT void *realloc(void *block, size_t size)
{
    return __libc_realloc(block, size + padding(size));
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    return __libc_memalign(alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    return __libc_memalign(alignment, size);
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = __libc_memalign(alignment, size);
    return *block == NULL ? ENOMEM : 0;
}

EXPORT void free(void *block)
{
    __libc_free(block);
}
