/* A process's clock and disk, made to go wrong while it runs.
 *
 * Preloaded (LD_PRELOAD) into a process of a drill's own cluster. The file that HERDPY_FAULT_INJECTOR names is
 * mapped by the process and by whoever does the drill, who writes what shall hold from now on (fault_injector.py):
 *
 *     clock_ns     added to the wall clock (CLOCK_REALTIME), not to the clocks that count up
 *     sync_ns      how much longer every fsync and fdatasync takes
 *     is_full      every write to a regular file fails with ENOSPC, and statvfs says that nothing is free;
 *                  standard output and error go on, so that the log tells what happened
 *
 * Without the file, and with zeros in it, everything is as it was. Absolute times of the wall clock that the
 * process gives to the kernel (futex, sem_timedwait) are set back, for the kernel's clock is right.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define REAL(name) ((__typeof__(&name))real(#name))

struct switches {
    volatile int64_t clock_ns, sync_ns, is_full;
};

static struct switches none;
static struct switches *switches = &none;

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL)
        abort();
    return found;
}

__attribute__((constructor)) static void map_switches(void) {
    const char *path = getenv("HERDPY_FAULT_INJECTOR");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct switches), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        switches = mapped;
}

/* The clock. */

static struct timespec moved(struct timespec at, int64_t by_ns) {
    int64_t ns = (int64_t)at.tv_sec * SECOND + at.tv_nsec + by_ns;
    at.tv_sec = ns / SECOND;
    at.tv_nsec = ns % SECOND;
    if (at.tv_nsec < 0) {
        at.tv_nsec += SECOND;
        at.tv_sec -= 1;
    }
    return at;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static __typeof__(&clock_gettime) next;
    if (next == NULL)
        next = REAL(clock_gettime);
    int failed = next(clock, at);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) && switches->clock_ns)
        *at = moved(*at, switches->clock_ns);
    return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
    (void)zone;
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL)
        *at = now.tv_sec;
    return now.tv_sec;
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    static __typeof__(&sem_timedwait) next;
    if (next == NULL)
        next = REAL(sem_timedwait);
    struct timespec there = moved(*until, -switches->clock_ns);
    return next(semaphore, &there);
}

long syscall(long number, ...) {
    static __typeof__(&syscall) next;
    if (next == NULL)
        next = REAL(syscall);
    va_list given;
    va_start(given, number);
    long a = va_arg(given, long), b = va_arg(given, long), c = va_arg(given, long);
    long d = va_arg(given, long), e = va_arg(given, long), f = va_arg(given, long);
    va_end(given);
    struct timespec there;
    int command = (int)b & FUTEX_CMD_MASK;
    if (number == SYS_futex && d != 0 && switches->clock_ns && ((int)b & FUTEX_CLOCK_REALTIME) &&
        command == FUTEX_WAIT_BITSET) {
        there = moved(*(const struct timespec *)d, -switches->clock_ns);
        d = (long)&there;
    }
    return next(number, a, b, c, d, e, f);
}

/* The disk. */

static int refuses(int fd) {
    struct stat about;
    if (!switches->is_full || fd <= STDERR_FILENO || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        return 0;
    errno = ENOSPC;
    return 1;
}

static void dawdle(void) {
    int64_t ns = switches->sync_ns;
    struct timespec rest = {ns / SECOND, ns % SECOND};
    while (ns > 0 && nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
}

#define WRITER(type, name, parameters, arguments)                                                              \
    type name parameters {                                                                                     \
        static __typeof__(&name) next;                                                                         \
        if (next == NULL)                                                                                      \
            next = REAL(name);                                                                                 \
        return refuses(fd) ? -1 : next arguments;                                                              \
    }

WRITER(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size))
WRITER(ssize_t, pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
WRITER(ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at))
WRITER(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
WRITER(ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
WRITER(ssize_t, pwritev64, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
WRITER(int, ftruncate, (int fd, off_t size), (fd, size))
WRITER(int, ftruncate64, (int fd, off64_t size), (fd, size))
WRITER(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
WRITER(int, fallocate64, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size))

/* These two return the error, rather than set errno. */
int posix_fallocate(int fd, off_t at, off_t size) {
    return refuses(fd) ? ENOSPC : REAL(posix_fallocate)(fd, at, size);
}

int posix_fallocate64(int fd, off64_t at, off64_t size) {
    return refuses(fd) ? ENOSPC : REAL(posix_fallocate64)(fd, at, size);
}

int fsync(int fd) {
    dawdle();
    return REAL(fsync)(fd);
}

int fdatasync(int fd) {
    dawdle();
    return REAL(fdatasync)(fd);
}

int statvfs(const char *path, struct statvfs *told) {
    int failed = REAL(statvfs)(path, told);
    if (!failed && switches->is_full)
        told->f_bfree = told->f_bavail = 0;
    return failed;
}

int statvfs64(const char *path, struct statvfs64 *told) {
    int failed = REAL(statvfs64)(path, told);
    if (!failed && switches->is_full)
        told->f_bfree = told->f_bavail = 0;
    return failed;
}
