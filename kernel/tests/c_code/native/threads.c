/* Threads of C, and functions that threads of Rust call at the same time. */

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 2000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static _Thread_local int calls;
static long total;
static int turn, initialized;
static atomic_int destroyed;

static void initialize(void)
{
	initialized++;
}

static void destroy(void *value)
{
	if (*(int *)value == 17) destroyed++;
	free(value);
}

/* Adds under a lock; returns how often this thread has called it. */
int c_add(long number)
{
	pthread_once(&once, initialize);
	pthread_mutex_lock(&mutex);
	total += number;
	pthread_mutex_unlock(&mutex);
	return ++calls;
}

long c_total(void)
{
	return total;
}

/* Each thread waits for its turn. */
static void *play(void *argument)
{
	int me = (int)(long)argument;
	int *value = malloc(sizeof *value);
	*value = 17;
	pthread_setspecific(key, value);
	errno = me;
	for (int round = 0; round < ROUNDS; round++) {
		pthread_mutex_lock(&mutex);
		while (turn % THREADS != me) pthread_cond_wait(&condition, &mutex);
		turn++;
		pthread_cond_broadcast(&condition);
		pthread_mutex_unlock(&mutex);
	}
	return errno == me ? (void *)(long)(me + 100) : 0;
}

/* A lock that another thread holds, and what trying to lock it returns. */
struct attempt {
	pthread_mutex_t *mutex;
	int depth, result;
};

static int try_in_threads(int depth);

static void *try_to_lock(void *argument)
{
	struct attempt *attempt = argument;
	attempt->result = pthread_mutex_trylock(attempt->mutex);
	if (attempt->result == EBUSY && attempt->depth) attempt->result = try_in_threads(attempt->depth - 1);
	return 0;
}

/* Holds a recursive lock while another thread tries to lock it, which then does the same: each is another owner. */
static int try_in_threads(int depth)
{
	pthread_mutex_t recursive;
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&recursive, &attributes);
	if (pthread_mutex_lock(&recursive) || pthread_mutex_lock(&recursive)) return 0;
	struct attempt attempt = { &recursive, depth, 0 };
	pthread_t thread;
	if (pthread_create(&thread, 0, try_to_lock, &attempt) || pthread_join(thread, 0)) return 0;
	return pthread_mutex_unlock(&recursive) || pthread_mutex_unlock(&recursive) ? 0 : attempt.result;
}

static void *wait_for_signal(void *done)
{
	pthread_mutex_lock(&mutex);
	while (!*(int *)done) pthread_cond_wait(&condition, &mutex);
	pthread_mutex_unlock(&mutex);
	return 0;
}

/* Returns the number of the first check that fails, or 0. */
int c_threads(void)
{
	pthread_t threads[THREADS];
	if (pthread_key_create(&key, destroy) || pthread_getspecific(key)) return 1;
	for (long i = 0; i < THREADS; i++) if (pthread_create(&threads[i], 0, play, (void *)i)) return 2;
	for (long i = 0; i < THREADS; i++) {
		void *result;
		if (pthread_join(threads[i], &result) || result != (void *)(i + 100)) return 3;
	}
	if (turn != THREADS * ROUNDS || destroyed != THREADS) return 4;
	if (pthread_key_delete(key) || pthread_key_create(&key, 0) || pthread_getspecific(key)) return 5;

	if (try_in_threads(THREADS) != EBUSY) return 6;

	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 2000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&mutex);
	int result;
	while (!(result = pthread_cond_timedwait(&condition, &mutex, &until))) {}
	pthread_mutex_unlock(&mutex);
	if (result != ETIMEDOUT) return 8;

	if (pthread_once(&once, initialize) || pthread_once(&once, initialize)) return 12;
	int done = 0;
	pthread_t waiter;
	if (pthread_create(&waiter, 0, wait_for_signal, &done)) return 9;
	pthread_mutex_lock(&mutex);
	done = 1;
	pthread_cond_signal(&condition);
	pthread_mutex_unlock(&mutex);
	return pthread_join(waiter, 0) ? 10 : initialized != 1 ? 11 : 0;
}
