/* Counters of an 82576's VFs, read from the PF's registers. */
#include "probe.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#define BAR_SIZE 0x20000
#define VF_BASE(n) (0x10000u + (n) * 0x100u)
#define GOOD_RX_PACKETS 0x10u
#define GOOD_TX_PACKETS 0x14u
#define GOOD_RX_BYTES 0x18u
#define GOOD_TX_BYTES 0x34u
#define VFS 7

int run_vfcounters(const char *path)
{
	int fd = open(path, O_RDWR | O_SYNC | O_CLOEXEC);
	volatile uint8_t *bar;
	if (fd < 0)
		fail(path);
	bar = mmap(NULL, BAR_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	if (bar == MAP_FAILED)
		fail("mmap (the kernel needs iomem=relaxed)");
	for (unsigned n = 0; n < VFS; n++) {
		volatile uint8_t *vf = bar + VF_BASE(n);
		printf("%s{\"rx_packets\":%" PRIu32 ",\"tx_packets\":%" PRIu32 ",\"rx_bytes\":%" PRIu32
		       ",\"tx_bytes\":%" PRIu32 "}",
		       n ? "," : "[", *(volatile uint32_t *)(vf + GOOD_RX_PACKETS),
		       *(volatile uint32_t *)(vf + GOOD_TX_PACKETS), *(volatile uint32_t *)(vf + GOOD_RX_BYTES),
		       *(volatile uint32_t *)(vf + GOOD_TX_BYTES));
	}
	puts("]");
	return 0;
}
