// A disk that can be made slow or full from outside, for one process: preload it, and name a directory of switches.
//
// CHAOS_DISK/slow-PID: each sync waits for as many milliseconds as the file's text says.
// CHAOS_DISK/full-PID: nothing can be added to a file at a place (as the log writes): ENOSPC.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

static int switched(const char *name, char *text, int room) {
    char path[512];
    const char *directory = getenv("CHAOS_DISK");
    if (directory == NULL) return 0;
    snprintf(path, sizeof path, "%s/%s-%d", directory, name, (int)getpid());
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, text, room - 1);
    text[length > 0 ? length : 0] = 0;
    close(file);
    return 1;
}

static void wait_if_slow(void) {
    char text[32];
    int before = errno;
    if (switched("slow", text, sizeof text)) usleep(1000 * atoi(text));
    errno = before;
}

int fdatasync(int file) {
    wait_if_slow();
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    return real(file);
}

int syncfs(int file) {
    wait_if_slow();
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "syncfs");
    return real(file);
}

static ssize_t write_unless_full(const char *name, int file, const struct iovec *parts, int count, off_t position) {
    char text[32];
    if (switched("full", text, sizeof text)) {
        errno = ENOSPC;
        return -1;
    }
    ssize_t (*real)(int, const struct iovec *, int, off_t) =
        (ssize_t(*)(int, const struct iovec *, int, off_t))dlsym(RTLD_NEXT, name);
    return real(file, parts, count, position);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t position) {
    return write_unless_full("pwritev", file, parts, count, position);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off_t position) {
    return write_unless_full("pwritev64", file, parts, count, position);
}
