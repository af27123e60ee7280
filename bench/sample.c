/* The bare baseline of one sample: read /proc/PID/stat and /proc/PID/status, parse nothing.
 * usage: sample PID COUNT kept|opened   prints nanoseconds per sample
 * `kept` reads files that stay open, `opened` opens and closes them each time. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char buffer[4096];

static void read_once(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, buffer, sizeof buffer) <= 0) exit(1);
    close(file);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    char paths[2][64];
    snprintf(paths[0], sizeof paths[0], "/proc/%s/stat", argv[1]);
    snprintf(paths[1], sizeof paths[1], "/proc/%s/status", argv[1]);
    long count = atol(argv[2]);
    int kept = strcmp(argv[3], "kept") == 0;
    int files[2] = {open(paths[0], O_RDONLY), open(paths[1], O_RDONLY)};
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (long i = 0; i < count; i++)
        for (int f = 0; f < 2; f++) {
            if (!kept) read_once(paths[f]);
            else if (pread(files[f], buffer, sizeof buffer, 0) <= 0) return 1;
        }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.0f\n", ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / count);
}
