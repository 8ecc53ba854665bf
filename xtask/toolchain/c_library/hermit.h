/* The kernel's functions (hermit-abi documents them), and those of system_calls.c. They return a negative errno. */

#ifndef HERMIT_H
#define HERMIT_H

#pragma GCC visibility push(default)
long sys_read(int, void *, unsigned long);
long sys_write(int, const void *, unsigned long);
long sys_readv(int, const void *, unsigned long);
long sys_writev(int, const void *, unsigned long);
long sys_pread(int, void *, unsigned long, long);
long sys_pwrite(int, const void *, unsigned long, long);
long sys_lseek(int, long, int);
long sys_getdents(int, void *, unsigned long);
long sys_readlink(const char *, void *, unsigned long);
long sys_getcwd(void *, unsigned long);
int sys_close(int);
int sys_dup(int);
int sys_fsync(int);
int sys_fdatasync(int);
int sys_ftruncate(int, long);
int sys_fchmod(int, unsigned);
int sys_flock(int, int);
int sys_fcntl(int, int, int);
int sys_ioctl(int, int, void *);
int sys_poll(void *, unsigned long, int);
int sys_pipe(int *, int);
int sys_eventfd(unsigned long, short);
int sys_fstat(int, void *);
int sys_futimens(int, const void *);
int sys_open(const char *, int, int);
int sys_stat(const char *, void *);
int sys_lstat(const char *, void *);
int sys_unlink(const char *);
int sys_rmdir(const char *);
int sys_mkdir(const char *, unsigned);
int sys_rename(const char *, const char *);
int sys_link(const char *, const char *);
int sys_symlink(const char *, const char *);
int sys_chmod(const char *, unsigned);
int sys_utimens(const char *, const void *, int);
int sys_chdir(const char *);
int sys_mmap(unsigned long, unsigned, void **);
int sys_munmap(void *, unsigned long);
int sys_mprotect(void *, unsigned long, unsigned);
void *sys_malloc(unsigned long, unsigned long);
void *sys_alloc_zeroed(unsigned long, unsigned long);
void *sys_realloc(void *, unsigned long, unsigned long, unsigned long);
void sys_free(void *, unsigned long, unsigned long);
int sys_futex_wait(unsigned *, unsigned, const void *, unsigned);
int sys_futex_wake(unsigned *, int);
unsigned sys_spawn2(void (*)(unsigned long), unsigned long, unsigned char, unsigned long, long);
int sys_join(unsigned);
void sys_yield(void);
unsigned long sys_available_parallelism(void);
int sys_clock_gettime(int, void *);
int sys_nanosleep(const void *);
long sys_read_entropy(void *, unsigned long, unsigned);
int sys_get_errno(void);
int sys_getpid(void);
_Noreturn void sys_exit(int);
_Noreturn void sys_abort(void);
#pragma GCC visibility pop

#pragma GCC visibility push(hidden)
long __hermit_fcntl(int, int, long);
long __hermit_fstat(int, void *);
long __hermit_stat(const char *, void *);
long __hermit_lstat(const char *, void *);
long __hermit_fstatat(int, const char *, void *, int);
long __hermit_access(const char *, int);
long __hermit_truncate(const char *, long);
long __hermit_utimensat(int, const char *, const void *, int);
long __hermit_getcwd(char *, unsigned long);
long __hermit_mmap(long, unsigned long, int, int, int);
long __hermit_futex(void *, int, unsigned, const void *);
long __hermit_affinity(unsigned long, unsigned char *);
long __hermit_clock_gettime(int, void *);
long __hermit_clock_nanosleep(int, int, const void *);
long __hermit_sigprocmask(unsigned long *);
long __hermit_getrandom(void *, unsigned long);
#pragma GCC visibility pop

#endif
