/* Services of several processes whose memory is known by construction; sizes are in MiB.
 *
 * prefork SHARED PRIVATE WORKERS [swap | swap-read]: a parent touches SHARED, each worker reads it and touches PRIVATE of its
 *   own. With `swap` the parent pushes the second half of SHARED to swap before, and no worker reads that; with `swap-read`
 *   the parent reads it again, so that it is in memory and in swap.
 * crash-loop HELD: a parent holds HELD and restarts a worker that aborts after 0.2 s, again and again.
 * storm SIZE: a parent starts itself as `brief SIZE`, which lives for 0.2 s, one after the other.
 * title SIZE: holds SIZE and writes a title over its arguments and its environment.
 * hold SIZE: holds SIZE. fail CODE: starts a helper that exits with CODE, and holds 8.
 * recycle SIZE WORKERS: workers that hold SIZE for 0.6 s each, one after the other in each place.
 * grow SIZE: touches SIZE in a worker, which the parent starts again when it is killed.
 * orphan SIZE: a helper whose parent has ended and that has a session of its own holds SIZE; it runs with an empty
 *   environment. spend HOW: 20 children take 50 ms of CPU time each, and are waited for, `ignored` (SIGCHLD), `uncollected` or
 *   each an `orphan`.
 * late-crash HOW: a child that aborts after half a second: in a program that another than its main thread executed
 *   (`exec`), or in another than its main thread, which has ended (`thread`).
 * burners SIZE: three helpers called `burner`, one after the other, take half a second of CPU time each, stay for half a second
 *   more and end, with SIZE; a fourth takes the same, makes the file `burnt` and stays.
 * between SIZE: a helper with an empty environment holds SIZE for 2 s of the service's life.
 * spike SIZE: has SIZE once, before it is ready. crash-at-end SIZE: aborts when it gets SIGTERM. stubborn SIZE: ignores SIGTERM.
 * huge SIZE: holds SIZE in huge pages of hugetlb. memfd SIZE: holds SIZE of shared memory, and 8.
 *
 * prefork, title, hold, fail, orphan, spend, spike, crash-at-end, stubborn and huge write `holds` when they hold all.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

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

static void holds(void) {
    puts("holds");
    fflush(stdout);
    stay();
}

static void read_through(volatile char *held, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 4096) (void)held[at];
}

/* Of this process, in bytes. */
static size_t in_swap(void) {
    char line[256];
    size_t kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmSwap: %zu", &kib);
    if (status) fclose(status);
    return kib << 10;
}

static void spend(double seconds) {
    struct timespec now;
    do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    while (now.tv_sec + now.tv_nsec * 1e-9 < seconds);
}

static void crash(int signal) {
    (void)signal;
    abort();
}

static void *crash_late(void *how) {
    if (!strcmp(how, "exec")) execl("/proc/self/exe", "helper", "late-crash", "now", NULL);
    usleep(500000);
    abort();
}

int main(int argc, char **argv) {
    const char *shape = argv[1], *size = argv[2];
    if (argc < 3) return 2;
    if (!strcmp(shape, "prefork")) {
        volatile char *shared = touch(size);
        size_t bytes = strtoul(size, NULL, 10) << 20;
        const char *swap = argc > 5 ? argv[5] : "";
        size_t read_bytes = *swap ? bytes / 2 : bytes;
        int ready[2], workers = atoi(argv[4]);
        char byte = 1;
        if (pipe(ready)) return 9;
        size_t pushed = bytes - read_bytes;
        if (*swap && (madvise((void *)(shared + read_bytes), pushed, MADV_PAGEOUT) || in_swap() < pushed / 2)) return 9;
        for (int worker = 0; worker < workers; worker++) {
            if (fork() == 0) {
                read_through(shared, read_bytes);
                touch(argv[3]);
                if (write(ready[1], &byte, 1) != 1) return 9;
                stay();
            }
        }
        for (int worker = 0; worker < workers; worker++)
            if (read(ready[0], &byte, 1) != 1) return 9;
        if (!strcmp(swap, "swap-read")) {
            read_through(shared + read_bytes, pushed);
            if (in_swap() > 0) return 9;
        }
        holds();
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
    } else if (!strcmp(shape, "recycle")) {
        for (int worker = 0;; worker++) {
            if (worker >= atoi(argv[3])) wait(NULL);
            if (fork() == 0) {
                touch(size);
                usleep(600000);
                return 0;
            }
            if (worker < atoi(argv[3])) usleep(200000);
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
        holds();
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
        holds();
    } else if (!strcmp(shape, "orphan")) {
        pid_t parent = fork();
        if (parent == 0) {
            setsid();
            if (fork()) _exit(0);
            clearenv();
            execl("/proc/self/exe", "helper", "hold", size, NULL);
        }
        waitpid(parent, NULL, 0);
        stay();
    } else if (!strcmp(shape, "spend")) {
        int ended[2];
        char byte = 1;
        if (pipe(ended)) return 9;
        if (!strcmp(size, "ignored")) signal(SIGCHLD, SIG_IGN);
        for (int child = 0; child < 20; child++) {
            pid_t pid = fork();
            if (pid == 0) {
                pid_t grandchild = strcmp(size, "orphan") ? 0 : fork();
                if (grandchild) _exit(grandchild < 0);
                spend(0.05);
                if (write(ended[1], &byte, 1) != 1) return 9;
                _exit(0);
            }
            int status = 0;
            if (!strcmp(size, "waited") || !strcmp(size, "orphan")) waitpid(pid, &status, 0);
            if (pid < 0 || status) return 9;
            if (read(ended[0], &byte, 1) != 1) return 9;
        }
        holds();
    } else if (!strcmp(shape, "late-crash")) {
        if (!strcmp(size, "now")) crash_late((void *)size);
        if (fork() == 0) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, crash_late, (void *)size)) return 9;
            if (!strcmp(size, "thread")) pthread_exit(NULL);
            stay();
        }
        wait(NULL);
        touch("8");
        holds();
    } else if (!strcmp(shape, "burners")) {
        for (int helper = 0;; helper++) {
            if (fork() == 0) execl("/proc/self/exe", "burner", helper < 3 ? "burn" : "burn-and-stay", size, NULL);
            wait(NULL);
        }
    } else if (!strcmp(shape, "burn") || !strcmp(shape, "burn-and-stay")) {
        touch(size);
        spend(0.5);
        if (!strcmp(shape, "burn-and-stay")) {
            FILE *done = fopen("burnt", "w");
            if (!done || fclose(done)) return 1;
            stay();
        }
        usleep(500000);
        return 0;
    } else if (!strcmp(shape, "between")) {
        usleep(500000);
        if (fork() == 0) {
            clearenv();
            execl("/proc/self/exe", "helper", "hold-for-2", size, NULL);
        }
        wait(NULL);
        stay();
    } else if (!strcmp(shape, "hold-for-2")) {
        touch(size);
        usleep(2000000);
        return 0;
    } else if (!strcmp(shape, "spike")) {
        munmap((void *)touch(size), strtoul(size, NULL, 10) << 20);
        touch("8");
        holds();
    } else if (!strcmp(shape, "crash-at-end") || !strcmp(shape, "stubborn")) {
        signal(SIGTERM, shape[0] == 'c' ? crash : SIG_IGN);
        touch(size);
        holds();
    } else if (!strcmp(shape, "huge")) {
        size_t bytes = strtoul(size, NULL, 10) << 20;
        char *held = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
        if (held == MAP_FAILED) return 9;
        for (size_t at = 0; at < bytes; at += 4096) held[at] = 1;
        holds();
    } else if (!strcmp(shape, "memfd")) {
        size_t bytes = strtoul(size, NULL, 10) << 20;
        int file = memfd_create("held", 0);
        if (file < 0 || ftruncate(file, bytes)) return 9;
        char *held = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (held == MAP_FAILED) return 9;
        for (size_t at = 0; at < bytes; at += 4096) held[at] = 1;
        touch("8");
        holds();
    } else if (!strcmp(shape, "hold")) {
        touch(size);
        holds();
    }
    return 2;
}
