package guest

import (
	"bufio"
	"context"
	"net"
	"time"

	"sluice/internal/model"
)

// socket is a Transport to an agent that listens on a Unix socket, without libvirt in between: it uses a connection per command, so no
// synchronization is needed.
type socket string

func (s socket) Agent(ctx context.Context, _ model.VMID, cmd []byte) ([]byte, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", string(s))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if _, err := c.Write(append(cmd, '\n')); err != nil {
		return nil, err
	}
	return bufio.NewReader(c).ReadBytes('\n')
}
