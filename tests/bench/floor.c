/* The physical floor of a round trip: two processes, a socketpair, blocking read and write, nothing else.
 *
 *   floor <bytes> <seconds> <window> <core of the client> <core of the server>
 *
 * window 1: prints the median round trip in nanoseconds. window > 1: that many messages under way, prints round
 * trips a second. Equal cores: the same-core floor; different ones: the two-core floor. Exits 1 on any failure.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES 1000000
#define WARM_UP 200

static long samples[SAMPLES];

static void die(const char *what) {
    perror(what);
    exit(1);
}

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

/* 0 when all of `size` bytes were read, -1 at the end of the peer. */
static int get(int fd, char *buffer, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t part = read(fd, buffer + done, size - done);
        if (part <= 0) return -1;
        done += (size_t)part;
    }
    return 0;
}

static int put(int fd, const char *buffer, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t part = write(fd, buffer + done, size - done);
        if (part <= 0) return -1;
        done += (size_t)part;
    }
    return 0;
}

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set)) die("sched_setaffinity");
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: floor bytes seconds window client-core server-core\n");
        return 1;
    }
    size_t size = (size_t)atol(argv[1]);
    long length = (long)(atof(argv[2]) * 1e9);
    int window = atoi(argv[3]), ends[2];
    char *buffer = calloc(1, size);
    if (!buffer || socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) die("socketpair");
    pid_t server = fork();
    if (server < 0) die("fork");
    if (server == 0) {
        pin(atoi(argv[5]));
        close(ends[0]);
        while (!get(ends[1], buffer, size) && !put(ends[1], buffer, size)) continue;
        _exit(0);
    }
    pin(atoi(argv[4]));
    close(ends[1]);
    for (int i = 0; i < WARM_UP; i++)
        if (put(ends[0], buffer, size) || get(ends[0], buffer, size)) die("warm-up");
    long start = now(), stop = start + length, last = start;
    long count = 0;
    if (window <= 1) {
        while (last < stop && count < SAMPLES) {
            long begin = now();
            if (put(ends[0], buffer, size) || get(ends[0], buffer, size)) die("trip");
            last = now();
            samples[count++] = last - begin;
        }
        qsort(samples, (size_t)count, sizeof *samples, ascending);
        printf("%ld\n", samples[count / 2]);
    } else {
        for (int i = 0; i < window; i++)
            if (put(ends[0], buffer, size)) die("fill");
        while ((last = now()) < stop) {
            if (get(ends[0], buffer, size) || put(ends[0], buffer, size)) die("trip");
            count++;
        }
        printf("%ld\n", (long)(count * 1e9 / (double)(last - start)));
    }
    close(ends[0]);
    return waitpid(server, NULL, 0) == server ? 0 : 1;
}
