/* The two sides that set the pace: send goes one way, ping wants an answer. */
#include "probe.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MIN_TICK_NS 2000000u /* faster rates send several packets a tick */
#define MAX_BURST_NS 100000000u

struct sender {
	const char *kind;
	struct sockaddr_in to;
	int data, timer;
	double pps;
	unsigned size;
	uint32_t stream;
	uint64_t sent, errors, bytes, skipped;
	uint64_t base_ns, done; /* pace: done packets are out since base_ns */
	/* ping only */
	uint64_t returned, echoed, rtt_sum, rtt_min, rtt_max;
	uint64_t last_mono, last_seq, last_count;
	struct seen seen;
	struct gaps gaps;
};

static void set_rate(struct sender *x, double pps, unsigned size)
{
	struct itimerspec t = {0};
	uint64_t period;
	x->pps = pps;
	x->size = size < sizeof(struct packet) ? sizeof(struct packet) : size > MAX_PACKET ? MAX_PACKET : size;
	x->base_ns = mono_ns();
	x->done = 0;
	if (pps > 0) { /* at 0 the timer is off and the process sleeps for good */
		period = (uint64_t)(1e9 / pps);
		if (period < MIN_TICK_NS)
			period = MIN_TICK_NS;
		t.it_interval.tv_sec = (time_t)(period / 1000000000u);
		t.it_interval.tv_nsec = (long)(period % 1000000000u);
		t.it_value.tv_nsec = 1;
	}
	timerfd_settime(x->timer, 0, &t, NULL);
}

static void send_due(struct sender *x)
{
	char buf[MAX_PACKET] = {0};
	struct packet p = {.magic = MAGIC, .stream = x->stream};
	uint64_t now = mono_ns(), due, burst = (uint64_t)(x->pps * MAX_BURST_NS / 1e9) + 4;
	if (x->pps <= 0)
		return;
	due = (uint64_t)((double)(now - x->base_ns) * x->pps / 1e9) + 1;
	if (due > x->done + burst) { /* after a pause: do not make up for it */
		x->skipped += due - x->done - burst;
		x->done = due - burst;
	}
	for (; x->done < due; x->done++) {
		p.seq = x->sent;
		p.sent_ns = now;
		memcpy(buf, &p, sizeof p);
		if (sendto(x->data, buf, x->size, 0, (struct sockaddr *)&x->to, sizeof x->to) < 0)
			x->errors++;
		x->sent++;
		x->bytes += x->size;
	}
}

static void take_replies(struct sender *x)
{
	char buf[MAX_PACKET];
	struct packet p;
	ssize_t n;
	while ((n = recv(x->data, buf, sizeof buf, 0)) >= 0) {
		uint64_t now = mono_ns(), rtt;
		memcpy(&p, buf, sizeof p);
		if (n < (ssize_t)sizeof p || p.magic != MAGIC || p.stream != x->stream)
			continue;
		x->returned++;
		rtt = now - p.sent_ns;
		x->rtt_sum += rtt;
		if (rtt > x->rtt_max)
			x->rtt_max = rtt;
		if (!x->rtt_min || rtt < x->rtt_min)
			x->rtt_min = rtt;
		if (x->seen.any) {
			unsigned before = x->gaps.count;
			gaps_check(&x->gaps, x->last_mono, now, x->last_seq, p.seq);
			if (x->gaps.count > before && p.seq > x->last_seq && p.count > x->last_count) {
				uint64_t jump = p.seq - x->last_seq, got = p.count - x->last_count;
				x->gaps.list[before].missing_out = jump > got ? jump - got : 0;
				x->gaps.list[before].missing_back = got - 1;
			}
		}
		seen_add(&x->seen, p.seq);
		x->last_mono = now;
		if (p.seq > x->last_seq || !x->last_count) {
			x->last_seq = p.seq;
			x->last_count = p.count;
		}
		if (p.count > x->echoed)
			x->echoed = p.count;
	}
}

static void report(FILE *out, const struct sender *x, bool brief)
{
	fprintf(out,
		"{\"kind\":\"%s\",\"stream\":%" PRIu32 ",\"pps\":%g,\"size\":%u,\"sent\":%" PRIu64
		",\"bytes\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"skipped\":%" PRIu64,
		x->kind, x->stream, x->pps, x->size, x->sent, x->bytes, x->errors, x->skipped);
	if (!strcmp(x->kind, "ping")) {
		uint64_t unique = x->seen.unique;
		fprintf(out,
			",\"echoed\":%" PRIu64 ",\"received\":%" PRIu64 ",\"unique\":%" PRIu64 ",\"lost\":%" PRIu64
			",\"lost_out\":%" PRIu64 ",\"lost_back\":%" PRIu64 ",\"duplicates\":%" PRIu64
			",\"reordered\":%" PRIu64 ",\"rtt_min_ms\":%.3f,\"rtt_avg_ms\":%.3f,\"rtt_max_ms\":%.3f,",
			x->echoed, x->returned, unique, x->sent - unique, x->sent > x->echoed ? x->sent - x->echoed : 0,
			x->echoed > unique ? x->echoed - unique : 0, x->seen.duplicates, x->seen.reordered,
			(double)x->rtt_min / 1e6, x->returned ? (double)x->rtt_sum / 1e6 / (double)x->returned : 0,
			(double)x->rtt_max / 1e6);
		if (brief)
			fprintf(out, "\"longest_gap_ms\":%.3f", (double)x->gaps.longest_ns / 1e6);
		else
			gaps_print(out, &x->gaps, &x->seen);
	}
	fprintf(out, "}\n");
}

/* Commands: rate PPS [SIZE], stats, quit. False to quit. */
static bool command(struct sender *x, int control)
{
	char buf[256], text[1024];
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	ssize_t n;
	while ((n = recvfrom(control, buf, sizeof buf - 1, 0, (struct sockaddr *)&from, &len)) >= 0) {
		double pps;
		unsigned size = x->size;
		FILE *out;
		buf[n] = 0;
		if (sscanf(buf, "rate %lf %u", &pps, &size) >= 1)
			set_rate(x, pps, size);
		out = fmemopen(text, sizeof text, "w");
		if (!out)
			fail("fmemopen");
		report(out, x, true);
		fclose(out);
		sendto(control, text, strnlen(text, sizeof text), 0, (struct sockaddr *)&from, len);
		if (!strcmp(buf, "quit"))
			return false;
	}
	return true;
}

static int deadline(double seconds)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	struct itimerspec t = {.it_value = {.tv_sec = (time_t)seconds, .tv_nsec = 1}};
	if (fd < 0)
		fail("timerfd_create");
	if (seconds > 0)
		timerfd_settime(fd, 0, &t, NULL);
	return fd;
}

static int run(struct sender *x, double pps, unsigned size, struct options o)
{
	int end = deadline(o.seconds), stop = stop_signals();
	int control = o.control ? udp_socket(o.control) : -1;
	struct pollfd fds[5] = {
		{.fd = stop, .events = POLLIN},
		{.fd = end, .events = POLLIN},
		{.events = POLLIN},
		{.fd = control, .events = POLLIN},
		{.events = POLLIN},
	};
	x->data = udp_socket(0);
	x->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (x->timer < 0 || getrandom(&x->stream, sizeof x->stream, GRND_NONBLOCK) != sizeof x->stream)
		fail("set-up");
	x->gaps.limit_ns = o.gap_ms * 1000000u;
	fds[2].fd = x->data;
	fds[4].fd = x->timer;
	set_rate(x, pps, size);
	printf("{\"kind\":\"ready\",\"port\":%u}\n", o.control);
	fflush(stdout);
	while (poll(fds, 5, -1) >= 0 && !fds[0].revents) {
		uint64_t ticks;
		if (fds[1].revents && read(end, &ticks, sizeof ticks) > 0) {
			struct itimerspec grace = {.it_value = {.tv_sec = 1}};
			if (x->pps <= 0 || strcmp(x->kind, "ping") != 0)
				break;
			set_rate(x, 0, x->size); /* one second more for the last answers */
			timerfd_settime(end, 0, &grace, NULL);
		}
		if (fds[2].revents)
			take_replies(x);
		if (fds[3].revents && !command(x, control))
			break;
		if (fds[4].revents && read(x->timer, &ticks, sizeof ticks) > 0)
			send_due(x);
	}
	report(stdout, x, false);
	return 0;
}

int run_send(struct sockaddr_in to, double pps, unsigned size, struct options o)
{
	static struct sender x = {.kind = "send"};
	x.to = to;
	return run(&x, pps, size, o);
}

int run_ping(struct sockaddr_in to, double pps, unsigned size, struct options o)
{
	static struct sender x = {.kind = "ping"};
	x.to = to;
	return run(&x, pps, size, o);
}
