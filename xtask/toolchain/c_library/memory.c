/* The heap of C: blocks of the kernel's heap, with their size and their alignment in front. */

#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "hermit.h"

/* Alignment of every block, as of `max_align_t`. */
#define ALIGNMENT 16UL

/* In front of each block. */
struct header {
	/* Bytes of the whole block of the kernel's heap. */
	size_t size;
	/* Its alignment, and the distance from its start to the bytes of the program. */
	size_t offset;
};

_Static_assert(sizeof(struct header) == ALIGNMENT, "blocks would not be aligned");

static struct header *header_of(void *block)
{
	return (struct header *)block - 1;
}

static void *start_of(void *block)
{
	return (char *)block - header_of(block)->offset;
}

static void *with_header(char *start, size_t size, size_t offset)
{
	if (!start) {
		errno = ENOMEM;
		return 0;
	}
	void *block = start + offset;
	*header_of(block) = (struct header){ size, offset };
	return block;
}

/* The size of a block for that many bytes of the program; 0 if there is none. */
static size_t whole(size_t size, size_t offset)
{
	if (size > PTRDIFF_MAX - offset) {
		errno = ENOMEM;
		return 0;
	}
	return size + offset;
}

void *malloc(size_t size)
{
	size_t bytes = whole(size, ALIGNMENT);
	return bytes ? with_header(sys_malloc(bytes, ALIGNMENT), bytes, ALIGNMENT) : 0;
}

void *calloc(size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;
	bytes = whole(bytes, ALIGNMENT);
	return bytes ? with_header(sys_alloc_zeroed(bytes, ALIGNMENT), bytes, ALIGNMENT) : 0;
}

void free(void *block)
{
	if (block) sys_free(start_of(block), header_of(block)->size, header_of(block)->offset);
}

size_t malloc_usable_size(void *block)
{
	return block ? header_of(block)->size - header_of(block)->offset : 0;
}

void *realloc(void *block, size_t size)
{
	if (!block) return malloc(size);
	size_t offset = header_of(block)->offset, bytes = whole(size, offset);
	if (!bytes) return 0;
	void *start = sys_realloc(start_of(block), header_of(block)->size, offset, bytes);
	return with_header(start, bytes, offset);
}

/* The offset is the alignment: the block begins aligned, and so do the program's bytes. */
void *aligned_alloc(size_t alignment, size_t size)
{
	if (!alignment || (alignment & (alignment - 1))) {
		errno = EINVAL;
		return 0;
	}
	if (alignment < ALIGNMENT) alignment = ALIGNMENT;
	size_t bytes = whole(size, alignment);
	return bytes ? with_header(sys_malloc(bytes, alignment), bytes, alignment) : 0;
}

void *memalign(size_t alignment, size_t size)
{
	return aligned_alloc(alignment, size);
}

/* Names by which musl calls them. */
#define ALIAS(name, target) extern __typeof(target) name __attribute__((__alias__(#target)))
ALIAS(__libc_malloc, malloc);
ALIAS(__libc_malloc_impl, malloc);
ALIAS(__libc_calloc, calloc);
ALIAS(__libc_realloc, realloc);
ALIAS(__libc_free, free);
