/* Requests at a pace, over TCP or UDP, each of which is listed with its time and how long its answer took. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MAX_REQUESTS 65536u
#define LAST_ANSWERS_S 4 /* how long the end waits for them */

struct asker {
	bool tcp, broken;
	int s;
	unsigned size, held; /* held: bytes of an answer that is not whole yet */
	uint64_t sent, answered;
	char answer[MAX_PACKET];
	struct {
		uint64_t real, mono, took; /* took: 0 while there is no answer */
	} list[MAX_REQUESTS];
};

static int timer(uint64_t first_ns, uint64_t every_ns)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	struct itimerspec t = {
		.it_value = {(time_t)(first_ns / 1000000000u), (long)(first_ns % 1000000000u)},
		.it_interval = {(time_t)(every_ns / 1000000000u), (long)(every_ns % 1000000000u)},
	};
	if (fd < 0 || timerfd_settime(fd, 0, &t, NULL) < 0)
		fail("timerfd");
	return fd;
}

static int dial(bool tcp, struct sockaddr_in to)
{
	int s = socket(AF_INET, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0), on = 1;
	if (s < 0 || connect(s, (struct sockaddr *)&to, sizeof to) < 0)
		fail("connect");
	if (tcp)
		setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	fcntl(s, F_SETFL, O_NONBLOCK);
	return s;
}

/* Requests do not wait for answers, so a late one does not hide how late those after it would have been. */
static void ask(struct asker *x)
{
	char buf[MAX_PACKET] = {0};
	struct packet p = {.magic = MAGIC, .stream = 1, .seq = x->sent};
	ssize_t n;
	if (x->sent == MAX_REQUESTS || x->broken)
		return;
	x->list[x->sent].real = real_ns();
	x->list[x->sent].mono = mono_ns();
	x->sent++;
	memcpy(buf, &p, sizeof p);
	n = send(x->s, buf, x->size, MSG_NOSIGNAL);
	if (x->tcp && n != (ssize_t)x->size) /* part of a request would be the end of all after it */
		x->broken = true;
}

static void answered(struct asker *x)
{
	struct packet p;
	memcpy(&p, x->answer, sizeof p);
	if (p.magic != MAGIC || p.seq >= x->sent || x->list[p.seq].took)
		return;
	x->list[p.seq].took = mono_ns() - x->list[p.seq].mono;
	x->answered++;
}

static void take(struct asker *x)
{
	ssize_t n;
	while ((n = recv(x->s, x->answer + x->held, x->size - x->held, 0)) > 0) {
		x->held += (unsigned)n;
		if (x->held == x->size || !x->tcp) {
			x->held = 0;
			answered(x);
		}
	}
	/* UDP hears of a guest that cannot be reached, too: that is a request lost, not the end. */
	if (x->tcp && (n == 0 || (errno != EAGAIN && errno != EINTR)))
		x->broken = true;
}

static void report(const struct asker *x)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof info;
	if (x->tcp)
		getsockopt(x->s, IPPROTO_TCP, TCP_INFO, &info, &len);
	printf("{\"kind\":\"ask\",\"sent\":%" PRIu64 ",\"unique\":%" PRIu64 ",\"broken\":%s,\"retransmits\":%u,\"requests\":[", x->sent,
	       x->answered, x->broken ? "true" : "false", (unsigned)info.tcpi_total_retrans);
	for (uint64_t i = 0; i < x->sent; i++)
		printf("%s[%" PRIu64 ",%" PRIu64 "]", i ? "," : "", x->list[i].real, x->list[i].took);
	printf("]}\n");
}

int run_ask(bool tcp, struct sockaddr_in to, double rps, unsigned size)
{
	static struct asker x;
	int stop = stop_signals();
	uint64_t ticks, every = (uint64_t)(1e9 / rps);
	struct pollfd fds[4] = {{.events = POLLIN}, {.events = POLLIN}, {.fd = stop, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
	x.tcp = tcp;
	x.size = size < sizeof(struct packet) ? sizeof(struct packet) : size > MAX_PACKET ? MAX_PACKET : size;
	x.s = dial(tcp, to);
	fds[0].fd = x.s;
	fds[1].fd = timer(1, every);
	printf("{\"kind\":\"ready\"}\n");
	fflush(stdout);
	while (!x.broken && poll(fds, 4, -1) >= 0 && !fds[3].revents) {
		if (fds[0].revents)
			take(&x);
		if (fds[1].revents && read(fds[1].fd, &ticks, sizeof ticks) > 0)
			ask(&x);
		if (fds[2].revents) { /* no more requests; wait for the last answers */
			fds[1].fd = fds[2].fd = -1;
			fds[3].fd = timer((uint64_t)LAST_ANSWERS_S * 1000000000u, 0);
		}
		if (fds[3].fd >= 0 && x.answered == x.sent)
			break;
	}
	report(&x);
	return 0;
}
