// A service that gets a large document every hour, keeps many small things for minutes or days, and is quiet in between.
// It has a clock of its own, on which days pass within seconds. An allocator in the same process is given that clock too
// and gives memory back by it, so what a run needs does not depend on how fast the machine is.
//
//   cc -O2 -fno-builtin -rdynamic -pthread hourly.c -o hourly -lm
//   ./hourly SEED [HOURS]
//
// Every minute: requests and sessions of heavy-tailed sizes and lifetimes. Every hour: a document of 3 MB with an index,
// and jobs for two worker threads. A job compares two old documents, for which it needs 7 to 15 MB in large buffers
// and thousands of slices, and leaves a result that grew by realloc and is kept for hours. Then it writes "done" and
// sleeps, holding what it holds.
//
// The same seed asks for the same, up to the order in which two workers ask at once. What the program needs for
// itself it maps, so that all of malloc is the load.

#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 2, JOBS_AN_HOUR = 16, SLICES = 3000, MOST_HELD = 4000000, WHEEL_MINUTES = 4096 };

// ---- The clock

static atomic_ullong now_ns = 1000000000ull;

// The program exports this, so libraries that are loaded into it call it in place of the C library's.
int clock_gettime(clockid_t clock, struct timespec *time) {
  if (clock == CLOCK_REALTIME || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID)
    return syscall(SYS_clock_gettime, clock, time);
  uint64_t ns = atomic_load_explicit(&now_ns, memory_order_relaxed);
  time->tv_sec = ns / 1000000000ull;
  time->tv_nsec = ns % 1000000000ull;
  return 0;
}

// ---- Draws

static uint64_t next(uint64_t *state) {  // splitmix64
  uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

static double uniform(uint64_t *state) { return ((next(state) >> 11) + 0.5) / 9007199254740992.0; }

static uint32_t between(uint64_t *state, uint32_t low, uint32_t high) {
  return low + (uint32_t)(next(state) % (high - low + 1));
}

// Heavy-tailed: `low` at least; the smaller `shape`, the heavier.
static uint32_t pareto(uint64_t *state, double low, double shape, double most) {
  double drawn = low / pow(uniform(state), 1 / shape);
  return (uint32_t)(drawn < most ? drawn : most);
}

// ---- Memory

// One byte of each page and the last one, so that all of it is really there.
static char *touched(char *memory, size_t from, size_t bytes) {
  if (!memory) _exit(9);
  for (size_t at = from; at < bytes; at += 4096) memory[at] = 1;
  memory[bytes - 1] = 1;
  return memory;
}

static char *taken(size_t bytes) { return touched(malloc(bytes), 0, bytes); }

// What is held, in a list for each minute of its end.
struct held { char *memory; uint32_t next; };
static struct held *table;
static uint32_t used, unused_first, ends[WHEEL_MINUTES], minute;

static void hold(char *memory, uint32_t minutes) {
  uint32_t at = unused_first;
  if (at) unused_first = table[at].next;
  else if ((at = ++used) >= MOST_HELD) _exit(8);
  uint32_t *end = &ends[(minute + (minutes < 1 ? 1 : minutes < WHEEL_MINUTES ? minutes : WHEEL_MINUTES - 1)) % WHEEL_MINUTES];
  table[at] = (struct held){memory, *end};
  *end = at;
}

static void let_go(void) {
  uint32_t at = ends[minute % WHEEL_MINUTES];
  ends[minute % WHEEL_MINUTES] = 0;
  while (at) {
    uint32_t following = table[at].next;
    free(table[at].memory);
    table[at].next = unused_first;
    unused_first = at;
    at = following;
  }
}

// ---- Workers

struct job { uint64_t seed; uint32_t minutes; char *result; };
static struct job jobs[JOBS_AN_HOUR];
static atomic_int taken_jobs;
static pthread_barrier_t begin, end;

static void compare(struct job *job) {
  uint64_t draws = job->seed;
  char *large[5], *slices[SLICES];
  uint32_t sizes[5] = {3000000 + between(&draws, 0, 200000), 3000000 + between(&draws, 0, 200000), 480000, 480000,
                       between(&draws, 0, 2) ? 268000 : 8200000};
  for (int at = 0; at < 5; at++) large[at] = taken(sizes[at]);
  for (int at = 0; at < SLICES; at++) slices[at] = taken(between(&draws, 24, 400));
  size_t bytes = 4096, whole = between(&draws, 60000, 900000);
  job->result = taken(bytes);
  for (; bytes < whole; bytes *= 2) job->result = touched(realloc(job->result, 2 * bytes), bytes, 2 * bytes);
  job->result = realloc(job->result, whole);
  for (int at = 0; at < SLICES; at++) free(slices[at]);
  for (int at = 0; at < 5; at++) free(large[at]);
}

static void *work(void *unused) {
  for (;;) {
    pthread_barrier_wait(&begin);
    for (int at; (at = atomic_fetch_add(&taken_jobs, 1)) < JOBS_AN_HOUR;) compare(&jobs[at]);
    pthread_barrier_wait(&end);
  }
  return unused;
}

// ---- The service

static void one_hour(uint64_t *draws, int hour) {
  double busy = (1 + 0.5 * sin(2 * M_PI * hour / 24)) * exp(0.4 * (uniform(draws) - 0.5));
  double rush = hour % 6 == 3 ? 6 : 0.5 + uniform(draws);  // Some documents are wanted by many more than others
  hold(taken(3000000 + between(draws, 0, 200000)), 180);
  for (int entry = 0; entry < 7000; entry++) {
    hold(taken(between(draws, 150, 350)), 180 + between(draws, 0, 5));
    hold(taken(between(draws, 16, 48)), 180);
  }
  for (int at = 0; at < JOBS_AN_HOUR; at++)
    jobs[at] = (struct job){next(draws), 60 * between(draws, 3, 24), NULL};
  atomic_store(&taken_jobs, 0);
  pthread_barrier_wait(&begin);
  pthread_barrier_wait(&end);
  for (int at = 0; at < JOBS_AN_HOUR; at++) hold(jobs[at].result, jobs[at].minutes);
  for (int of_hour = 0; of_hour < 60; of_hour++) {
    atomic_store(&now_ns, 1000000000ull + 60000000000ull * ++minute);
    let_go();
    for (int at = 0; at < 40 * busy; at++) {  // Sessions
      uint32_t minutes = pareto(draws, 2, 0.9, 4000);
      for (int part = 0; part < 18; part++) hold(taken(between(draws, 24, 700)), minutes);
      hold(taken(17408), between(draws, 1, 3));
    }
    for (int at = 0; at < 800 * busy; at++) {  // Small state
      uint32_t minutes = pareto(draws, 1, 0.85, 2880);
      hold(taken(between(draws, 200, 760)), minutes);
    }
    int requests = (of_hour < 20 ? 2.0 : 0.6) * 25 * busy * rush;  // Most come soon after a new document
    for (int at = 0; at < requests; at++) {
      uint32_t minutes = pareto(draws, 1, 0.8, 60);
      hold(taken(268000), 1);
      for (int left = between(draws, 30000, 600000); left > 0; left -= 32704) hold(taken(32704), between(draws, 1, minutes));
    }
  }
}

int main(int count, char **words) {
  uint64_t draws = count > 1 ? strtoull(words[1], NULL, 10) : 1;
  int hours = count > 2 ? atoi(words[2]) : 36;
  table = mmap(NULL, MOST_HELD * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED || hours < 1) return 2;
  pthread_barrier_init(&begin, NULL, WORKERS + 1);
  pthread_barrier_init(&end, NULL, WORKERS + 1);
  for (int at = 0; at < WORKERS; at++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL)) return 2;
  }
  for (int entry = 0; entry < 24000; entry++) hold(taken(pareto(&draws, 300, 0.9, 3000)), WHEEL_MINUTES - 1);
  for (int hour = 0; hour < hours; hour++) one_hour(&draws, hour);
  if (write(STDOUT_FILENO, "done\n", 5) != 5) return 2;
  for (;;) pause();
}
