// What compilers call for C++ without exceptions and without the standard library.

extern "C" {
void *malloc(unsigned long);
void free(void *);
[[noreturn]] void abort();

void *__dso_handle = nullptr;

[[noreturn]] void __cxa_pure_virtual()
{
	abort();
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
