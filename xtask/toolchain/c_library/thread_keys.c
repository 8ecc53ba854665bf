/* Thread-specific values. A value belongs to a generation of its key: a key that was deleted and created again has none. */

#define _GNU_SOURCE
#include <threads.h>
#include "pthread_impl.h"

struct key {
	/* Odd while the key exists. */
	volatile int generation;
	void (*destructor)(void *);
};

struct value {
	int generation;
	void *value;
};

static struct key keys[PTHREAD_KEYS_MAX];
static _Thread_local struct value values[PTHREAD_KEYS_MAX];

int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	for (unsigned i = 0; i < PTHREAD_KEYS_MAX; i++) {
		int generation = keys[i].generation;
		if (generation & 1 || a_cas(&keys[i].generation, generation, generation + 1) != generation) continue;
		keys[i].destructor = destructor;
		*key = i;
		return 0;
	}
	return EAGAIN;
}

int pthread_key_delete(pthread_key_t key)
{
	if (key >= PTHREAD_KEYS_MAX) return EINVAL;
	int generation = keys[key].generation;
	if (!(generation & 1) || a_cas(&keys[key].generation, generation, generation + 1) != generation) return EINVAL;
	return 0;
}

void *pthread_getspecific(pthread_key_t key)
{
	if (key >= PTHREAD_KEYS_MAX || values[key].generation != keys[key].generation) return 0;
	return values[key].value;
}

int pthread_setspecific(pthread_key_t key, const void *value)
{
	if (key >= PTHREAD_KEYS_MAX || !(keys[key].generation & 1)) return EINVAL;
	values[key] = (struct value){ keys[key].generation, (void *)value };
	return 0;
}

/* Runs at the end of threads that C created. */
void __hermit_run_key_destructors(void)
{
	for (int round = 0, again = 1; again && round < PTHREAD_DESTRUCTOR_ITERATIONS; round++) {
		again = 0;
		for (unsigned i = 0; i < PTHREAD_KEYS_MAX; i++) {
			void *value = pthread_getspecific(i);
			void (*destructor)(void *) = keys[i].destructor;
			if (!value || !destructor) continue;
			values[i].value = 0;
			destructor(value);
			again = 1;
		}
	}
}

int tss_create(tss_t *key, tss_dtor_t destructor)
{
	return pthread_key_create(key, destructor) ? thrd_error : thrd_success;
}

void tss_delete(tss_t key)
{
	pthread_key_delete(key);
}

void *tss_get(tss_t key)
{
	return pthread_getspecific(key);
}

int tss_set(tss_t key, void *value)
{
	return pthread_setspecific(key, value) ? thrd_error : thrd_success;
}
