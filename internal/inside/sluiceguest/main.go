// Package sluiceguest is the part of Sluice inside a guest. It passes requests about virtual VFs from the guest's root user to the
// daemon on the host over a virtio-serial port, and reports the counters of the guest's NICs if the daemon asks for them.
package sluiceguest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"sluice/internal/channel"
	"sluice/internal/inside/vfsysfs"
)

const usage = `sluice-guest gives the containers of this VM the virtual VFs that Sluice on the host holds for it.

usage: sluice-guest [run|status|doctor|vfs|set-macs] [flags]

  run      the service: connects the guest's root (` + channel.Socket + `) with Sluice on the host (the default)
  status   whether the service and the host answer, and who has which virtual VF
  doctor   what is missing in this VM, and the remedy; exit status 1 if anything is missing
  vfs      the PFs and VFs of this VM, as its kernel shows them
  set-macs gives the VFs of igb PFs the MACs that the host lets them send from: run it after
           each write to sriov_numvfs. It waits up to a minute for the host.

Examples:
  sluice-guest doctor
  sluice-guest vfs -o json
  echo 4 > /sys/bus/pci/devices/0000:01:00.0/sriov_numvfs && sluice-guest vfs
  echo 4 > /sys/bus/pci/devices/0000:02:00.0/sriov_numvfs && sluice-guest set-macs    # an igb
  systemctl enable --now sluice-guest                 # or, without systemd:
  start-stop-daemon --start --background --make-pidfile --pidfile /run/sluice-guest.pid --exec /usr/sbin/sluice-guest

Flags:
`

// Exit statuses.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

// program is one invocation.
type program struct {
	out, err     io.Writer
	root         fs.FS // contains dev, proc and sys
	version      string
	port, socket string
	counters     bool
	json         bool
}

// Main runs the program until it is done or ctx ends, and returns its exit status.
func Main(ctx context.Context, args []string, out, errs io.Writer, version string) int {
	p := &program{out: out, err: errs, root: os.DirFS("/"), version: version}
	return p.main(ctx, args)
}

func (p *program) main(ctx context.Context, args []string) int {
	command := "run"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
	}
	var format string
	var showVersion bool
	flags := flag.NewFlagSet("sluice-guest", flag.ContinueOnError)
	flags.SetOutput(p.err)
	flags.Usage = func() {
		fmt.Fprint(p.err, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&p.port, "port", "", "the virtio-serial port; default: the one named "+channel.Port)
	flags.StringVar(&p.socket, "socket", channel.Socket, "where the service listens")
	flags.BoolVar(&p.counters, "counters", true, "send the counters of this VM's NICs when the host asks for them")
	flags.StringVar(&format, "o", "text", "output of status, doctor, vfs and set-macs: text or json")
	flags.BoolVar(&showVersion, "version", false, "print the version")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case showVersion:
		fmt.Fprintln(p.out, "sluice-guest", p.version)
		return exitOK
	case format != "text" && format != "json":
		return p.misused("-o must be text or json")
	case flags.NArg() > 0:
		return p.misused("unexpected argument: " + flags.Arg(0))
	}
	p.json = format == "json"
	do := map[string]func(context.Context) (bool, error){
		"run": p.run, "status": p.status, "doctor": p.doctor, "vfs": p.vfs, "set-macs": p.setMACs,
	}[command]
	if do == nil {
		return p.misused("no such command: " + command)
	}
	good, err := do(ctx)
	if err != nil {
		fmt.Fprintln(p.err, "sluice-guest:", err)
	}
	if err != nil || !good {
		return exitFailed
	}
	return exitOK
}

func (p *program) misused(why string) int {
	fmt.Fprintf(p.err, "sluice-guest: %s\nsee sluice-guest -h\n", why)
	return exitUsage
}

// run is the service.
func (p *program) run(ctx context.Context) (bool, error) {
	log := slog.New(slog.NewTextHandler(p.err, nil))
	l, err := listen(ctx, p.socket)
	if err != nil {
		return false, fmt.Errorf("listen on %s: %w", p.socket, err)
	}
	boot, _ := fs.ReadFile(p.root, "proc/sys/kernel/random/boot_id")
	up := &uplink{
		open: p.open, log: log, again: againIn,
		hello: channel.Hello{Program: p.version, Boot: strings.TrimSpace(string(boot))},
	}
	if p.counters {
		sys, err := fs.Sub(p.root, "sys")
		if err != nil {
			return false, err
		}
		c, err := newCounters(sys)
		if err != nil {
			return false, err
		}
		defer c.Close()
		up.counters = c.read
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { up.run(ctx) })
	err = serveLocal(ctx, l, forwarder{up}, log)
	return err == nil, err
}

// open opens the port, whose path may have changed.
func (p *program) open() (port, error) {
	path := p.port
	if path == "" {
		var err error
		if path, err = findPort(p.root); err != nil {
			return nil, err
		}
	}
	return openPort(path)
}

// status shows what the daemon reports.
func (p *program) status(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerFor)
	defer cancel()
	c, err := channel.Dial(ctx, p.socket)
	if err != nil {
		return false, err
	}
	defer c.Close()
	var s struct {
		Daemon   string         `json:"daemon"`
		Counters int            `json:"counters_seconds"`
		VFs      []channel.Held `json:"vfs"`
	}
	var w channel.Welcome
	if err := c.Call(ctx, channel.MethodHello, channel.Hello{Program: p.version}, &w); err != nil {
		return false, err
	}
	s.Daemon, s.Counters = w.Program, w.Counters
	if s.VFs, err = c.List(ctx); err != nil {
		return false, err
	}
	if p.json {
		return true, p.encode(s)
	}
	fmt.Fprintf(p.out, "connected to Sluice %s on the host\n", s.Daemon)
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PF\tVF\tMAC\tOWNER")
	for _, v := range s.VFs {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", v.VF.PF, v.VF.Index, v.MAC, cmp.Or(v.Owner, "-"))
	}
	return true, t.Flush()
}

func (p *program) doctor(ctx context.Context) (bool, error) {
	all := doctor(ctx, p.root, p.port, p.socket)
	if !p.json {
		return printFindings(p.out, all), nil
	}
	bad := slices.ContainsFunc(all, func(f finding) bool { return !f.OK })
	return !bad, p.encode(all)
}

// shownVF is one line of the output of vfs.
type shownVF struct {
	Address  string `json:"address"`
	PF       string `json:"pf"` // PCI address of the PF
	PFMAC    string `json:"pf_mac"`
	PFNetdev string `json:"pf_netdev"`
	Index    int    `json:"index"`
	Driver   string `json:"driver"`
	Netdev   string `json:"netdev"`
}

func (p *program) vfs(context.Context) (bool, error) {
	sys, err := fs.Sub(p.root, "sys")
	if err != nil {
		return false, err
	}
	pfs, err := vfsysfs.PFs(sys)
	if err != nil {
		return false, err
	}
	all := []shownVF{}
	for _, pf := range pfs {
		for _, v := range pf.VFs {
			all = append(all, shownVF{v.Address, pf.Address, pf.MAC, pf.Netdev, v.Index, v.Driver, v.Netdev})
		}
	}
	if p.json {
		return true, p.encode(all)
	}
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VF\tPF\tPF MAC\tINDEX\tDRIVER\tINTERFACE")
	for _, v := range all {
		fmt.Fprintf(t, "%s\t%s %s\t%s\t%d\t%s\t%s\n", v.Address, v.PF, v.PFNetdev, v.PFMAC, v.Index, cmp.Or(v.Driver, "-"), cmp.Or(v.Netdev, "-"))
	}
	if err := t.Flush(); err != nil {
		return false, err
	}
	for _, pf := range pfs {
		if len(pf.VFs) == 0 {
			fmt.Fprintf(p.out, "%s %s (%s) has none of its %d VFs: echo %[4]d > /sys/bus/pci/devices/%[1]s/sriov_numvfs\n", pf.Address, pf.Netdev,
				pf.MAC, pf.TotalVFs)
		}
	}
	return true, nil
}

func (p *program) encode(v any) error {
	enc := json.NewEncoder(p.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
