/* What musl keeps for each thread, and threads that C creates. */

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include "hermit.h"
#include "pthread_impl.h"

/* hermit_abi::NORMAL_PRIO, and no certain CPU. */
enum { PRIORITY = 2, ANY_CPU = -1 };

#define MIN_STACK (256UL << 10)

static _Thread_local struct pthread own;
static _Thread_local struct pthread *current;
static volatile int last_tid;

static void prepare(struct pthread *thread)
{
	thread->self = thread->next = thread->prev = thread;
	/* Owner of locks: 1 to 0x3fffffff, the bits that musl's locks have for it. */
	thread->tid = (unsigned)a_fetch_add(&last_tid, 1) % 0x3fffffff + 1;
	thread->locale = &libc.global_locale;
	/* The empty list of recursive and other owned mutexes. */
	thread->robust_list.head = &thread->robust_list.head;
}

uintptr_t __hermit_thread(void)
{
	if (!current) {
		/* A thread of std's. */
		prepare(&own);
		own.detach_state = DT_DETACHED;
		current = &own;
	}
	return (uintptr_t)current;
}

/* A thread that C created. Freed by who joins it, or by itself if it is detached. */
struct start {
	struct pthread thread;
	void *(*function)(void *);
	void *argument;
};

static void dummy(void)
{
}
weak_alias(dummy, __hermit_run_key_destructors);

static void run(unsigned long argument)
{
	struct start *start = (struct start *)argument;
	current = &start->thread;
	start->thread.result = start->function(start->argument);
	__hermit_run_key_destructors();
	struct pthread *thread = &start->thread;
	if (a_cas(&thread->detach_state, DT_JOINABLE, DT_EXITING) == DT_DETACHED) {
		free(start);
		return;
	}
	/* Who joins frees it after this store: only the address is used then. */
	a_store(&thread->detach_state, DT_EXITED);
	sys_futex_wake((unsigned *)&thread->detach_state, 1);
}

int pthread_create(pthread_t *restrict id, const pthread_attr_t *restrict attributes,
	void *(*function)(void *), void *restrict argument)
{
	struct start *start = calloc(1, sizeof *start);
	if (!start) return EAGAIN;
	prepare(&start->thread);
	start->thread.detach_state = attributes && attributes->_a_detach ? DT_DETACHED : DT_JOINABLE;
	start->function = function;
	start->argument = argument;
	unsigned long stack = attributes ? attributes->_a_stacksize : 0;
	if (stack < MIN_STACK) stack = attributes ? MIN_STACK : DEFAULT_STACK_MAX;
	/* Before the thread runs, which may end and be freed. */
	*id = &start->thread;
	if (!sys_spawn2(run, (unsigned long)start, PRIORITY, stack, ANY_CPU)) {
		free(start);
		return EAGAIN;
	}
	return 0;
}

int pthread_join(pthread_t thread, void **result)
{
	int state;
	while ((state = thread->detach_state)) {
		if (state == DT_DETACHED) return EINVAL;
		if (thread == __pthread_self()) return EDEADLK;
		sys_futex_wait((unsigned *)&thread->detach_state, state, 0, 0);
	}
	if (result) *result = thread->result;
	free(thread);
	return 0;
}

int pthread_detach(pthread_t thread)
{
	int state = a_cas(&thread->detach_state, DT_JOINABLE, DT_DETACHED);
	if (state == DT_DETACHED) return EINVAL;
	return state == DT_JOINABLE ? 0 : pthread_join(thread, 0);
}
