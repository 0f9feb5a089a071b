/* SPDX-License-Identifier: Apache-2.0
 *
 * Which addresses are device memory and which are pinned. "Device" memory is ordinary memory of the process: kernels'
 * host code reads and writes it.
 */
#include "examples/simgpu/core.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct sg_lock memory_lock;
static struct sg_range *ranges;		/* by address, disjoint */
static size_t nranges, cap_ranges;
static size_t used[SG_MAX_DEVICES];

/* First range that ends beyond the address. */
static size_t find_index(uintptr_t address)
{
	size_t low = 0, high = nranges;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (ranges[mid].start + ranges[mid].bytes <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int insert(const struct sg_range *range)
{
	size_t at = find_index(range->start);

	if (at < nranges && ranges[at].start < range->start + range->bytes)
		return cudaErrorHostMemoryAlreadyRegistered;
	if (nranges == cap_ranges) {
		size_t cap = cap_ranges ? cap_ranges * 2 : 256;
		struct sg_range *more = realloc(ranges, cap * sizeof(*more));

		if (!more)
			return cudaErrorMemoryAllocation;
		ranges = more;
		cap_ranges = cap;
	}
	memmove(&ranges[at + 1], &ranges[at], (nranges - at) * sizeof(*ranges));
	ranges[at] = *range;
	nranges++;
	return 0;
}

/* By system call: an mmap of the driver goes to its device file, not through what a preload would call a file map. */
static void *map(size_t bytes)
{
	long ptr = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);

	return ptr == -1 ? NULL : (void *)ptr;
}

void *sg_memory_new(size_t bytes, uint8_t memory, int device)
{
	struct sg_range range = { .bytes = bytes, .memory = memory, .owned = true, .device = device };
	void *ptr;
	int rc;

	if (bytes > SIZE_MAX / 2)
		return NULL;
	/* an allocator's granularity: neighbours must not share a page that one of them unmaps */
	range.mapped = (bytes + 4095) & ~(size_t)4095;
	ptr = map(range.mapped);
	if (!ptr)
		return NULL;
	range.start = (uintptr_t)ptr;
	sg_lock(&memory_lock);
	rc = insert(&range);
	if (!rc && memory == SG_DEVICE)
		used[device] += bytes;
	sg_unlock(&memory_lock);
	if (!rc)
		return ptr;
	syscall(SYS_munmap, ptr, range.mapped);
	return NULL;
}

int sg_memory_register(void *ptr, size_t bytes)
{
	struct sg_range range = {
		.start = (uintptr_t)ptr, .bytes = bytes, .memory = SG_PINNED, .device = sg_current_device()
	};
	int rc;

	sg_lock(&memory_lock);
	rc = insert(&range);
	sg_unlock(&memory_lock);
	return rc;
}

int sg_memory_delete(void *ptr, uint8_t memory, bool owned)
{
	struct sg_range range;
	size_t at;

	sg_lock(&memory_lock);
	at = find_index((uintptr_t)ptr);
	if (at == nranges || ranges[at].start != (uintptr_t)ptr || ranges[at].memory != memory ||
	    ranges[at].owned != owned) {
		sg_unlock(&memory_lock);
		return cudaErrorInvalidValue;
	}
	range = ranges[at];
	if (memory == SG_DEVICE)
		used[range.device] -= range.bytes;
	memmove(&ranges[at], &ranges[at + 1], (nranges - at - 1) * sizeof(*ranges));
	nranges--;
	sg_unlock(&memory_lock);
	if (owned)
		syscall(SYS_munmap, ptr, range.mapped);
	return 0;
}

bool sg_memory_find(const void *ptr, struct sg_range *out)
{
	bool found;
	size_t at;

	sg_lock(&memory_lock);
	at = find_index((uintptr_t)ptr);
	found = at < nranges && ranges[at].start <= (uintptr_t)ptr;
	if (found)
		*out = ranges[at];
	sg_unlock(&memory_lock);
	return found;
}

size_t sg_memory_used(int device)
{
	size_t bytes;

	sg_lock(&memory_lock);
	bytes = used[device];
	sg_unlock(&memory_lock);
	return bytes;
}
