/* Ends of the process. The kernel runs what is in .fini_array before the machine stops: functions of `atexit`, and the writing of
 * buffered output. */

#include <stdlib.h>
#include "hermit.h"

_Noreturn void exit(int status)
{
	sys_exit(status);
}

_Noreturn void abort(void)
{
	sys_abort();
}
