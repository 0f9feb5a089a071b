/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks up what our wrappers stand in front of. RTLD_NEXT here means "after this library", which is what a wrapper wants: this
 * file must therefore be linked into the library that exports the wrappers.
 */
#include "shim/resolve.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

/* The library that this file is linked into, known by the address of one of its functions. */
static bool is_ours(const void *address)
{
	Dl_info it, us;

	return dladdr(address, &it) && dladdr((const void *)resolve_next, &us) && it.dli_fbase == us.dli_fbase;
}

static void *not_ours(void *address)
{
	return address && !is_ours(address) ? address : NULL;
}

void *resolve_next(const char *name)
{
	int saved = errno;
	void *p = dlsym(RTLD_NEXT, name);

	if (!p)
		dlerror();	/* the message is not the host's */
	errno = saved;
	return p;
}

void *resolve_next_version(const char *name, const char *version)
{
	int saved = errno;
	void *p = dlvsym(RTLD_NEXT, name, version);

	if (!p)
		dlerror();
	errno = saved;
	return p ? p : resolve_next(name);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

struct search {
	const char *prefix;
	char *path;
	size_t len;
	unsigned skip;			/* matches to pass over */
};

/* Called with the loader's lock held: copies only. */
static int match(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *s = data;

	(void)size;
	if (!info->dlpi_name || strncmp(base_name(info->dlpi_name), s->prefix, strlen(s->prefix)) != 0)
		return 0;
	if (s->skip) {
		s->skip--;
		return 0;
	}
	if (strlen(info->dlpi_name) >= s->len)
		return 0;
	strcpy(s->path, info->dlpi_name);
	return 1;
}

int resolve_loaded(const char *lib_prefix, char *path, unsigned long len)
{
	struct search s = { .prefix = lib_prefix, .path = path, .len = len };

	return dl_iterate_phdr(match, &s) ? 0 : -ENOENT;
}

/* The symbol in an object that is loaded already; the handle is given back, so nothing stays loaded because of us. */
static void *in_object(const char *path, const char *name)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD | RTLD_LOCAL);
	void *p;

	if (!handle) {
		dlerror();
		return NULL;
	}
	p = not_ours(dlsym(handle, name));
	if (!p)
		dlerror();
	dlclose(handle);
	return p;
}

static void *in_caller(const char *name, const void *caller)
{
	Dl_info info;

	if (!caller || !dladdr(caller, &info) || !info.dli_fname || !*info.dli_fname)
		return NULL;
	return in_object(info.dli_fname, name);
}

/* Several majors may be mapped; all of them are asked, in load order. */
static void *in_loaded(const char *name, const char *lib_prefix)
{
	char path[4096];
	unsigned i;

	for (i = 0; i < 16; i++) {
		struct search s = { .prefix = lib_prefix, .path = path, .len = sizeof(path), .skip = i };
		void *p;

		if (!dl_iterate_phdr(match, &s))
			return NULL;
		p = in_object(path, name);
		if (p)
			return p;
	}
	return NULL;
}

void *resolve_symbol(const char *name, const char *lib_prefix, const void *caller)
{
	int saved = errno;
	void *p = not_ours(resolve_next(name));

	if (!p)
		p = in_caller(name, caller);
	if (!p && lib_prefix)
		p = in_loaded(name, lib_prefix);
	errno = saved;
	return p;
}
