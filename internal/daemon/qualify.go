package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"sluice/api/v1"
	"sluice/internal/base/sleep"
	"sluice/internal/config"
	"sluice/internal/edge/client"
	"sluice/internal/host/qualify"
	"sluice/internal/host/qualify/measure"
	"sluice/internal/host/qualify/throughput"
	"sluice/internal/model"
)

// qualifyOptions are the options of --qualify.
type qualifyOptions struct {
	pf      string
	vm      string
	address string // of the VM
	peers   []netip.AddrPort
	save    bool
	restore bool
}

// Waiting times.
const (
	asideWithin    = 90 * time.Second // for the daemon: a move under way may have to end first
	asideEvery     = 300 * time.Millisecond
	countersWithin = 5 * time.Second
)

// Of each round of connections to a peer: how long they speed up, and how long they are measured.
const (
	peerWarm   = time.Second
	peerDuring = 3 * time.Second
)

// peerPort is the port of a peer that is named without one; `sluice qualify --receive` has the same default.
const peerPort = 9179

// parsePeer parses a peer's address, with or without a port.
func parsePeer(s string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(a, peerPort), nil
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Port() == 0 {
		return a, fmt.Errorf("%q is not an IP address with or without a port: write 192.0.2.7, 192.0.2.7:%d or [2001:db8::7]:%d",
			model.Shorten(s), peerPort, peerPort)
	}
	return a, nil
}

// printQualify tests a PF and prints the report. It reports its steps on progress.
func printQualify(ctx context.Context, w, progress io.Writer, o Options, q qualifyOptions) error {
	outliveReaders()
	c, err := load(o.Config)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(c.PFs, func(pf config.PF) bool { return pf.Name == q.pf }) {
		return &api.Error{Text: "PF " + q.pf + " is not in sluice.yaml, so Sluice may use none of its VFs", Remedy: "list it under pfs:"}
	}
	h, err := openHost(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer h.close()
	if err := h.checkWorld(ctx, c); err != nil {
		return err
	}
	socket := c.API.Socket
	if o.Socket != "" {
		socket = o.Socket
	}
	say := func(text string) { _, _ = fmt.Fprintln(progress, text) }
	pf, err := h.look(ctx, q.pf)
	if err != nil {
		return err
	}
	m, err := measure.Run(ctx, measure.Options{
		PF: q.pf, Version: o.Version, Kernel: h.kernel, Domains: h.holders, Journal: h.reserved.path, Uplink: pf.Uplink,
		Free:     func(ctx context.Context) ([]model.VF, error) { return h.free(ctx, q.pf) },
		SetAside: func(ctx context.Context, ids []model.VFID) error { return setAside(ctx, c.StateDir, socket, ids) },
		Space:    measure.NewSpace, Counters: countersWithin,
		Say: say,
	})
	if err != nil {
		return err
	}
	if q.vm != "" && len(m.Left) == 0 {
		if m.Scratch, err = measureScratch(ctx, client.New(socket), h.kernel, q.pf, q.vm, q.address, say); err != nil {
			m.Failed = append(m.Failed, "with "+q.vm+": "+err.Error())
		}
	}
	to := throughput.Options{PF: q.pf, Kernel: h.kernel, Say: say, Warm: peerWarm, During: peerDuring}
	for _, peer := range q.peers {
		m.Peers = append(m.Peers, throughput.To(ctx, &to, peer))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.Took = time.Since(m.At)
	report := qualify.Judge(m)
	if q.save {
		if err := saveReport(c.StateDir, &report); err != nil {
			return err
		}
	}
	return json.NewEncoder(w).Encode(report)
}

// outliveReaders ignores SIGPIPE, so that a run continues when its output is no longer read (`| head`): the signal would end the
// process before it has restored everything.
func outliveReaders() { signal.Ignore(syscall.SIGPIPE) }

// look returns a PF from a fresh Snapshot.
func (h *host) look(ctx context.Context, pf string) (*model.PF, error) {
	h.source.Invalidate()
	snap, err := h.source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	p := snap.FindPF(pf)
	if p == nil {
		return nil, fmt.Errorf("PF %s: %w", pf, model.ErrGone)
	}
	return p, nil
}

// free lists the unused VFs of a PF that are in the pool, from a fresh Snapshot.
func (h *host) free(ctx context.Context, pf string) (out []model.VF, err error) {
	p, err := h.look(ctx, pf)
	if err != nil {
		return nil, err
	}
	for i := range p.VFs {
		if p.VFs[i].Owner == model.OwnerFree {
			out = append(out, p.VFs[i])
		}
	}
	return out, nil
}

// setAside waits until the host's daemon, if there is one, shows the VFs as set aside and moves none of them.
func setAside(ctx context.Context, stateDir, socket string, ids []model.VFID) error {
	if l := (&locks{}); !daemonRuns(stateDir) && !l.enforced() {
		return nil // a daemon that starts now reads the journal first
	}
	ctx, cancel := context.WithTimeout(ctx, asideWithin)
	defer cancel()
	client := client.New(socket)
	for {
		err := asideSeen(ctx, client, ids)
		if err == nil {
			return nil
		}
		if sleep.For(ctx, asideEvery) != nil {
			return fmt.Errorf("nothing was changed: the daemon does not set VFs aside: %w; check that it answers (sluice --socket %s status)",
				err, socket)
		}
	}
}

func asideSeen(ctx context.Context, client *client.Client, ids []model.VFID) error {
	vfs, err := client.VFs(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		i := slices.IndexFunc(vfs, func(v api.VF) bool { return v.PF == id.PF && v.Index == id.Index })
		if i < 0 {
			return fmt.Errorf("it does not show VF %s", id)
		}
		if v := &vfs[i]; v.Holder != "" || v.OwnerWhy != model.SetAside {
			return fmt.Errorf("it shows VF %s as %s %s", id, v.Owner, strings.TrimSpace(v.Holder+" "+v.OwnerWhy))
		}
	}
	// The daemon plans later moves after it has seen the VFs set aside.
	plan, err := client.Plan(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if slices.ContainsFunc(plan.Active, func(m api.MoveReport) bool { return m.VF == id.String() }) {
			return fmt.Errorf("a move with VF %s is under way", id)
		}
	}
	return nil
}

// restoreQualify restores what a killed run has left.
func restoreQualify(ctx context.Context, w io.Writer, o Options) error {
	outliveReaders()
	_, h, err := openQuietly(ctx, o.Config)
	if err != nil {
		return err
	}
	defer h.close()
	j, err := measure.ReadJournal(h.reserved.path)
	if err == nil && j == nil {
		_, err = fmt.Fprintln(w, "Nothing is set aside.")
		return err
	}
	left, err := measure.Restore(ctx, h.kernel, h.holders, h.reserved.path)
	if err == nil && len(left) > 0 {
		err = errors.New(strings.Join(left, "\n"))
	}
	if err == nil {
		_, err = fmt.Fprintln(w, "Everything is as it was.")
	}
	return err
}
