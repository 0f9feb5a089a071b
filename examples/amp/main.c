// SPDX-License-Identifier: Apache-2.0
//
// amp: trains with a loss scaler of the kind asked for and writes down what its state machine did.

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/amp/amp.h"
#include "examples/train/util.h"

static const char usage[] =
	"usage: amp --form FORM [--steps N] [--overflow PERCENT] [--truth FILE] [options]\n"
	"  FORM: none eager foreach fused two accumulate clip megatron deepspeed apex\n"
	"  --names 1.8|1.12|2.6      kernel names of that PyTorch\n"
	"  --growth-interval N       clean steps before the scale grows; default: what keeps it level at this rate of overflow\n"
	"  --growth F --backoff F --init-scale F --min-scale F --hysteresis N\n"
	"  --step-us N               computing of a step, default 500\n"
	"  --decoys                  loss.item(), metric counters, the script's own skip on a NaN loss, learning rate 0\n"
	"  --ema                     an average of the weights between step() and update()\n"
	"  --read-scale              get_scale() each step\n"
	"  --seed N\n";

enum { OPT_FORM = 256, OPT_STEPS, OPT_OVERFLOW, OPT_TRUTH, OPT_NAMES, OPT_INTERVAL, OPT_GROWTH, OPT_BACKOFF, OPT_INIT, OPT_MIN, OPT_HYSTERESIS,
	OPT_STEP_US, OPT_DECOYS, OPT_EMA, OPT_READ_SCALE, OPT_SEED, OPT_HELP };

static const struct option options[] = {
	{ "form", 1, NULL, OPT_FORM }, { "steps", 1, NULL, OPT_STEPS }, { "overflow", 1, NULL, OPT_OVERFLOW }, { "truth", 1, NULL, OPT_TRUTH },
	{ "names", 1, NULL, OPT_NAMES }, { "growth-interval", 1, NULL, OPT_INTERVAL }, { "growth", 1, NULL, OPT_GROWTH },
	{ "backoff", 1, NULL, OPT_BACKOFF }, { "init-scale", 1, NULL, OPT_INIT }, { "min-scale", 1, NULL, OPT_MIN },
	{ "hysteresis", 1, NULL, OPT_HYSTERESIS }, { "step-us", 1, NULL, OPT_STEP_US }, { "decoys", 0, NULL, OPT_DECOYS },
	{ "ema", 0, NULL, OPT_EMA }, { "read-scale", 0, NULL, OPT_READ_SCALE }, { "seed", 1, NULL, OPT_SEED }, { "help", 0, NULL, OPT_HELP },
	{ 0 },
};

static int choose(const char *word, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(word, words[i]))
			return i;
	fprintf(stderr, "amp: %s is none of those known\n%s", word, usage);
	exit(2);
}

static void parse(struct amp_plan *p, int argc, char **argv)
{
	static const char *const forms[] = {
#define F(name) #name,
		FORMS(F)
#undef F
	};
	static const char *const names[] = { "1.8", "1.12", "2.6" };
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
		switch (c) {
		case OPT_FORM: p->form = (enum form)choose(optarg, forms, FORM_COUNT); break;
		case OPT_STEPS: p->steps = atoi(optarg); break;
		case OPT_OVERFLOW: p->overflow = atof(optarg) / 100; break;
		case OPT_TRUTH: p->truth = optarg; break;
		case OPT_NAMES: p->names = (enum names)choose(optarg, names, NAMES_COUNT); break;
		case OPT_INTERVAL: p->growth_interval = atoi(optarg); break;
		case OPT_GROWTH: p->growth = atof(optarg); break;
		case OPT_BACKOFF: p->backoff = atof(optarg); break;
		case OPT_INIT: p->init_scale = (float)atof(optarg); break;
		case OPT_MIN: p->min_scale = (float)atof(optarg); break;
		case OPT_HYSTERESIS: p->hysteresis = atoi(optarg); break;
		case OPT_STEP_US: p->step_us = atoi(optarg); break;
		case OPT_DECOYS: p->decoys = true; break;
		case OPT_EMA: p->ema = true; break;
		case OPT_READ_SCALE: p->read_scale = true; break;
		case OPT_SEED: p->seed = (unsigned int)strtoul(optarg, NULL, 10); break;
		case OPT_HELP: fputs(usage, stdout); exit(0);
		default: fputs(usage, stderr); exit(2);
		}
	}
	if (optind < argc || p->steps < 1 || p->overflow < 0 || p->overflow > 1 || p->step_us < 1) {
		fputs(usage, stderr);
		exit(2);
	}
	/* as many doublings as halvings */
	if (!p->growth_interval)
		p->growth_interval = p->overflow > 0 ? (int)(1 / p->overflow) : 2000;
	if (p->growth_interval < 1)
		p->growth_interval = 1;
}

int main(int argc, char **argv)
{
	struct amp_plan plan = { .form = FORM_foreach, .names = NAMES_2_6, .steps = 200, .step_us = 500, .growth = 2, .backoff = 0.5,
		.init_scale = 1024, .min_scale = 1, .hysteresis = 1, .seed = 1 };

	parse(&plan, argc, argv);
	return amp_run(&plan);
}
