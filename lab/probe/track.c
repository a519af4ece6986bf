/* What came, and when nothing came. */
#include "probe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SLACK 4096 /* room for what arrives after the first packet but was sent before it */

static bool has(const struct seen *s, uint64_t seq)
{
	if (seq < s->base || seq - s->base >= s->size)
		return false;
	return s->bits[(seq - s->base) / 8] & (1u << ((seq - s->base) % 8));
}

static bool grow(struct seen *s, uint64_t need)
{
	uint64_t size = s->size ? s->size : 65536;
	uint8_t *bits;
	while (size <= need)
		size *= 2;
	if (size > (uint64_t)1 << 30)
		return false;
	bits = realloc(s->bits, size / 8);
	if (!bits)
		return false;
	memset(bits + s->size / 8, 0, (size - s->size) / 8);
	s->bits = bits;
	s->size = size;
	return true;
}

/* Whether the packet is new. */
bool seen_add(struct seen *s, uint64_t seq)
{
	if (!s->any) {
		s->any = true;
		s->base = seq > SLACK ? (seq - SLACK) & ~(uint64_t)7 : 0;
		s->first = s->max = seq;
	}
	if (seq < s->base)
		return false;
	if (seq - s->base >= s->size && !grow(s, seq - s->base))
		return false;
	if (has(s, seq)) {
		s->duplicates++;
		return false;
	}
	s->bits[(seq - s->base) / 8] |= (uint8_t)(1u << ((seq - s->base) % 8));
	s->unique++;
	if (seq < s->max)
		s->reordered++;
	else
		s->max = seq;
	if (seq < s->first)
		s->first = seq;
	return true;
}

/* How many of from..to-1 have not come. */
uint64_t seen_missing(const struct seen *s, uint64_t from, uint64_t to)
{
	uint64_t n = 0;
	for (; from < to; from++)
		n += !has(s, from);
	return n;
}

void seen_reset(struct seen *s)
{
	free(s->bits);
	memset(s, 0, sizeof *s);
}

void gaps_check(struct gaps *g, uint64_t last_mono, uint64_t now, uint64_t last_seq, uint64_t next_seq)
{
	uint64_t silence = now - last_mono, real = real_ns();
	if (silence > g->longest_ns)
		g->longest_ns = silence;
	if (silence <= g->limit_ns && next_seq <= last_seq + 1)
		return;
	if (g->count == MAX_GAPS) {
		g->unlisted++;
		return;
	}
	g->list[g->count++] = (struct gap){
		.start_mono = last_mono,
		.end_mono = now,
		.start_real = real - silence,
		.end_real = real,
		.last_seq = last_seq,
		.next_seq = next_seq,
	};
}

void gaps_print(FILE *out, const struct gaps *g, const struct seen *s)
{
	bool first = true;
	fprintf(out, "\"longest_gap_ms\":%.3f,\"unlisted_gaps\":%" PRIu64 ",\"gaps\":[", (double)g->longest_ns / 1e6,
		g->unlisted);
	for (unsigned i = 0; i < g->count; i++) {
		const struct gap *x = &g->list[i];
		uint64_t missing = seen_missing(s, x->last_seq + 1, x->next_seq);
		uint64_t silence = x->end_mono - x->start_mono;
		if (!missing && silence <= g->limit_ns)
			continue; /* only out of order */
		fprintf(out,
			"%s{\"start_mono_ns\":%" PRIu64 ",\"end_mono_ns\":%" PRIu64 ",\"start_real_ns\":%" PRIu64
			",\"end_real_ns\":%" PRIu64 ",\"ms\":%.3f,\"last_seq\":%" PRIu64 ",\"next_seq\":%" PRIu64
			",\"missing\":%" PRIu64 ",\"missing_out\":%" PRIu64 ",\"missing_back\":%" PRIu64 "}",
			first ? "" : ",", x->start_mono, x->end_mono, x->start_real, x->end_real, (double)silence / 1e6,
			x->last_seq, x->next_seq, missing, x->missing_out, x->missing_back);
		first = false;
	}
	fprintf(out, "]");
}
