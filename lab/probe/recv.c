/* The two sides that wait for packets: recv counts them, echo returns them. */
#include "probe.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAMS 64
#define CONNECTIONS 8

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

/* Returns a datagram, with how many of its stream have come. */
static void echo(int s, char *buf, size_t n, const struct sockaddr_in *from)
{
	static struct {
		uint32_t stream;
		uint64_t count;
	} streams[STREAMS];
	struct packet p;
	if (n < sizeof p)
		return;
	memcpy(&p, buf, sizeof p);
	if (p.magic != MAGIC)
		return;
	if (streams[p.stream % STREAMS].stream != p.stream) {
		streams[p.stream % STREAMS].stream = p.stream;
		streams[p.stream % STREAMS].count = 0;
	}
	p.count = ++streams[p.stream % STREAMS].count;
	memcpy(buf, &p, sizeof p);
	sendto(s, buf, n, 0, (const struct sockaddr *)from, sizeof *from);
}

/* Returns what a connection brings; false at its end. */
static bool echo_stream(int s)
{
	char buf[MAX_PACKET];
	ssize_t n = recv(s, buf, sizeof buf, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	return n > 0 && send(s, buf, (size_t)n, MSG_NOSIGNAL) == n;
}

int run_echo(unsigned port)
{
	int s = udp_socket(port), stop = stop_signals();
	struct pollfd fds[3 + CONNECTIONS] = {{.fd = stop, .events = POLLIN}, {.fd = s, .events = POLLIN}, {.fd = tcp_socket(port), .events = POLLIN}};
	for (int i = 3; i < 3 + CONNECTIONS; i++)
		fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	while (poll(fds, 3 + CONNECTIONS, -1) >= 0 && !fds[0].revents) {
		char buf[MAX_PACKET];
		struct sockaddr_in from;
		socklen_t len = sizeof from;
		ssize_t n;
		while ((n = recvfrom(s, buf, sizeof buf, 0, (struct sockaddr *)&from, &len)) >= 0)
			echo(s, buf, (size_t)n, &from);
		for (int i = 3; i < 3 + CONNECTIONS; i++)
			if (fds[i].fd >= 0 && fds[i].revents && !echo_stream(fds[i].fd)) {
				close(fds[i].fd);
				fds[i].fd = -1;
			}
		if (fds[2].revents) {
			int i = 3, c = accept(fds[2].fd, NULL, NULL), on = 1;
			while (i < 3 + CONNECTIONS && fds[i].fd >= 0)
				i++;
			if (i == 3 + CONNECTIONS) {
				close(c);
				continue;
			}
			setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
			fds[i].fd = c;
		}
	}
	return 0;
}
