#include "probe.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static const char usage[] =
	"usage: labprobe send DST PORT PPS SIZE [options]  one way, at a pace\n"
	"       labprobe ping DST PORT PPS SIZE [options]  round trips to an echo\n"
	"       labprobe recv PORT [options]               count what comes\n"
	"       labprobe echo PORT                         return what comes, by UDP and TCP\n"
	"       labprobe ask tcp|udp DST PORT RPS SIZE     requests to an echo, each listed with its time\n"
	"       labprobe clock [+NS|-NS]                   print, or first move, the clock\n"
	"       labprobe vfcounters RESOURCE0              an igb PF's counters of its VFs\n"
	"       labprobe ctl HOST PORT WORD...             talk to a running probe:\n"
	"           stats | reset (recv) | rate PPS [SIZE] (send, ping) | quit\n"
	"options: --control PORT  where send and ping take commands (recv: its own port)\n"
	"         --seconds N     stop by itself\n"
	"         --gap MS        list silences longer than this (default 100)\n"
	"Reports are JSON on stdout, at the end or on SIGTERM.\n";

/* Commands are datagrams, so ask again when no answer comes. */
int run_ctl(struct sockaddr_in to, char **words, int n)
{
	char text[256] = "", reply[MAX_PACKET];
	int s = udp_socket(0);
	for (int i = 0; i < n; i++) {
		if (i)
			strncat(text, " ", sizeof text - strlen(text) - 1);
		strncat(text, words[i], sizeof text - strlen(text) - 1);
	}
	for (int tries = 0; tries < 10; tries++) {
		struct pollfd fd = {.fd = s, .events = POLLIN};
		ssize_t k;
		sendto(s, text, strlen(text), 0, (struct sockaddr *)&to, sizeof to);
		if (poll(&fd, 1, 500) > 0 && (k = recv(s, reply, sizeof reply, 0)) > 0) {
			fwrite(reply, 1, (size_t)k, stdout);
			return 0;
		}
	}
	fprintf(stderr, "labprobe: no answer\n");
	return 1;
}

static int run_clock(const char *move)
{
	if (move) {
		long long ns = (long long)real_ns() + atoll(move);
		struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
		if (clock_settime(CLOCK_REALTIME, &t) < 0)
			fail("clock_settime");
	}
	printf("{\"real_ns\":%llu,\"mono_ns\":%llu}\n", (unsigned long long)real_ns(), (unsigned long long)mono_ns());
	return 0;
}

static struct options options(int argc, char **argv, int from)
{
	struct options o = {.gap_ms = 100};
	for (int i = from; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--control"))
			o.control = (unsigned)atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--seconds"))
			o.seconds = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--gap"))
			o.gap_ms = (uint64_t)atoi(argv[i + 1]);
	}
	return o;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	struct sockaddr_in to;
	if (!strcmp(mode, "clock"))
		return run_clock(argv[2]);
	if (argc >= 3 && !strcmp(mode, "vfcounters"))
		return run_vfcounters(argv[2]);
	if (argc >= 3 && !strcmp(mode, "recv"))
		return run_recv((unsigned)atoi(argv[2]), options(argc, argv, 3));
	if (argc >= 3 && !strcmp(mode, "echo"))
		return run_echo((unsigned)atoi(argv[2]));
	if (argc >= 7 && !strcmp(mode, "ask")) {
		address(&to, argv[3], (unsigned)atoi(argv[4]));
		return run_ask(!strcmp(argv[2], "tcp"), to, atof(argv[5]), (unsigned)atoi(argv[6]));
	}
	if (argc >= 4)
		address(&to, argv[2], (unsigned)atoi(argv[3]));
	if (argc >= 5 && !strcmp(mode, "ctl"))
		return run_ctl(to, argv + 4, argc - 4);
	if (argc >= 6 && !strcmp(mode, "send"))
		return run_send(to, atof(argv[4]), (unsigned)atoi(argv[5]), options(argc, argv, 6));
	if (argc >= 6 && !strcmp(mode, "ping"))
		return run_ping(to, atof(argv[4]), (unsigned)atoi(argv[5]), options(argc, argv, 6));
	fputs(usage, stderr);
	return 2;
}
