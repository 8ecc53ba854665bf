/* System calls of Linux that the kernel's functions do not answer as they are (syscall_arch.h). */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "futex.h"
#include "hermit.h"
#include "kstat.h"

/* Numbers of hermit-abi that differ from Linux's. */
enum { HERMIT_CLOCK_REALTIME = 1, HERMIT_CLOCK_MONOTONIC = 4, HERMIT_FUTEX_RELATIVE_TIMEOUT = 1 };

/* The kernel's structures, whose layouts hermit-abi asserts, are musl's. */
#define AT(type, field, offset) _Static_assert(offsetof(struct type, field) == offset, #type "." #field)
AT(kstat, st_nlink, 16);
AT(kstat, st_mode, 24);
AT(kstat, st_rdev, 40);
AT(kstat, st_size, 48);
AT(kstat, st_blksize, 56);
AT(kstat, st_blocks, 64);
AT(kstat, st_atime_sec, 72);
AT(kstat, st_mtime_sec, 88);
AT(kstat, st_ctime_nsec, 112);
AT(timespec, tv_nsec, 8);
AT(dirent, d_off, 8);
AT(dirent, d_reclen, 16);
AT(dirent, d_type, 18);
AT(dirent, d_name, 19);
AT(iovec, iov_len, 8);
AT(pollfd, events, 4);
AT(pollfd, revents, 6);

/* Nanoseconds of the kernel have 32 bits; it does not write the upper half of a `long`. */
static long nanoseconds(long field)
{
	return (unsigned)field;
}

/* Record locks belong to a process, and there is one: no lock of it can be in its own way. */
long __hermit_fcntl(int fd, int command, long argument)
{
	switch (command) {
	case F_GETLK:
	case F_SETLK:
	case F_SETLKW: {
		int flags = sys_fcntl(fd, F_GETFL, 0);
		if (flags < 0) return flags;
		if (command == F_GETLK) ((struct flock *)argument)->l_type = F_UNLCK;
		return 0;
	}
	case F_DUPFD_CLOEXEC:
		return sys_fcntl(fd, F_DUPFD, (int)argument);
	case F_SETFL:
		argument &= ~O_LARGEFILE;
	}
	return sys_fcntl(fd, command, (int)argument);
}

static long with_whole_times(long result, struct kstat *stat)
{
	if (!result) {
		stat->st_atime_nsec = nanoseconds(stat->st_atime_nsec);
		stat->st_mtime_nsec = nanoseconds(stat->st_mtime_nsec);
		stat->st_ctime_nsec = nanoseconds(stat->st_ctime_nsec);
	}
	return result;
}

long __hermit_fstat(int fd, void *stat)
{
	return with_whole_times(sys_fstat(fd, stat), stat);
}

long __hermit_stat(const char *path, void *stat)
{
	return with_whole_times(sys_stat(path, stat), stat);
}

long __hermit_lstat(const char *path, void *stat)
{
	return with_whole_times(sys_lstat(path, stat), stat);
}

/* There are no paths that begin at a descriptor. */
static int is_supported(int fd, const char *path)
{
	return fd == AT_FDCWD || path[0] == '/';
}

long __hermit_fstatat(int fd, const char *path, void *stat, int flags)
{
	if ((flags & AT_EMPTY_PATH) && !path[0]) return __hermit_fstat(fd, stat);
	if (!is_supported(fd, path)) return -EOPNOTSUPP;
	return flags & AT_SYMLINK_NOFOLLOW ? __hermit_lstat(path, stat) : __hermit_stat(path, stat);
}

/* The only user may do everything, as root, who executes what somebody may execute. */
long __hermit_access(const char *path, int mode)
{
	struct kstat stat;
	int result = sys_stat(path, &stat);
	if (result || !(mode & X_OK) || S_ISDIR(stat.st_mode) || stat.st_mode & 0111) return result;
	return -EACCES;
}

long __hermit_truncate(const char *path, long size)
{
	int fd = sys_open(path, O_WRONLY, 0);
	if (fd < 0) return fd;
	int result = sys_ftruncate(fd, size);
	sys_close(fd);
	return result;
}

long __hermit_utimensat(int fd, const char *path, const void *times, int flags)
{
	if (!path) return sys_futimens(fd, times);
	if (!is_supported(fd, path)) return -EOPNOTSUPP;
	return sys_utimens(path, times, flags);
}

/* Linux counts the zero byte at the end. */
long __hermit_getcwd(char *buffer, unsigned long size)
{
	if (!size) return -ERANGE;
	long length = sys_getcwd(buffer, size - 1);
	if (length < 0) return length;
	buffer[length] = 0;
	return length + 1;
}

/* Only new private memory at an address of the kernel's choice: files cannot be mapped. */
long __hermit_mmap(long address, unsigned long size, int protection, int flags, int fd)
{
	(void)address;
	(void)fd;
	if (!(flags & MAP_ANONYMOUS)) return -ENODEV;
	if (flags & MAP_FIXED) return -EOPNOTSUPP;
	void *memory;
	int result = sys_mmap(size, (unsigned)protection, &memory);
	return result ? result : (long)memory;
}

long __hermit_futex(void *address, int operation, unsigned value, const void *timeout)
{
	switch (operation & ~FUTEX_PRIVATE) {
	case FUTEX_WAIT:
		return sys_futex_wait(address, value, timeout, HERMIT_FUTEX_RELATIVE_TIMEOUT);
	case FUTEX_WAKE:
		return sys_futex_wake(address, (int)value);
	case FUTEX_REQUEUE:
		/* musl wakes none and moves one; the one wakes instead, and waits for the other word by itself. */
		return sys_futex_wake(address, 1);
	default:
		return -ENOSYS;
	}
}

/* All CPUs of the machine; the size of the set, as Linux returns it. */
long __hermit_affinity(unsigned long size, unsigned char *set)
{
	unsigned long count = sys_available_parallelism();
	if (size * 8 < count) return -EINVAL;
	memset(set, 0, size);
	for (unsigned long cpu = 0; cpu < count; cpu++) set[cpu / 8] |= 1 << cpu % 8;
	return (long)size;
}

static int clock_of(int clock)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_TAI:
		return HERMIT_CLOCK_REALTIME;
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
		return HERMIT_CLOCK_MONOTONIC;
	default:
		return 0;
	}
}

long __hermit_clock_gettime(int clock, void *time)
{
	struct timespec *spec = time;
	int known = clock_of(clock);
	int result = known ? sys_clock_gettime(known, time) : -EINVAL;
	if (!result) spec->tv_nsec = nanoseconds(spec->tv_nsec);
	return result;
}

long __hermit_clock_nanosleep(int clock, int flags, const void *request)
{
	const struct timespec *wanted = request;
	if (wanted->tv_sec < 0 || (unsigned long)wanted->tv_nsec >= 1000000000) return -EINVAL;
	if (!(flags & TIMER_ABSTIME)) return clock_of(clock) ? sys_nanosleep(request) : -EINVAL;
	for (;;) {
		struct timespec rest;
		long result = __hermit_clock_gettime(clock, &rest);
		if (result) return result;
		rest.tv_sec = wanted->tv_sec - rest.tv_sec;
		rest.tv_nsec = wanted->tv_nsec - rest.tv_nsec;
		if (rest.tv_nsec < 0) {
			rest.tv_sec--;
			rest.tv_nsec += 1000000000;
		}
		if (rest.tv_sec < 0 || (!rest.tv_sec && !rest.tv_nsec)) return 0;
		result = sys_nanosleep(&rest);
		if (result) return result;
	}
}

/* No signal is ever sent, so none is blocked. */
long __hermit_sigprocmask(unsigned long *old)
{
	if (old) *old = 0;
	return 0;
}

long __hermit_getrandom(void *buffer, unsigned long size)
{
	return sys_read_entropy(buffer, size, 0) < 0 ? -sys_get_errno() : (long)size;
}
