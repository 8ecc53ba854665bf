/* Replaces musl's file of this name: Linux's system calls as calls of the kernel's functions.
 *
 * The number is a constant at each call, so one case of the `switch` is left, and a program contains the kernel's functions that
 * it calls and no others. What has no case here fails with ENOSYS. */

#ifndef HERMIT_SYSCALL_ARCH_H
#define HERMIT_SYSCALL_ARCH_H

#include "hermit.h"
#include <sys/syscall.h>

#define __SYSCALL_LL_E(x) (x)
#define __SYSCALL_LL_O(x) (x)

#define HERMIT_ENOSYS (-38L)

static inline __attribute__((__always_inline__))
long __hermit_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	(void)f;
	switch (n) {
	/* Descriptors. */
	case SYS_read: return sys_read((int)a, (void *)b, (unsigned long)c);
	case SYS_write: return sys_write((int)a, (const void *)b, (unsigned long)c);
	case SYS_readv: return sys_readv((int)a, (const void *)b, (unsigned long)c);
	case SYS_writev: return sys_writev((int)a, (const void *)b, (unsigned long)c);
	case SYS_pread64: return sys_pread((int)a, (void *)b, (unsigned long)c, d);
	case SYS_pwrite64: return sys_pwrite((int)a, (const void *)b, (unsigned long)c, d);
	case SYS_lseek: return sys_lseek((int)a, b, (int)c);
	case SYS_close: return sys_close((int)a);
	case SYS_dup: return sys_dup((int)a);
	case SYS_fsync: return sys_fsync((int)a);
	case SYS_fdatasync: return sys_fdatasync((int)a);
	case SYS_ftruncate: return sys_ftruncate((int)a, b);
	case SYS_fchmod: return sys_fchmod((int)a, (unsigned)b);
	case SYS_flock: return sys_flock((int)a, (int)b);
	case SYS_fcntl: return __hermit_fcntl((int)a, (int)b, c);
	case SYS_ioctl: return sys_ioctl((int)a, (int)b, (void *)c);
	case SYS_getdents64: return sys_getdents((int)a, (void *)b, (unsigned long)c);
	case SYS_poll: return sys_poll((void *)a, (unsigned long)b, (int)c);
	case SYS_pipe: return sys_pipe((int *)a, 0);
	case SYS_pipe2: return sys_pipe((int *)a, (int)b);
	case SYS_eventfd2: return sys_eventfd((unsigned long)a, (short)b);
	case SYS_fstat: return __hermit_fstat((int)a, (void *)b);
	/* Paths. */
	case SYS_open: return sys_open((const char *)a, (int)b, (int)c);
	case SYS_stat: return __hermit_stat((const char *)a, (void *)b);
	case SYS_lstat: return __hermit_lstat((const char *)a, (void *)b);
	case SYS_newfstatat: return __hermit_fstatat((int)a, (const char *)b, (void *)c, (int)d);
	case SYS_access: return __hermit_access((const char *)a, (int)b);
	case SYS_truncate: return __hermit_truncate((const char *)a, b);
	case SYS_unlink: return sys_unlink((const char *)a);
	case SYS_rmdir: return sys_rmdir((const char *)a);
	case SYS_mkdir: return sys_mkdir((const char *)a, (unsigned)b);
	case SYS_rename: return sys_rename((const char *)a, (const char *)b);
	case SYS_link: return sys_link((const char *)a, (const char *)b);
	case SYS_symlink: return sys_symlink((const char *)a, (const char *)b);
	case SYS_readlink: return sys_readlink((const char *)a, (void *)b, (unsigned long)c);
	case SYS_chmod: return sys_chmod((const char *)a, (unsigned)b);
	case SYS_utimensat: return __hermit_utimensat((int)a, (const char *)b, (const void *)c, (int)d);
	case SYS_chdir: return sys_chdir((const char *)a);
	case SYS_getcwd: return __hermit_getcwd((char *)a, (unsigned long)b);
	/* Memory. */
	case SYS_mmap: return __hermit_mmap(a, (unsigned long)b, (int)c, (int)d, (int)e);
	case SYS_munmap: return sys_munmap((void *)a, (unsigned long)b);
	case SYS_mprotect: return sys_mprotect((void *)a, (unsigned long)b, (unsigned)c);
	/* Threads and time. */
	case SYS_futex: return __hermit_futex((void *)a, (int)b, (unsigned)c, (const void *)d);
	case SYS_sched_yield: return (sys_yield(), 0L);
	case SYS_sched_getaffinity: return __hermit_affinity((unsigned long)b, (unsigned char *)c);
	case SYS_clock_gettime: return __hermit_clock_gettime((int)a, (void *)b);
	case SYS_nanosleep: return sys_nanosleep((const void *)a);
	case SYS_clock_nanosleep: return __hermit_clock_nanosleep((int)a, (int)b, (const void *)c);
	/* The process. There are no signals to block, and one user. */
	case SYS_getrandom: return __hermit_getrandom((void *)a, (unsigned long)b);
	case SYS_getpid: return sys_getpid();
	case SYS_getuid: case SYS_geteuid: case SYS_getgid: case SYS_getegid: return 0;
	case SYS_rt_sigprocmask: return __hermit_sigprocmask((unsigned long *)c);
	default: return HERMIT_ENOSYS;
	}
}

#define __syscall0(n) __hermit_syscall(n, 0, 0, 0, 0, 0, 0)
static inline __attribute__((__always_inline__)) long __syscall1(long n, long a)
{
	return __hermit_syscall(n, a, 0, 0, 0, 0, 0);
}
static inline __attribute__((__always_inline__)) long __syscall2(long n, long a, long b)
{
	return __hermit_syscall(n, a, b, 0, 0, 0, 0);
}
static inline __attribute__((__always_inline__)) long __syscall3(long n, long a, long b, long c)
{
	return __hermit_syscall(n, a, b, c, 0, 0, 0);
}
static inline __attribute__((__always_inline__)) long __syscall4(long n, long a, long b, long c, long d)
{
	return __hermit_syscall(n, a, b, c, d, 0, 0);
}
static inline __attribute__((__always_inline__)) long __syscall5(long n, long a, long b, long c, long d, long e)
{
	return __hermit_syscall(n, a, b, c, d, e, 0);
}
static inline __attribute__((__always_inline__))
long __syscall6(long n, long a, long b, long c, long d, long e, long f)
{
	return __hermit_syscall(n, a, b, c, d, e, f);
}

#endif
