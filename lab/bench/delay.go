package main

import (
	"fmt"
	"os"
	"time"

	"sluice/lab/tuntap"
)

// delay routes the sink's answers back to the bridge on another path, which delays them. The machine may have no netem, and answers are
// small enough for user space.
func (b *bed) delay(rtt time.Duration) error {
	in, err := tuntap.OpenTap(delayDev)
	if err != nil {
		return err
	}
	if err := batch("ip", "link set "+delayDev+" master br0 up"); err != nil {
		return err
	}
	var out *os.File
	lines := []string{"link set delay1 up", "route replace 10.9.0.0/17 dev delay1 src " + sinkAddr}
	for i := range b.n {
		lines = append(lines, fmt.Sprintf("neigh replace %s lladdr %s dev delay1 nud permanent", guestIP(i), guestMAC(i)))
	}
	err = inNS(sinkNS, func() (err error) {
		if out, err = tuntap.OpenTap("delay1"); err != nil {
			return err
		}
		for _, dev := range []string{"all", "eth0", "delay1"} {
			if err := sysctl("net.ipv4.conf."+dev+".rp_filter", "0"); err != nil {
				return err
			}
		}
		return batch("ip", lines...)
	})
	if err != nil {
		return err
	}
	queue := make(chan waiting, 1<<15)
	go take(out, rtt, queue)
	go give(in, queue)
	return nil
}

// waiting is a frame and the time to send it.
type waiting struct {
	due   time.Time
	frame []byte
}

func take(from *os.File, rtt time.Duration, queue chan<- waiting) {
	buf := make([]byte, 2048)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		queue <- waiting{time.Now().Add(rtt), append([]byte(nil), buf[:n]...)}
	}
}

func give(to *os.File, queue <-chan waiting) {
	for w := range queue {
		time.Sleep(time.Until(w.due))
		_, _ = to.Write(w.frame) // a full queue drops the frame, as a wire would
	}
}
