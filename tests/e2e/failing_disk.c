/* Makes writes and synchronizations of regular files fail, for the process that preloads it. The first byte of the file FAILING_DISK says how;
 * it is read before each call, so that a check can change it while the server runs. The second byte becomes 1 when a synchronization waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int control = -2;

static char mode(int fd) {
    struct stat facts;
    char found = 0;
    if (control == -2) {
        const char *path = getenv("FAILING_DISK");
        control = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    }
    /* The log is a regular file, too; standard streams never fail. */
    if (control < 0 || fd <= 2 || fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) || pread(control, &found, 1, 0) != 1) return 0;
    return found;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    switch (mode(fd)) {
    case 's': /* full disk */
        errno = ENOSPC;
        return -1;
    case 'i': /* error of the device */
        errno = EIO;
        return -1;
    case 'h': /* short write, then a full disk */
        if (count > 1) return real(fd, bytes, count / 2);
        errno = ENOSPC;
        return -1;
    case 'p': /* short writes that succeed */
        return real(fd, bytes, count > 7 ? 7 : count);
    }
    return real(fd, bytes, count);
}

static int synchronize(int fd, const char *name) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    if (mode(fd) == 'f') {
        errno = EIO;
        return -1;
    }
    return real(fd);
}

int fsync(int fd) { return synchronize(fd, "fsync"); }
int fdatasync(int fd) {
    if (mode(fd) == 'w') pwrite(control, "\1", 1, 1);
    while (mode(fd) == 'w') usleep(1000);
    return synchronize(fd, "fdatasync");
}
