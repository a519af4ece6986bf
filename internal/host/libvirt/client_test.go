package libvirt

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/host/libvirt/libvirttest"
	"sluice/internal/model"
)

func TestParseURI(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	for uri, want := range map[string]address{
		"qemu:///system": {[]string{"/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock"}, "qemu:///system"},
		"qemu:///session": {
			[]string{"/run/user/7/libvirt/virtqemud-sock", "/run/user/7/libvirt/libvirt-sock"},
			"qemu:///session",
		},
		"test:///default":                      {[]string{"/run/libvirt/libvirt-sock"}, "test:///default"},
		"qemu+unix:///system":                  {[]string{"/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock"}, "qemu:///system"},
		"qemu+unix:///system?socket=/x/sock":   {[]string{"/x/sock"}, "qemu:///system"},
		"qemu:///system?socket=%2Fx%2Fa%20b":   {[]string{"/x/a b"}, "qemu:///system"},
		"test+unix:///default?socket=/y":       {[]string{"/y"}, "test:///default"},
		"xen:///system":                        {},
		"qemu+ssh://other/system":              {},
		"qemu+tls:///system":                   {},
		"qemu+:///system":                      {},
		"qemu://other/system":                  {},
		"qemu:///embed?root=/x":                {},
		"qemu:///system?mode=legacy":           {},
		"qemu:///system?socket=":               {},
		"qemu:///system?socket=/a&socket=/b":   {},
		"test:///etc/hosts":                    {},
		"system":                               {},
		"qemu:///system\x7f":                   {},
		"qemu+unix:///system?socket=/x&mode=a": {},
	} {
		got, err := parseURI(uri)
		if want.name == "" {
			if !errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), "libvirt.uri") ||
				!strings.Contains(err.Error(), "qemu:///system,") {
				t.Errorf("%q: %+v, %v", uri, got, err)
			}
		} else if err != nil || got.name != want.name || !slices.Equal(got.sockets, want.sockets) {
			t.Errorf("%q: %+v, %v", uri, got, err)
		}
	}
}

// The socket of virtqemud is preferred; if neither exists, the error names libvirtd's.
func TestSocketThatExists(t *testing.T) {
	dir := t.TempDir()
	a := address{sockets: []string{filepath.Join(dir, "virtqemud-sock"), filepath.Join(dir, "libvirt-sock")}}
	if got := a.socket(); got != a.sockets[1] {
		t.Errorf("with neither: %s", got)
	}
	for _, i := range []int{1, 0} {
		l, err := net.Listen("unix", a.sockets[i])
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if got := a.socket(); got != a.sockets[i] {
			t.Errorf("have %s, want %s", got, a.sockets[i])
		}
	}
}

func TestUnreachable(t *testing.T) {
	if err := plain(unreachable(&net.OpError{Op: "dial", Err: fs.ErrPermission})); !errors.Is(err, model.ErrPermanent) ||
		!strings.Contains(err.Error(), authRemedy) {
		t.Errorf("no permission: %v", err)
	}
	if err := plain(unreachable(&net.OpError{Op: "dial", Err: fs.ErrNotExist})); !errors.Is(err, ErrDisconnected) ||
		errors.Is(err, model.ErrPermanent) {
		t.Errorf("no socket: %v", err)
	}
}

func TestHandle(t *testing.T) {
	const vm model.VMID = "01234567-89ab-4def-8123-456789abcdef"
	d, err := handle(vm)
	if err != nil || vmID(d) != vm {
		t.Errorf("have %s, %v", vmID(d), err)
	}
	for _, bad := range []model.VMID{"", "web1", vm[:35], vm + "00", "0123456x-89ab-4def-8123-456789abcdef"} {
		if _, err := handle(bad); !errors.Is(err, model.ErrPermanent) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A call that libvirtd does not know counts as one that its driver does not support.
func TestUnknownCall(t *testing.T) {
	c := &client{conn: &watched{gone: make(chan struct{})}}
	if err := c.explain(lv.ErrUnsupported); !isCode(err, lv.ErrNoSupport) {
		t.Errorf("have %v", err)
	}
}

// A libvirtd that accepts connections but does not answer does not block Open beyond the end of its context.
func TestSilentDaemon(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	start := time.Now()
	if _, err := Open(within(t, 50*time.Millisecond), Options{URI: "qemu:///system?socket=" + socket}); err == nil {
		t.Error("it is open")
	}
	if time.Since(start) > patience {
		t.Error("Open waited")
	}
}

// A libvirtd that closes the connection at any point counts as lost, not as a permanent failure.
func TestDaemonHangsUp(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4))
			_ = conn.Close()
		}
	}()
	c := open(t, "qemu:///system?socket="+socket)
	if _, err := c.Domains(t.Context()); !errors.Is(err, ErrDisconnected) {
		t.Errorf("Domains: %v", err)
	}
}

// Close ends a call that is stuck in libvirt, and is not delayed by it.
func TestCloseEndsStuckCalls(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	v := libvirttest.VM{Name: "v", Ports: 1, Extra: libvirttest.RNG("ua-dev")}
	d.Create(t, v)
	hasState(t, c, v, model.VMPaused)
	s, err := c.session()
	if err != nil {
		t.Fatal(err)
	}
	d.FreezeVM(t, v.Name)
	defer d.ThawVM(t, v.Name)
	got := make(chan error)
	go func() { got <- c.Detach(within(t, patience), id(v), "ua-dev") }()
	libvirttest.Eventually(t, patience, "the call is under way", func() bool { return s.hotplug.calls.busy(id(v)) })
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	meanwhile(t, "the stuck call", func() {
		if err := <-got; err == nil || errors.Is(err, model.ErrPermanent) {
			t.Errorf("Detach: %v", err)
		}
	})
}

// libvirtd logs an error for each connection that is closed without ConnectClose: Conn's connections are closed properly.
func TestCloseLeavesNoErrorsInTheLog(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	if _, err := c.Stats(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	d.Virsh(t, "list") // comes after ours
	if log := d.Run(t, "cat", "/var/log/libvirt/libvirtd.log"); strings.Contains(log, "End of file while reading data") {
		t.Errorf("libvirtd's log:\n%s", log)
	}
}

// Without a socket in the URI the daemon is found at its usual place: in libvirtd's own namespaces, where the test runs itself again.
func TestUsualSocket(t *testing.T) {
	const inside = "SLUICE_TEST_INSIDE"
	if os.Getenv(inside) == "1" {
		for _, uri := range []string{"qemu:///system", "test:///default"} {
			if _, err := open(t, uri).Domains(t.Context()); err != nil {
				t.Errorf("%s: %v", uri, err)
			}
		}
		return
	}
	d := libvirttest.Start(t)
	out := d.Run(t, "env", inside+"=1", os.Args[0], "-test.run", "^TestUsualSocket$", "-test.v")
	if !strings.Contains(out, "connected to libvirt") {
		t.Errorf("it did not connect:\n%s", out)
	}
}
