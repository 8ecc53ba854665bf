/* Ends of the process. The kernel runs what is in .fini_array before the machine stops: functions of `atexit`, and the writing of
 * buffered output. */

#include <stdlib.h>
#include "hermit.h"

/* `_Exit` was called, with this status. */
static volatile int is_immediate, immediate_status;

/* Ends a process in `_Exit` before other functions of .fini_array run: this one is linked behind those of the program, and the kernel
 * runs the last one first, and none of them in the second call. */
__attribute__((__visibility__("hidden"))) void __hermit_end_immediately(void)
{
	if (is_immediate) sys_exit(immediate_status);
}

__attribute__((__used__, __section__(".fini_array")))
static void (*at_exit)(void) = __hermit_end_immediately;

_Noreturn void _Exit(int status)
{
	immediate_status = status;
	is_immediate = 1;
	sys_exit(status);
}

_Noreturn void exit(int status)
{
	sys_exit(status);
}

_Noreturn void abort(void)
{
	sys_abort();
}
