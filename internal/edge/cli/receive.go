package cli

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"sluice/api/v1"
)

// receivePort is the default port of --receive; sluiced's --peer has the same.
const receivePort = 9179

// Bounds of what is received.
const (
	receiveMost   = 64               // connections at the same time
	receiveIdle   = 30 * time.Second // without data, after which a connection is closed
	receiveBuffer = 1 << 20
)

// receive accepts TCP connections at an address and discards what comes, until ctx ends.
func (a *app) receive(ctx context.Context, address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		var ip netip.Addr
		if ip, err = netip.ParseAddr(address); err != nil {
			return &api.Error{
				Text:   fmt.Sprintf("%q is not an IP address, with or without a port", address),
				Remedy: "write an address of this host, such as 192.0.2.7 or 192.0.2.7:" + strconv.Itoa(receivePort),
			}
		}
		at = netip.AddrPortFrom(ip, receivePort)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
	if err != nil {
		return fmt.Errorf("receive at %s: %w", at, err)
	}
	fmt.Fprintf(a.std.Out, "Discarding what comes to %s; Ctrl-C ends it. On the host to measure: sluice qualify PF --peer %[1]s\n", l.Addr())
	return discard(ctx, l)
}

// discard reads from all connections of a listener until ctx ends, and closes it.
func discard(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { _ = l.Close() })
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	slots := make(chan struct{}, receiveMost)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c, err := l.Accept()
		if err != nil {
			return ended(ctx, err)
		}
		wg.Go(func() {
			defer func() { <-slots }()
			drain(ctx, c)
		})
	}
}

func drain(ctx context.Context, c net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	defer c.Close()
	b := make([]byte, receiveBuffer)
	for c.SetReadDeadline(time.Now().Add(receiveIdle)) == nil {
		if _, err := c.Read(b); err != nil {
			return
		}
	}
}
