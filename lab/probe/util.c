#include "probe.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t mono_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t real_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

void fail(const char *what)
{
	perror(what);
	exit(1);
}

int udp_socket(unsigned port)
{
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int room = 1 << 20; /* a stalled guest must not lose what had arrived */
	if (s < 0)
		fail("socket");
	setsockopt(s, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
	if (bind(s, (struct sockaddr *)&a, sizeof a) < 0)
		fail("bind");
	return s;
}

int tcp_socket(unsigned port)
{
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	if (s < 0)
		fail("socket");
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(s, (struct sockaddr *)&a, sizeof a) < 0 || listen(s, 8) < 0)
		fail("listen");
	return s;
}

void address(struct sockaddr_in *to, const char *host, unsigned port)
{
	*to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	if (inet_pton(AF_INET, host, &to->sin_addr) != 1) {
		fprintf(stderr, "labprobe: not an IPv4 address: %s\n", host);
		exit(2);
	}
}

int stop_signals(void)
{
	sigset_t set;
	int fd;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (fd < 0)
		fail("signalfd");
	return fd;
}
