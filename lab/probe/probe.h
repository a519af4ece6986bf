/* labprobe: a small traffic probe for guests and hosts under emulation. */
#ifndef LABPROBE_H
#define LABPROBE_H
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MAGIC 0x5343504cu /* tells a probe's packet from a command */
#define MAX_PACKET 2048
#define MAX_GAPS 4096

/* All machines of the lab are x86-64, so the header travels in host order. */
struct packet {
	uint32_t magic;
	uint32_t stream; /* random, one per sender's life */
	uint64_t seq;
	uint64_t sent_ns; /* sender's monotonic clock: for round trips only */
	uint64_t count;	  /* filled by the echo side: packets it got so far */
};

/* A silence longer than the limit, or a jump in the sequence, or both. */
struct gap {
	uint64_t start_mono, end_mono, start_real, end_real;
	uint64_t last_seq, next_seq;
	uint64_t missing_out; /* ping only: lost on the way out, and back */
	uint64_t missing_back;
};

struct gaps {
	uint64_t limit_ns;
	uint64_t longest_ns;
	uint64_t unlisted;
	unsigned count;
	struct gap list[MAX_GAPS];
};

/* Which sequence numbers came, as a bitmap that grows. */
struct seen {
	uint64_t base, size, unique, duplicates, reordered, max, first;
	uint8_t *bits;
	bool any;
};

struct options {
	unsigned control; /* port of the control socket, 0: none */
	double seconds;	  /* 0: until told to quit */
	uint64_t gap_ms;
};

uint64_t mono_ns(void);
uint64_t real_ns(void);
int udp_socket(unsigned port);
int tcp_socket(unsigned port); /* listens */
void address(struct sockaddr_in *to, const char *host, unsigned port);
/* A descriptor that becomes readable on SIGTERM, SIGINT and SIGHUP. */
int stop_signals(void);
void fail(const char *what);

bool seen_add(struct seen *s, uint64_t seq);
uint64_t seen_missing(const struct seen *s, uint64_t from, uint64_t to);
void seen_reset(struct seen *s);

void gaps_check(struct gaps *g, uint64_t last_mono, uint64_t now, uint64_t last_seq, uint64_t next_seq);
/* Prints the gaps as JSON members. With seen, what came late is not missing. */
void gaps_print(FILE *out, const struct gaps *g, const struct seen *s);

int run_send(struct sockaddr_in to, double pps, unsigned size, struct options o);
int run_ping(struct sockaddr_in to, double pps, unsigned size, struct options o);
int run_recv(unsigned port, struct options o);
int run_echo(unsigned port);
int run_ask(bool tcp, struct sockaddr_in to, double rps, unsigned size);
int run_vfcounters(const char *path);
int run_ctl(struct sockaddr_in to, char **words, int n);
#endif
