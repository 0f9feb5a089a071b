# SPDX-License-Identifier: Apache-2.0

# make scenarios: each scenario of examples/train against the truth that it injected. SCENARIOS="healthy mixed" picks some.
.PHONY: scenarios
scenarios: all
	$(Q)BUILD=$(abspath $(O)) PYTHON="$(PYTHON)" tests/e2e/scenarios.sh $(SCENARIOS)
