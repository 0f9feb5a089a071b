/* SPDX-License-Identifier: Apache-2.0
 *
 * replay PATH...: gives each file, and each file in each folder, to the fuzz target that it is linked with; then also every
 * prefix of files up to 4 kB. Prints what it is at, so that a crash has a name. Exit 0, or 99 when a file can't be read.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define PREFIXES_UP_TO 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static unsigned files;

static void give(const uint8_t *data, size_t len)
{
	/* memory of just this size, so that a sanitizer sees a read beyond */
	uint8_t *copy = malloc(len ? len : 1);

	if (!copy)
		exit(99);
	for (size_t i = 0; i < len; i++)
		copy[i] = data[i];
	LLVMFuzzerTestOneInput(copy, len);
	free(copy);
}

static void replay_file(const char *path, size_t size)
{
	uint8_t *data = malloc(size ? size : 1);
	FILE *f = fopen(path, "rb");

	if (!data || !f || fread(data, 1, size, f) != size) {
		perror(path);
		exit(99);
	}
	fclose(f);
	printf("%s\n", path);
	fflush(stdout);
	give(data, size);
	for (size_t len = 0; size <= PREFIXES_UP_TO && len < size; len++)
		give(data, len);
	free(data);
	files++;
}

static void replay(const char *path)
{
	struct dirent *entry;
	struct stat st;
	DIR *dir;

	if (stat(path, &st) < 0) {
		perror(path);
		exit(99);
	}
	if (!S_ISDIR(st.st_mode)) {
		replay_file(path, (size_t)st.st_size);
		return;
	}
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		char name[4096];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		replay(name);
	}
	if (dir)
		closedir(dir);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		replay(argv[i]);
	printf("%u files\n", files);
	return files ? 0 : 99;
}
