/* Replaces musl's file of this name: where a thread's `struct pthread` is. */

/* Returns it. It is in thread-local storage of std's, since the thread pointer's target is not of musl's layout. */
__attribute__((__visibility__("hidden"), __const__)) uintptr_t __hermit_thread(void);

static inline uintptr_t __get_tp()
{
	return __hermit_thread();
}

#define MC_PC gregs[REG_RIP]
