package cni

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/channel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/tests/testkit"
)

// The points at which a call can wait for another process, in order. Between two of them the plugin itself takes at most one step,
// which the next call repeats or finds done.
var (
	placesOfADD = []string{"attach", "host-device before", "host-local before", "host-local after", "host-device after", "attach again"}
	placesOfDEL = []string{"host-device before", "host-device after", "detach", "host-local before", "host-local after"}
)

// stopAt makes the next call of the command wait at the place. It returns a function that reports whether the call is there, and one
// that lets it continue.
func (n *node) stopAt(command, place string) (reached func() bool, goOn func()) {
	n.Helper()
	plugin, when, isPlugin := strings.Cut(place, " ")
	if method := channel.Method(plugin); method == channel.MethodAttach || method == channel.MethodDetach {
		s := newStop()
		if when == "again" {
			s.skip = 1
		}
		n.host.set(func(h *fakeHost) { h.block[method] = s })
		return func() bool { return len(s.reached) > 0 }, func() {
			n.host.set(func(h *fakeHost) { delete(h.block, method) })
			close(s.goOn)
		}
	}
	if !isPlugin {
		n.Fatal("no such place:", place)
	}
	dir := n.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
real=%[1]s/%[2]s
if [ "$CNI_COMMAND" != %[3]s ] || [ -e %[4]s/reached ]; then exec $real; fi
if [ %[5]s = after ]; then out=$($real); code=$?; fi
touch %[4]s/reached
while ! [ -e %[4]s/go ]; do sleep 0.01; done
if [ %[5]s = before ]; then $real; code=$?; else echo "$out"; fi
touch %[4]s/done
exit $code
`, os.Getenv(pluginsEnv), plugin, command, dir, when)
	to := filepath.Join(n.bin, plugin)
	os.Remove(to)
	if err := os.WriteFile(to, []byte(script), 0o700); err != nil {
		n.Fatal(err)
	}
	return func() bool { return exists(dir + "/reached") }, func() {
		if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
			n.Fatal(err)
		}
		n.link(filepath.Join(os.Getenv(pluginsEnv), plugin), plugin)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// start starts a call without waiting for it to finish.
func (n *node) start(c call) *exec.Cmd {
	n.Helper()
	cmd := n.command(c)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		n.Fatal(err)
	}
	return cmd
}

func (n *node) await(what string, ok func() bool) {
	n.Helper()
	testkit.Eventually(n.T, time.Minute, what, ok)
}

// After ADD or DEL was killed at any step, with all plugins that it had called, DEL, GC, or an ADD of another container for the same VF
// cleans up.
func TestKilled(t *testing.T) {
	for command, places := range map[string][]string{"ADD": placesOfADD, "DEL": placesOfDEL} {
		for _, place := range places {
			for _, by := range []string{"DEL", "GC", "ADD"} {
				t.Run(strings.ReplaceAll(command+" at "+place+" then "+by, " ", "-"), func(t *testing.T) { killed(newNode(t), command, place, by) })
			}
		}
	}
}

func killed(n *node, command, place, by string) {
	a := n.container("a")
	conf := n.conf(device0 + `"mac":"52:54:00:ab:00:77","check_addresses":true,`)
	if command == "DEL" {
		n.add("a", a, conf)
	}
	reached, goOn := n.stopAt(command, place)
	cmd := n.start(call{command, "a", a, conf, ""})
	n.await(command+" is at "+place, reached)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
	goOn()

	switch by {
	case "DEL":
		n.must(call{"DEL", "a", a, conf, ""})
	case "GC":
		n.must(call{"GC", "", "", conf, ""})
	case "ADD":
		b := n.container("b")
		conf := n.conf(device0)
		_, err := n.do(call{"ADD", "b", b, conf, ""})
		if inside := !exists("/sys/class/net/vf0") && err != nil; inside { // the interface is still in the other container
			if err.Code != 11 {
				n.Errorf("ADD of a VF that a container has: %+v", err)
			}
			n.must(call{"DEL", "a", a, conf, ""})
			n.add("b", b, conf)
		} else if err != nil {
			n.Fatalf("ADD of a VF that a killed call left: %+v", err)
		}
		n.must(call{"DEL", "a", a, conf, ""}) // late, for a VF that another container has by now
		if have := n.host.attached(); len(have) != 1 || have[0] != "b/net1" {
			n.Errorf("attached: %v", have)
		}
		n.in(b, "link show net1")
		n.must(call{"DEL", "b", b, conf, ""})
	}
	n.clean()
	n.must(call{"DEL", "a", a, conf, ""})
	n.clean()
}

// If only the plugin is killed, a called plugin keeps running: DEL waits for it.
func TestDelWaitsForWhatAKilledAddLeft(t *testing.T) {
	for _, place := range []string{"host-device before", "host-local before"} {
		t.Run(strings.ReplaceAll(place, " ", "-"), func(t *testing.T) {
			n := newNode(t)
			a := n.container("a")
			conf := n.conf(device0)
			reached, goOn := n.stopAt("ADD", place)
			cmd := n.command(call{"ADD", "a", a, conf, ""})
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			n.await("ADD is at "+place, reached)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			ended := make(chan struct{})
			del := n.command(call{"DEL", "a", a, conf, ""})
			go func() {
				defer close(ended)
				if out, err := del.Output(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}()
			select {
			case <-ended:
				t.Error("DEL did not wait")
			case <-time.After(200 * time.Millisecond): // a call that waits never ends here
			}
			goOn()
			<-ended
			n.clean()
		})
	}
}

// After a reboot of the guest every interface is back, under a new name and with a new MAC.
func TestAfterReboot(t *testing.T) {
	n := newNode(t)
	a, b := n.container("a"), n.container("b")
	n.add("a", a, n.conf(device0+`"mac":"52:54:00:ab:00:77",`))
	n.in(a, "link set net1 netns "+self)
	kerneltest.IP(t, "link set net1 address "+mac0+" name vf0")
	n.boot = "boot 2"
	n.add("b", b, n.conf(device0))
	n.must(call{"DEL", "a", "", n.conf(device0), ""})
	if have := n.host.attached(); len(have) != 1 || have[0] != "b/net1" {
		t.Error(have)
	}
	n.must(call{"DEL", "b", b, n.conf(device0), ""})
	n.clean()
}
