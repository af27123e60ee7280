/* Threads that allocate blocks of a known size and free a known part of them:
 *   heaps THREADS SIZE COUNT PATTERN
 * PATTERN is what is kept: `all`, `half` (every second block), `page` (one block of each page), `ends` (none but the first),
 * `buffers` (none: COUNT blocks, one after the other, each freed before the next), `mixed` (every second one, of many sizes).
 * Prints the bytes that were asked for and are kept, then malloc_info(3), then `ready`; the threads stay. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t size;
static long count;
static char pattern;
static pthread_barrier_t done;
static size_t kept_bytes[256];

static void *work(void *number) {
    if (pattern == 'b') {
        for (long i = 0; i < count; i++) {
            char *block = malloc(size);
            memset(block, 7, size);
            free(block);
        }
        pthread_barrier_wait(&done);
        pause();
    }
    char **blocks = calloc(count, sizeof *blocks);
    size_t kept = malloc_usable_size(blocks);
    for (long i = 0; i < count; i++) {
        size_t own = pattern == 'm' ? 24 + i * 7919 % (size >> i / 2 % 3 * 7 / 2) : size;
        blocks[i] = malloc(own);
        memset(blocks[i], 7, own);
    }
    size_t page = (size_t)-1;
    for (long i = 0; i < count; i++) {
        size_t own = (size_t)blocks[i] / 4096;
        int keep = pattern == 'a' || ((pattern == 'h' || pattern == 'm') && i % 2) || (pattern == 'p' && own != page) || (pattern == 'e' && i == 0);
        page = own;
        if (keep) kept += malloc_usable_size(blocks[i]);
        else { free(blocks[i]); }
    }
    /* Sorts what was freed into the bins of its sizes. */
    free(malloc(100000));
    kept_bytes[(size_t)number] = kept;
    pthread_barrier_wait(&done);
    pause();
    return blocks;
}

int main(int argc, char **argv) {
    int threads = atoi(argv[1]);
    size = atol(argv[2]);
    count = atol(argv[3]);
    pattern = argv[4][0];
    pthread_barrier_init(&done, NULL, threads + 1);
    for (long i = 0; i < threads; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, (void *)i);
    }
    pthread_barrier_wait(&done);
    size_t kept = 0;
    for (int i = 0; i < threads; i++) kept += kept_bytes[i];
    printf("kept %zu\n", kept);
    malloc_info(0, stdout);
    puts("ready");
    fflush(stdout);
    pause();
    return argc;
}
