/* Allocates, calls itself `ready`, and waits. */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(void) {
    for (int i = 1; i < 2000; i++) {
        char *volatile block = malloc(i * 64);
        memset(block, 1, i * 64);
        if (i % 2) free(block);
    }
    prctl(PR_SET_NAME, "ready");
    for (;;) pause();
}
