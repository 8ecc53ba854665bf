/* What programs use of a C library, with results that do not depend on the system. */

#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int constructed;

__attribute__((constructor)) static void construct(void)
{
	constructed = 42;
}

static void at_exit(void)
{
	/* Without an end of line: buffers are written when the program exits. */
	printf("C: at exit");
}

int c_sum(const int *numbers, size_t count)
{
	int sum = 0;
	for (size_t i = 0; i < count; i++) sum += numbers[i];
	return sum;
}

static int descending(const void *a, const void *b)
{
	return *(const int *)b - *(const int *)a;
}

static void formats(void)
{
	printf("C: %5d|%-5s|%05.1f|%g|%e|%a|%x|%" PRIu64 "|%c|%%\n", -42, "ab", 3.14159, 1e-10, 12345.678, 1.0, 255u, UINT64_MAX, 'z');
	char text[16];
	const char *volatile too_long = "a text which is too long";
	int length = snprintf(text, sizeof text, "%s", too_long);
	printf("C: %d %s\n", length, text);
	int number;
	char word[16];
	double real;
	int count = sscanf("17 word 2.5e3", "%d %15s %lf", &number, word, &real);
	printf("C: %d: %d %s %.1f\n", count, number, word, real);
	printf("C: %.17g %ld %llx\n", strtod("0.1", 0), strtol("-077", 0, 0), strtoull("ffffffffffffffff", 0, 16));
}

static void computations(void)
{
	printf("C: %.9f %.9f %.9f %.6f\n", sin(1.0), pow(2.0, 0.5), log(10.0), tgamma(5.5));
	printf("C: %.12Lf\n", sqrtl(2.0L));
	int numbers[] = { 3, 1, 4, 1, 5, 9, 2, 6 };
	qsort(numbers, 8, sizeof *numbers, descending);
	printf("C:");
	for (int i = 0; i < 8; i++) printf(" %d", numbers[i]);
	printf("\nC:");
	char words[] = "one,two;three";
	for (char *word = strtok(words, ",;"); word; word = strtok(0, ",;")) printf(" %c%s", toupper(word[0]), word + 1);
	printf(" %d\n", strcasecmp("ABC", "abd") < 0);
	time_t time = 951827696;
	struct tm tm;
	gmtime_r(&time, &tm);
	strftime(words, sizeof words, "%F", &tm);
	printf("C: %s %ld\n", words, (long)timegm(&tm));
}

static int memory(void)
{
	unsigned char *block = calloc(1000, 3), *aligned;
	for (int i = 0; i < 3000; i++) if (block[i]) return 0;
	memset(block, 7, 3000);
	block = realloc(block, 300000);
	for (int i = 0; i < 3000; i++) if (block[i] != 7) return 0;
	if ((uintptr_t)block % 16) return 0;
	free(block);
	if (posix_memalign((void **)&aligned, 4096, 100) || (uintptr_t)aligned % 4096) return 0;
	aligned = realloc(aligned, 50000);
	free(aligned);
	free(0);
	errno = 0;
	volatile size_t huge = SIZE_MAX / 2;
	return !malloc(huge) && errno == ENOMEM && !calloc(huge, 3);
}

static int files(const char *folder)
{
	char path[256], line[32];
	snprintf(path, sizeof path, "%s/c_code.txt", folder);
	FILE *file = fopen(path, "w+");
	if (!file) return 0;
	for (int i = 0; i < 1000; i++) fprintf(file, "line %d\n", i);
	fseek(file, 0, SEEK_SET);
	int count = 0;
	while (fgets(line, sizeof line, file)) count++;
	if (count != 1000 || strcmp(line, "line 999\n") || fclose(file)) return 0;
	struct stat stat_buffer;
	if (stat(path, &stat_buffer) || stat_buffer.st_size != 8890 || !S_ISREG(stat_buffer.st_mode)) return 0;
	if (stat_buffer.st_mtim.tv_nsec < 0 || stat_buffer.st_mtim.tv_nsec >= 1000000000) return 0;
	int fd = open(path, O_RDWR);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
	if (fd < 0 || fcntl(fd, F_SETLK, &lock) || ftruncate(fd, 4) || lseek(fd, 0, SEEK_END) != 4) return 0;
	if (pwrite(fd, "LI", 2, 0) != 2 || pread(fd, line, 4, 0) != 4 || memcmp(line, "LIne", 4)) return 0;
	if (close(fd) || fcntl(fd, F_SETLK, &lock) != -1 || errno != EBADF) return 0;
	if (unlink(path) || access(path, F_OK) != -1 || errno != ENOENT) return 0;
	return open(path, O_RDONLY) == -1 && errno == ENOENT && !strcmp(strerror(errno), "No such file or directory");
}

static jmp_buf jump;

static void far(int depth)
{
	if (!depth) longjmp(jump, 5);
	if (depth > 0) far(depth - 1);
}

static int clocks(void)
{
	struct timespec before, after, pause = { 0, 2000000 };
	if (clock_gettime(CLOCK_MONOTONIC, &before) || nanosleep(&pause, 0) || clock_gettime(CLOCK_MONOTONIC, &after)) return 0;
	long elapsed = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
	return elapsed >= 2000000 && time(0) > 1700000000;
}

/* Prints results; returns the number of the first check that fails, or 0. */
int c_checks(const char *folder)
{
	formats();
	computations();
	if (constructed != 42) return 1;
	if (!memory()) return 2;
	if (!files(folder)) return 3;
	int jumped = setjmp(jump);
	if (!jumped) far(10);
	if (jumped != 5) return 4;
	if (!clocks()) return 5;
	const char *greeting = getenv("GREETING");
	printf("C: GREETING is %s\n", greeting ? greeting : "not set");
	setenv("GREETING", "again", 1);
	if (strcmp(getenv("GREETING"), "again")) return 6;
	return atexit(at_exit) ? 7 : 0;
}
