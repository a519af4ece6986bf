//go:build lab

package vpflab_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// udpPayload is the UDP payload of a packet, in bytes; it also fits an overlay's MTU.
const udpPayload = 1400

// udpMain is this test binary as a program that sends or counts UDP, on the host or in a guest:
//
//	send ADDRESS SECONDS PACKETS_PER_SECOND    0: as fast as it goes
//	count ADDRESS                              until nothing has come for two seconds; prints packets and nanoseconds
func udpMain(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "send":
		seconds, err1 := strconv.ParseFloat(args[2], 64)
		rate, err2 := strconv.ParseFloat(args[3], 64)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		return udpSend(args[1], time.Duration(seconds*float64(time.Second)), rate)
	case len(args) == 2 && args[0] == "count":
		return udpCount(args[1])
	}
	return fmt.Errorf("unknown arguments: %q", args)
}

func udpSend(to string, span time.Duration, rate float64) error {
	c, err := net.Dial("udp", to)
	if err != nil {
		return err
	}
	defer c.Close()
	packet := make([]byte, udpPayload)
	begun := time.Now()
	for sent := 0; ; {
		passed := time.Since(begun)
		if passed >= span {
			return nil
		}
		if rate > 0 {
			due := time.Duration(float64(sent) / rate * float64(time.Second))
			if due > passed+time.Millisecond { // a shorter sleep costs more than it waits
				time.Sleep(due - passed)
			}
		}
		if _, err := c.Write(packet); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			time.Sleep(time.Millisecond) // the other side no longer listens, or the queue is full
			continue
		}
		sent++
	}
}

func udpCount(at string) error {
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println("counting")
	buf := make([]byte, 2048)
	var packets int
	var first, last time.Time
	for {
		limit := 2 * time.Second
		if packets == 0 {
			limit = time.Minute
		}
		_ = c.SetReadDeadline(time.Now().Add(limit))
		if _, _, err := c.ReadFrom(buf); err != nil {
			fmt.Println("counted", packets, last.Sub(first).Nanoseconds())
			return nil
		}
		last = time.Now()
		if packets == 0 {
			first = last
		}
		packets++
	}
}
