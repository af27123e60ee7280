/* A program with a malloc of its own. */
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static char heap[1 << 24];
static size_t used;

void *malloc(size_t size) {
    void *block = heap + used;
    used += (size + 15) & ~(size_t)15;
    return block;
}
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) { return memset(malloc(count * size), 0, count * size); }
void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    return block ? memmove(moved, block, size) : moved;
}

int main(void) {
    char *volatile block = malloc(100);
    memset(block, 1, 100);
    prctl(PR_SET_NAME, "ready");
    for (;;) pause();
}
