/* The two sides that wait for packets: recv counts them, echo returns them. */
#include "probe.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define STREAMS 64

struct receiver {
	uint32_t stream;
	bool bound;
	uint64_t received, bytes, foreign;
	uint64_t first_real, last_real, last_mono, last_seq;
	struct seen seen;
	struct gaps gaps;
};

/* A report of many gaps is larger than a datagram: replies are cut to the
 * newest state without them, the exit report on stdout is whole. */
static void report(FILE *out, const struct receiver *r, bool brief)
{
	uint64_t span = r->seen.any ? r->seen.max - r->seen.first + 1 : 0;
	fprintf(out,
		"{\"kind\":\"recv\",\"stream\":%" PRIu32 ",\"received\":%" PRIu64 ",\"unique\":%" PRIu64
		",\"bytes\":%" PRIu64 ",\"first_seq\":%" PRIu64 ",\"max_seq\":%" PRIu64 ",\"lost\":%" PRIu64
		",\"duplicates\":%" PRIu64 ",\"reordered\":%" PRIu64 ",\"foreign\":%" PRIu64
		",\"first_real_ns\":%" PRIu64 ",\"last_real_ns\":%" PRIu64 ",",
		r->stream, r->received, r->seen.unique, r->bytes, r->seen.first, r->seen.max, span - r->seen.unique,
		r->seen.duplicates, r->seen.reordered, r->foreign, r->first_real, r->last_real);
	if (brief)
		fprintf(out, "\"longest_gap_ms\":%.3f}\n", (double)r->gaps.longest_ns / 1e6);
	else {
		gaps_print(out, &r->gaps, &r->seen);
		fprintf(out, "}\n");
	}
}

static void take(struct receiver *r, const struct packet *p, size_t n)
{
	uint64_t now = mono_ns();
	if (!r->bound) {
		r->bound = true;
		r->stream = p->stream;
		r->first_real = real_ns();
	} else if (p->stream != r->stream) {
		r->foreign++;
		return;
	} else
		gaps_check(&r->gaps, r->last_mono, now, r->last_seq, p->seq);
	r->received++;
	r->bytes += n;
	r->last_mono = now;
	if (!r->seen.any || p->seq > r->last_seq)
		r->last_seq = p->seq;
	seen_add(&r->seen, p->seq);
}

static void forget(struct receiver *r)
{
	uint64_t limit = r->gaps.limit_ns;
	seen_reset(&r->seen);
	memset(r, 0, sizeof *r);
	r->gaps.limit_ns = limit;
}

/* Answers a command; false to quit. */
static bool command(int s, struct receiver *r, const char *word, const struct sockaddr_in *from)
{
	char text[1024];
	FILE *out = fmemopen(text, sizeof text, "w");
	if (!out)
		fail("fmemopen");
	if (!strcmp(word, "reset"))
		forget(r);
	report(out, r, true);
	fclose(out);
	sendto(s, text, strnlen(text, sizeof text), 0, (const struct sockaddr *)from, sizeof *from);
	return strcmp(word, "quit") != 0;
}

int run_recv(unsigned port, struct options o)
{
	static struct receiver r;
	int s = udp_socket(port), stop = stop_signals();
	struct pollfd fds[2] = {{.fd = s, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
	bool go = true;
	r.gaps.limit_ns = o.gap_ms * 1000000u;
	printf("{\"kind\":\"ready\",\"port\":%u}\n", port);
	fflush(stdout);
	while (go && poll(fds, 2, -1) >= 0 && !fds[1].revents) {
		char buf[MAX_PACKET + 1];
		struct sockaddr_in from;
		socklen_t len = sizeof from;
		ssize_t n;
		while (go && (n = recvfrom(s, buf, MAX_PACKET, 0, (struct sockaddr *)&from, &len)) >= 0) {
			struct packet p;
			memcpy(&p, buf, sizeof p);
			buf[n] = 0;
			if (n >= (ssize_t)sizeof p && p.magic == MAGIC)
				take(&r, &p, (size_t)n);
			else
				go = command(s, &r, buf, &from);
			r.last_real = real_ns();
		}
	}
	report(stdout, &r, false);
	return 0;
}

int run_echo(unsigned port)
{
	static struct {
		uint32_t stream;
		uint64_t count;
	} streams[STREAMS];
	int s = udp_socket(port), stop = stop_signals();
	struct pollfd fds[2] = {{.fd = s, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
	while (poll(fds, 2, -1) >= 0 && !fds[1].revents) {
		char buf[MAX_PACKET];
		struct sockaddr_in from;
		socklen_t len = sizeof from;
		ssize_t n;
		while ((n = recvfrom(s, buf, sizeof buf, 0, (struct sockaddr *)&from, &len)) >= 0) {
			struct packet p;
			if (n < (ssize_t)sizeof p)
				continue;
			memcpy(&p, buf, sizeof p);
			if (p.magic != MAGIC)
				continue;
			if (streams[p.stream % STREAMS].stream != p.stream) {
				streams[p.stream % STREAMS].stream = p.stream;
				streams[p.stream % STREAMS].count = 0;
			}
			p.count = ++streams[p.stream % STREAMS].count;
			memcpy(buf, &p, sizeof p);
			sendto(s, buf, (size_t)n, 0, (struct sockaddr *)&from, len);
		}
	}
	return 0;
}
