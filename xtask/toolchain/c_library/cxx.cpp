// What compilers call for C++ without exceptions and without the standard library.

extern "C" {
void *malloc(unsigned long);
void free(void *);
[[noreturn]] void abort();
int sys_futex_wait(unsigned *, unsigned, const void *, unsigned);
int sys_futex_wake(unsigned *, int);

void *__dso_handle = nullptr;

[[noreturn]] void __cxa_pure_virtual()
{
	abort();
}

// Guards of statics in functions (Itanium C++ ABI, 3.3.3). The compiler tests their first byte, which is 1 after initialization.
enum : unsigned { NOT_INITIALIZED = 0, INITIALIZED = 1, INITIALIZING = 0x100 };

// Returns 1 if the caller shall initialize.
int __cxa_guard_acquire(unsigned *guard)
{
	for (;;) {
		unsigned state = NOT_INITIALIZED;
		if (__atomic_compare_exchange_n(guard, &state, INITIALIZING, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) return 1;
		if (state == INITIALIZED) return 0;
		sys_futex_wait(guard, state, nullptr, 0);
	}
}

void __cxa_guard_release(unsigned *guard)
{
	__atomic_store_n(guard, INITIALIZED, __ATOMIC_RELEASE);
	sys_futex_wake(guard, __INT_MAX__);
}
}

void *operator new(unsigned long size)
{
	void *memory = malloc(size);
	if (!memory) abort();
	return memory;
}

void *operator new[](unsigned long size)
{
	return operator new(size);
}

void operator delete(void *memory) noexcept
{
	free(memory);
}

void operator delete[](void *memory) noexcept
{
	free(memory);
}

void operator delete(void *memory, unsigned long) noexcept
{
	free(memory);
}

void operator delete[](void *memory, unsigned long) noexcept
{
	free(memory);
}
