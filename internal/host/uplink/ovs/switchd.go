package ovs

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/internal/model"
)

const answersWithin = 5 * time.Second // ovs-vswitchd; a round over very many flows takes part of a second

const turnEvery = 2 * time.Millisecond

// switchd is a connection to the control socket of ovs-vswitchd, as ovs-appctl uses it.
type switchd struct {
	conn    net.Conn
	answers *json.Decoder
}

type (
	command []string // the name first
	request struct {
		ID     int      `json:"id"`
		Method string   `json:"method"`
		Params []string `json:"params"`
	}
	answer struct {
		ID     int     `json:"id"`
		Result string  `json:"result"`
		Error  *string `json:"error"`
	}
)

// dialSwitchd connects to the ovs-vswitchd that runs.
func dialSwitchd(ctx context.Context) (*switchd, error) {
	pid, err := os.ReadFile(pidFile())
	if err != nil {
		return nil, fmt.Errorf("ovs-vswitchd does not run: %w", err)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", filepath.Join(runDir(), "ovs-vswitchd."+strings.TrimSpace(string(pid))+".ctl"))
	if err != nil {
		return nil, fmt.Errorf("ovs-vswitchd does not answer: %w", err)
	}
	deadline := time.Now().Add(answersWithin)
	if at, ok := ctx.Deadline(); ok && at.Before(deadline) {
		deadline = at
	}
	return &switchd{conn, json.NewDecoder(conn)}, conn.SetDeadline(deadline)
}

func (s *switchd) close() { _ = s.conn.Close() }

// run runs a command, and returns what it answers.
func (s *switchd) run(c command) (string, error) {
	if err := s.send(c); err != nil {
		return "", err
	}
	return s.receive(c)
}

// send sends commands at once, which ovs-vswitchd then runs in one turn of its main loop.
func (s *switchd) send(commands ...command) error {
	var all []byte
	for i, c := range commands {
		one, err := json.Marshal(request{i, c[0], append([]string{}, c[1:]...)})
		if err != nil {
			return err
		}
		all = append(all, one...)
	}
	if _, err := s.conn.Write(all); err != nil {
		return fmt.Errorf("ovs-vswitchd: %w", err)
	}
	return nil
}

// receive waits for the answer to the next command that was sent.
func (s *switchd) receive(c command) (string, error) {
	var a answer
	switch err := s.answers.Decode(&a); {
	case err != nil:
		return "", fmt.Errorf("ovs-vswitchd, %s: %w", c[0], err)
	case a.Error != nil:
		return "", fmt.Errorf("ovs-vswitchd, %s: %s", c[0], strings.TrimSpace(*a.Error))
	}
	return a.Result, nil
}

// appctl runs a command of ovs-vswitchd on a connection of its own.
func appctl(ctx context.Context, c ...string) (string, error) {
	s, err := dialSwitchd(ctx)
	if err != nil {
		return "", err
	}
	defer s.close()
	return s.run(c)
}

// goesByFlows waits until no frame goes by what the tables of a bridge, in which an interface is a port, were when it is called.
//
// Open vSwitch keeps the results of its tables in the datapath, and looks at them again in rounds: when a table has changed, else half a
// second after the last round. "revalidator/wait" ends with a round, which may have begun before; the next one ends with a round that began
// after that. So that neither waits half a second, an entry for the guest's MAC is added before the first and taken away before the second;
// OVN's flows do not look there.
func goesByFlows(ctx context.Context, bridge, port string, mac model.MAC) error {
	if err := turn(ctx); err != nil { // the tables count after one
		return err
	}
	away := command{"fdb/del", bridge, "0", mac.String()}
	if err := round(ctx, command{"fdb/add", bridge, port, "0", mac.String()}); err != nil {
		_, _ = appctl(context.WithoutCancel(ctx), away...) // it may be there nevertheless; the next move would take it away too
		return err
	}
	return round(ctx, away)
}

// turn makes the main loop of ovs-vswitchd go round, as it does for each new connection.
func turn(ctx context.Context) error {
	_, err := appctl(ctx, "version")
	return err
}

// round changes something and waits for a round. The main loop takes up the change, and tells of the round's end, in its next turns, which
// it may sleep before.
func round(ctx context.Context, change command) error {
	s, err := dialSwitchd(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.send(change, command{"revalidator/wait"}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, _ = s.receive(change) // if it fails, the round comes later
		_, err := s.receive(command{"revalidator/wait"})
		ended <- err
	}()
	poll := time.NewTicker(turnEvery)
	defer poll.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-poll.C:
			if err := turn(ctx); err != nil {
				return err
			}
		}
	}
}
