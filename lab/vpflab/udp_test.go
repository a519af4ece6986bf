//go:build lab

package vpflab_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"
)

// udpPayload is the UDP payload of a packet, in bytes; it also fits an overlay's MTU.
const udpPayload = 1400

// udpMain is this test binary as a program that sends, counts or answers UDP, on the host or in a guest:
//
//	send ADDRESS SECONDS PACKETS_PER_SECOND    0: as fast as it goes
//	count ADDRESS                              until nothing has come for two seconds; prints packets and nanoseconds
//	answer ADDRESS                             sends everything back
//	ask ADDRESS SECONDS                        one request after another; prints how many were answered and lost, and the 99th percentile in us
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
	case len(args) == 2 && args[0] == "answer":
		return udpAnswer(args[1])
	case len(args) == 3 && args[0] == "ask":
		seconds, err := strconv.ParseFloat(args[2], 64)
		if err != nil {
			return err
		}
		return udpAsk(args[1], time.Duration(seconds*float64(time.Second)))
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

func udpAnswer(at string) error {
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println("answering")
	buf := make([]byte, 2048)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return err
		}
		_, _ = c.WriteTo(buf[:n], from) // an answer that is not sent is lost, as on the wire
	}
}

// udpAsk sends a request, waits for its answer, and sends the next. A request without an answer for a second is lost.
func udpAsk(to string, span time.Duration) error {
	c, err := net.Dial("udp", to)
	if err != nil {
		return err
	}
	defer c.Close()
	var trips []time.Duration
	lost := 0
	request, answer := make([]byte, 8), make([]byte, 8)
	for begun, n := time.Now(), uint64(0); time.Since(begun) < span; n++ {
		binary.BigEndian.PutUint64(request, n)
		sent := time.Now()
		if _, err := c.Write(request); err != nil {
			return err
		}
		_ = c.SetReadDeadline(sent.Add(time.Second))
		for {
			if _, err := c.Read(answer); err != nil {
				lost++
				break
			}
			if slices.Equal(request, answer) { // otherwise it is late, of a request that counts as lost
				trips = append(trips, time.Since(sent))
				break
			}
		}
	}
	slices.Sort(trips)
	var p99 time.Duration
	if len(trips) > 0 {
		p99 = trips[len(trips)*99/100]
	}
	fmt.Printf("answered %d lost %d p99 %.1f\n", len(trips), lost, float64(p99)/1e3)
	return nil
}
