package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/config"
	"sluice/internal/edge/client"
	"sluice/internal/model"
)

// dumpAnswers are the daemon's answers in a dump, by path below /v1/.
var dumpAnswers = []string{
	"status", "vms", "vfs", "plan", "bandwidth", "sla", "capacity", "doctor", "fsck", "overrides", "vpf", "snapshot", "memory", "history",
	"events?last=10000",
}

// dumpCommands are the commands whose output is in a dump, by the file's name.
var dumpCommands = []struct{ file, command string }{
	{"uname", "uname -a"},
	{"os-release", "cat /etc/os-release"},
	{"cmdline", "cat /proc/cmdline"},
	{"modules", "lsmod"},
	{"links", "ip -d -s link show"},
	{"fdb", "bridge fdb show"},
	{"vlans", "bridge vlan show"},
	{"qdiscs", "tc -s qdisc show"},
	{"pci", "lspci -nnk"},
	{"libvirt", "virsh -r version"},
	{"unit", "systemctl --no-pager status sluice"},
	{"journal", "journalctl --no-pager -o short-iso-precise -u sluice -n 5000"},
}

// Bounds of one part of a dump.
const (
	dumpTimeout = 15 * time.Second
	dumpMost    = 16 << 20
)

// dump is a dump in the making: files by name in order, and what is missing.
type dump struct {
	names   []string
	files   map[string]string
	missing []string
	domains string // names of the VMs that libvirt knows, a line each; also without a daemon
}

func (d *dump) add(name, text string, err error) {
	if err != nil {
		d.missing = append(d.missing, name+": "+strings.TrimSpace(err.Error()))
	}
	if text != "" {
		d.names = append(d.names, name)
		d.files[name] = text
	}
}

func (a *app) sysdumpCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "sysdump [FILE]", Short: "write everything that a bug report needs to a file",
		Long: `Writes a tar.gz with the daemon's answers (status, VMs, VFs, plan, bandwidth, SLAs, what it
last observed and remembers, the last hour, what happened), the whole configuration, the checklist of
sluice doctor --offline, the daemon's log, and what kernel and NICs say. It changes nothing
and sends nothing. What cannot be had, without a daemon or without root, is named and left
out. Only the user who runs it can read the file.

What looks like a password is always removed. --anonymous also replaces the names of VMs,
of this host and of users, UUIDs, MACs and IP addresses, each by the same word everywhere.
Names of interfaces, bridges and classes stay. Look into the file before you pass it on.`,
		Example: "sudo sluice sysdump\nsudo sluice sysdump --anonymous report.tar.gz",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(c, fmt.Errorf("%s writes one file, but got %d", called(c), len(args)))
			}
			return nil
		},
	}
	anonymous := c.Flags().Bool("anonymous", false, "replace the names of VMs, host and users, UUIDs, MACs and IP addresses")
	path := c.Flags().String("config", DefaultConfig, "sluice.yaml of the daemon, as a `file`")
	c.RunE = func(c *cobra.Command, args []string) error {
		now := time.Now()
		name := "sluice-sysdump-" + now.Format("20060102-150405") + ".tar.gz"
		if len(args) == 1 {
			name = args[0]
		}
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("%w; name another file", err)
		}
		d := a.collect(c.Context(), *path, *anonymous)
		if err = c.Context().Err(); err == nil {
			err = d.write(f, now)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return errors.Join(err, os.Remove(name))
		}
		for _, text := range d.missing {
			fmt.Fprintf(a.std.Out, "missing: %s\n", lines(text, 4))
		}
		fmt.Fprintf(a.std.Out, "%s: %s\n", printable(name), model.Plural(len(d.names), "file"))
		return nil
	}
	return c
}

// collect reads all parts of a dump.
func (a *app) collect(ctx context.Context, path string, anonymous bool) *dump {
	d := &dump{files: map[string]string{}}
	d.add("version.txt", fmt.Sprintf("sluice %s (%s %s/%s)\n", a.deps.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH), nil)
	for _, what := range dumpAnswers {
		data, err := a.client().Raw(ctx, what)
		file, _, _ := strings.Cut(what, "?")
		d.add("daemon/"+file+".json", indented(data), err)
		if errors.Is(err, client.ErrUnreachable) {
			break // it would be so for all
		}
	}
	c, err := config.Load(path, a.deps.Known)
	var settings strings.Builder
	if err == nil {
		config.WriteSettings(&settings, c.Settings())
	}
	d.add("config.yaml", settings.String(), err)
	checks, err := checkHost(ctx, path)
	text := ""
	if err == nil {
		data, _ := json.Marshal(checks) // plain data
		text = indented(data)
	}
	d.add("doctor-offline.json", text, err)
	for _, one := range dumpCommands {
		text, err := outputOf(ctx, one.command)
		d.add("host/"+one.file+".txt", text, err)
	}
	if anonymous {
		var err error
		d.domains, err = outputOf(ctx, "virsh -r list --all --name")
		d.add("names of VMs to replace", "", err)
	}
	d.clean(c, anonymous)
	return d
}

// indented formats JSON for people.
func indented(data []byte) string {
	var b bytes.Buffer
	if len(data) == 0 || json.Indent(&b, data, "", " ") != nil {
		return string(data)
	}
	return b.String() + "\n"
}

// outputOf returns what a command prints, also if it fails.
func outputOf(ctx context.Context, command string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, dumpTimeout)
	defer stop()
	args := strings.Fields(command)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // those above
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if text := strings.TrimSpace(errs.String()); err != nil && text != "" {
		err = fmt.Errorf("%s: %w: %s", command, err, text)
	}
	text := out.Bytes()
	if len(text) > dumpMost { // the end matters most
		text = text[len(text)-dumpMost:]
	}
	return string(text), err
}

// clean removes secrets, and names and addresses if the dump is to be anonymous. c is nil if the configuration cannot be read.
func (d *dump) clean(c *config.Config, anonymous bool) {
	change := withoutSecrets
	if anonymous {
		z := newAnonymizer(d.people(c))
		for _, name := range d.names {
			z.learn(d.files[name])
		}
		change = func(s string) string { return z.text(withoutSecrets(s)) }
	}
	for i := range d.missing {
		d.missing[i] = change(d.missing[i])
	}
	for _, name := range d.names {
		d.files[name] = change(d.files[name])
	}
}

// namedText finds names of VMs and users by what stands before them, in answers of the daemon and in its log: also those of VMs that are
// gone and of requests that are over.
var namedText = map[string]*regexp.Regexp{
	"vm":   regexp.MustCompile(`(?:"(?:domain|vm_name)": |\b(?:vm|domain)=)("(?:[^"\\]|\\.)*"|[^\s",]+)`),
	"user": regexp.MustCompile(`(?:"(?:by|user)": |\b(?:by|user)=)("(?:[^"\\]|\\.)*"|[^\s",]+)`),
}

// people returns the names in a dump that say whose it is, each with its kind.
func (d *dump) people(c *config.Config) map[string]string {
	names := map[string]string{}
	if host, err := os.Hostname(); err == nil && host != "localhost" {
		short, _, _ := strings.Cut(host, ".")
		names[host], names[short] = "host", "host"
	}
	if c != nil {
		for _, group := range []string{c.API.Group, c.API.Operate, c.API.Own, c.API.Claims, c.API.Ports} {
			names[group] = "group"
		}
		for _, host := range strings.FieldsFunc(c.API.Hosts, func(r rune) bool { return r == ',' || r == ' ' }) {
			names[host] = "host"
		}
		if at, err := url.Parse(c.Libvirt.URI); err == nil {
			names[at.Hostname()], names[at.User.Username()] = "host", "user"
		}
		for i := range c.VMs {
			names[c.VMs[i].Match] = "pattern"
		}
		for i := range c.VirtualPFs.Guests {
			names[c.VirtualPFs.Guests[i].Match] = "pattern"
		}
	}
	for kind, expression := range namedText {
		for _, text := range d.files {
			for _, found := range expression.FindAllStringSubmatch(text, -1) {
				name := found[1]
				if quoted, err := strconv.Unquote(name); err == nil {
					name = quoted
				}
				names[name] = kind
			}
		}
	}
	for name := range strings.Lines(d.domains) {
		names[strings.TrimSpace(name)] = "vm"
	}
	delete(names, "*")
	delete(names, "root")
	delete(names, "")
	return names
}

// write writes the dump as tar.gz.
func (d *dump) write(w io.Writer, now time.Time) error {
	if len(d.missing) > 0 {
		d.add("missing.txt", strings.Join(d.missing, "\n")+"\n", nil)
	}
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, name := range d.names {
		text := d.files[name]
		h := &tar.Header{Name: "sluice-sysdump/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: now}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.WriteString(t, text); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}
