/* The clock of a process, wrong by WRONG_CLOCK_SECONDS: preload it. Only the time of day is
   wrong; what measures spans (CLOCK_MONOTONIC) is not, as on a machine with a wrong clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long offset(void)
{
    const char *seconds = getenv("WRONG_CLOCK_SECONDS");
    return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*next)(clockid_t, struct timespec *);
    if (!next)
        next = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = next(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    static int (*next)(struct timeval *, void *);
    if (!next)
        next = dlsym(RTLD_NEXT, "gettimeofday");
    int failed = next(now, zone);
    if (!failed)
        now->tv_sec += offset();
    return failed;
}

time_t time(time_t *into)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into)
        *into = now.tv_sec;
    return now.tv_sec;
}
