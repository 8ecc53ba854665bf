/* What `sysconf` asks Linux for. */

#define _GNU_SOURCE
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

/* There are no limits for a process of its own: those of the machine are errors of the calls. */
int getrlimit(int resource, struct rlimit *limit)
{
	(void)resource;
	limit->rlim_cur = limit->rlim_max = RLIM_INFINITY;
	return 0;
}

/* There is no auxiliary vector. */
unsigned long __getauxval(unsigned long item)
{
	(void)item;
	return 0;
}

/* The size of memory is not known to C: 0 pages. */
int __lsysinfo(struct sysinfo *info)
{
	memset(info, 0, sizeof *info);
	return 0;
}
