/* Services of several processes whose memory is known by construction; sizes are in MiB.
 *
 * prefork SHARED PRIVATE WORKERS: a parent touches SHARED, each worker reads it and touches PRIVATE of its own.
 * crash-loop HELD: a parent holds HELD and restarts a worker that aborts after 0.2 s, again and again.
 * storm SIZE: a parent starts itself as `brief SIZE`, which lives for 0.2 s, one after the other.
 * title SIZE: holds SIZE and writes a title over its arguments and its environment.
 * hold SIZE: holds SIZE. fail CODE: starts a helper that exits with CODE, and holds 8.
 * grow SIZE: touches SIZE in a worker, which the parent starts again when it is killed.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static volatile char *touch(const char *mib) {
    size_t size = strtoul(mib, NULL, 10) << 20;
    char *held = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (held == MAP_FAILED) exit(9);
    madvise(held, size, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < size; at += 4096) held[at] = 1;
    return held;
}

static void stay(void) {
    for (;;) pause();
}

int main(int argc, char **argv) {
    const char *shape = argv[1], *size = argv[2];
    if (argc < 3) return 2;
    if (!strcmp(shape, "prefork")) {
        volatile char *shared = touch(size);
        size_t bytes = strtoul(size, NULL, 10) << 20;
        for (int worker = 0; worker < atoi(argv[4]); worker++) {
            if (fork() == 0) {
                long sum = 0;
                for (size_t at = 0; at < bytes; at += 4096) sum += shared[at];
                touch(argv[3]);
                stay();
            }
        }
        stay();
    } else if (!strcmp(shape, "crash-loop")) {
        touch(size);
        for (;;) {
            if (fork() == 0) {
                usleep(200000);
                abort();
            }
            wait(NULL);
        }
    } else if (!strcmp(shape, "storm")) {
        for (;;) {
            if (fork() == 0) execl("/proc/self/exe", "brief", "brief", size, NULL);
            wait(NULL);
        }
    } else if (!strcmp(shape, "brief")) {
        touch(size);
        usleep(200000);
        return 0;
    } else if (!strcmp(shape, "title")) {
        touch(size);
        char *end = argv[0];
        for (int at = 0; argv[at]; at++) end = argv[at] + strlen(argv[at]) + 1;
        for (int at = 0; environ[at]; at++) end = environ[at] + strlen(environ[at]) + 1;
        memset(argv[0], 0, end - argv[0]);
        strcpy(argv[0], "shapes: master");
        stay();
    } else if (!strcmp(shape, "grow")) {
        for (;;) {
            if (fork() == 0) {
                usleep(300000);
                touch(size);
                stay();
            }
            wait(NULL);
        }
    } else if (!strcmp(shape, "fail")) {
        if (fork() == 0) _exit(atoi(size));
        wait(NULL);
        touch("8");
        stay();
    } else if (!strcmp(shape, "hold")) {
        touch(size);
        stay();
    }
    return 2;
}
