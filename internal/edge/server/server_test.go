package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"sluice/api/v1"
	"sluice/internal/edge/client"
	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/server"
	"sluice/internal/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// needRoot fails if a test needs root, unless such tests are to be skipped.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getenv("SLUICE_TEST_NO_ROOT") == "1" {
		t.Skip("SLUICE_TEST_NO_ROOT=1")
	}
	if os.Getuid() != 0 {
		t.Fatal("needs root (SLUICE_TEST_NO_ROOT=1 passes over it)")
	}
}

// socketDir returns a short directory that everybody may enter: the length of a socket's path is limited.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "slw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // other users must reach the socket
		t.Fatal(err)
	}
	return dir
}

// serve runs a server until the test ends and returns it.
func serve(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("server ended with %v", err)
		}
	})
	return s
}

// Clients receive over the socket exactly the reviewed answers in testdata, which have every field. The files are the
// server's own output (TestAnswers), so a few facts are also compared with the View itself.
func TestClientGetsWhatTheViewSays(t *testing.T) {
	needRoot(t)
	v := edgetest.View()
	o := options(edgetest.NewBackend(v))
	o.Socket = filepath.Join(socketDir(t), "s.sock")
	serve(t, o)
	c := client.New(o.Socket)
	ctx := t.Context()
	reviewed(t, "status.json", c.Status)
	vms := reviewed(t, "vms.json", c.VMs)
	vfs := reviewed(t, "vfs.json", c.VFs)
	reviewed(t, "plan.json", c.Plan)
	reviewed(t, "fsck.json", c.Fsck)
	reviewed(t, "doctor.json", c.Doctor)
	reviewed(t, "overrides.json", c.Overrides)
	reviewed(t, "explain-web-10.json", func(ctx context.Context) (api.Explanation, error) { return c.Explain(ctx, "web-10") })

	if len(vms) != len(v.Snapshot.VMs) {
		t.Fatalf("%d VMs, want %d", len(vms), len(v.Snapshot.VMs))
	}
	for i := range v.Snapshot.VMs { // sorted by name in the View
		vm, got := &v.Snapshot.VMs[i], vms[i]
		nic := &vm.NICs[0]
		want := []any{vm.Name, string(vm.ID), vm.CPU, nic.Tap, nic.MAC.String(), nic.Virtio.RxPPS + nic.Virtio.TxPPS + nic.VFPath.RxPPS +
			nic.VFPath.TxPPS}
		if diff := cmp.Diff(want, []any{got.Name, got.ID, got.CPU, got.Tap, got.MAC, got.PPS}, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
			t.Errorf("VM %d:\n%s", i, diff)
		}
	}
	holders := map[string]string{"pf0/0": "web-2", "pf0/1": "db", "pf0/2": "", "pf0/3": "", "pf1/0": "router"}
	for _, vf := range vfs {
		if want, known := holders[vf.Name]; !known || vf.Holder != want {
			t.Errorf("VF %s is held by %q, want %q", vf.Name, vf.Holder, want)
		}
	}
	b, err := c.Bandwidth(ctx)
	if err != nil || len(b.NICs) != len(v.Bandwidth.NICs) || len(b.Links) != len(v.Bandwidth.Links) ||
		b.Links[0].Speed != float64(v.Bandwidth.Links[0].Speed) {
		t.Errorf("bandwidth %+v, %v", b, err)
	}
}

// reviewed compares a client's answer with a file in testdata, and returns it.
func reviewed[T any](t *testing.T, name string, ask func(context.Context) (T, error)) T {
	t.Helper()
	have, err := ask(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() // only read
	var want T
	d := json.NewDecoder(file)
	d.DisallowUnknownFields()
	if err := d.Decode(&want); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("%s:\n%s", name, diff)
	}
	return have
}

func TestRootChangesThings(t *testing.T) {
	needRoot(t)
	b := edgetest.NewBackend(edgetest.View())
	o := options(b)
	o.Socket = filepath.Join(socketDir(t), "s.sock")
	serve(t, o)
	c := client.New(o.Socket)
	for _, one := range []struct {
		verb api.Verb
		vm   string
	}{
		{api.VerbPin, "db"},
		{api.VerbRelease, string(edgetest.ID(7))},
		{api.VerbUnpin, "web-2"},
		{api.VerbDrain, ""},
		{api.VerbUndrain, ""},
		{api.VerbRepair, ""},
		{api.VerbReload, ""},
	} {
		if res, err := c.Do(t.Context(), one.verb, api.Request{VM: one.vm}); err != nil || res.Text == "" {
			t.Errorf("%s: %+v, %v", one.verb, res, err)
		}
	}
	want := []server.Command{
		{Verb: api.VerbPin, VM: edgetest.ID(3), VMName: "db", User: "root"},
		{Verb: api.VerbRelease, VM: edgetest.ID(7), VMName: "web-2", User: "root"},
		{Verb: api.VerbUnpin, VM: edgetest.ID(7), VMName: "web-2", User: "root"},
		{Verb: api.VerbDrain, User: "root"},
		{Verb: api.VerbUndrain, User: "root"},
		{Verb: api.VerbRepair, User: "root"},
		{Verb: api.VerbReload, User: "root"},
	}
	if diff := cmp.Diff(want, b.Got()); diff != "" {
		t.Error(diff)
	}
}

func TestUnpinOfAVMThatIsGone(t *testing.T) {
	needRoot(t)
	v := edgetest.View()
	v.Overrides = append(v.Overrides, model.Override{Kind: model.OverridePin, VMName: "gone"})
	b := edgetest.NewBackend(v)
	o := options(b)
	o.Socket = filepath.Join(socketDir(t), "s.sock")
	serve(t, o)
	c := client.New(o.Socket)
	if _, err := c.Do(t.Context(), api.VerbUnpin, api.Request{VM: "gone"}); err != nil {
		t.Error(err)
	}
	if _, err := c.Do(t.Context(), api.VerbPin, api.Request{VM: "gone"}); err == nil {
		t.Error("a VM that is not here can be pinned")
	}
	if got := b.Got(); len(got) != 1 || got[0].VMName != "gone" || got[0].VM != "" {
		t.Errorf("have %+v", got)
	}
}

func TestRefusalsReachTheClient(t *testing.T) {
	needRoot(t)
	b := edgetest.NewBackend(edgetest.View())
	o := options(b)
	o.Socket = filepath.Join(socketDir(t), "s.sock")
	serve(t, o)
	c := client.New(o.Socket)
	for _, tc := range []struct {
		err  error
		want string
	}{
		{&api.Error{Text: "db has no failover", Remedy: "add teaming"}, "db has no failover; add teaming"},
		{errors.New("broken"), "broken; see the daemon's log: journalctl -u sluice"},
	} {
		b.Fail(tc.err)
		_, err := c.Do(t.Context(), api.VerbPin, api.Request{VM: "db"})
		var r *api.Error
		if !errors.As(err, &r) || r.Error() != tc.want {
			t.Errorf("want %q, have %v", tc.want, err)
		}
	}
}

// as runs a function as another user, with the identity that the kernel sees: the group gid and the supplementary groups.
// The thread with the changed identity ends with its goroutine.
func as(uid, gid int, do func() error, supplementary ...uint32) error {
	ch := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		list := uintptr(unsafe.Pointer(unsafe.SliceData(supplementary)))
		for _, call := range [][4]uintptr{
			{syscall.SYS_SETGROUPS, uintptr(len(supplementary)), list, 0},
			{syscall.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)},
			{syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)},
		} {
			if _, _, e := syscall.RawSyscall(call[0], call[1], call[2], call[3]); e != 0 {
				ch <- e
				return
			}
		}
		ch <- do()
	}()
	return <-ch
}

// requestAs sends one request as another user.
func requestAs(t *testing.T, uid, gid int, socket, method, path, body string, supplementary ...uint32) (status int, err error) {
	t.Helper()
	err = as(uid, gid, func() error {
		status, err = request(socket, method, path, body)
		return err
	}, supplementary...)
	return status, err
}

func request(socket, method, path, body string) (int, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close() // a test's connection
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return 0, err
	}
	req, err := http.NewRequest(method, "http://sluice"+path, strings.NewReader(body)) // bounded by the deadline
	if err != nil {
		return 0, err
	}
	req.Close = true
	if err := req.Write(conn); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

func TestGroupReadsOthersNothing(t *testing.T) {
	needRoot(t)
	const nobody, nogroup, games = 65534, 65534, 60
	b := edgetest.NewBackend(edgetest.View())
	o := options(b)
	o.Socket, o.Group = filepath.Join(socketDir(t), "s.sock"), "games"
	serve(t, o)
	for _, tc := range []struct {
		name          string
		uid, gid      int
		method, path  string
		want          int
		wantNoConnect bool
	}{
		{"member reads", nobody, games, http.MethodGet, "/v1/status", http.StatusOK, false},
		{"member reads metrics", nobody, games, http.MethodGet, "/metrics", http.StatusOK, false},
		{"member pins", nobody, games, http.MethodPost, "/v1/pin", http.StatusForbidden, false},
		{"member drains", nobody, games, http.MethodPost, "/v1/drain", http.StatusForbidden, false},
		{"member reloads", nobody, games, http.MethodPost, "/v1/reload", http.StatusForbidden, false},
		{"member repairs", nobody, games, http.MethodPost, "/v1/fsck/repair", http.StatusForbidden, false},
		{"somebody else reads", nobody, nogroup, http.MethodGet, "/v1/status", 0, true},
		{"root pins", 0, 0, http.MethodPost, "/v1/pin", http.StatusOK, false},
	} {
		status, err := requestAs(t, tc.uid, tc.gid, o.Socket, tc.method, tc.path, `{"vm":"db"}`)
		if tc.wantNoConnect {
			if !errors.Is(err, syscall.EACCES) {
				t.Errorf("%s: want no permission, have %d, %v", tc.name, status, err)
			}
			continue
		}
		if status != tc.want || err != nil {
			t.Errorf("%s: want %d, have %d, %v", tc.name, tc.want, status, err)
		}
	}
	if n := len(b.Got()); n != 1 {
		t.Errorf("%d commands got through, want only root's", n)
	}
}

func TestTCPIsReadOnly(t *testing.T) {
	b := edgetest.NewBackend(edgetest.View())
	o := options(b)
	o.Listen = "127.0.0.1:0"
	base := "http://" + serve(t, o).Addrs()[0].String()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get(base + "/v1/vms") // bounded by the client
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", resp, err)
	}
	_ = resp.Body.Close()
	resp, err = client.Post(base+"/v1/drain", "application/json", nil) // bounded by the client
	if err != nil || resp.StatusCode != http.StatusForbidden {
		t.Fatalf("%v %v", resp, err)
	}
	_ = resp.Body.Close()
	if len(b.Got()) != 0 {
		t.Error("a command got through")
	}
}

func TestBodiesAreBounded(t *testing.T) {
	needRoot(t)
	b := edgetest.NewBackend(edgetest.View())
	o := options(b)
	o.Socket = filepath.Join(socketDir(t), "s.sock")
	serve(t, o)
	for _, tc := range []struct {
		name, path, body string
		want             int
	}{
		{"huge", "/v1/pin", `{"vm":"` + strings.Repeat("x", 8<<10) + `"}`, http.StatusBadRequest},
		{"not JSON", "/v1/pin", `db`, http.StatusBadRequest},
		{"nothing", "/v1/pin", ``, http.StatusBadRequest},
		{"no VM", "/v1/pin", `{}`, http.StatusBadRequest},
		{"another type", "/v1/pin", `{"vm":["db"]}`, http.StatusBadRequest},
		{"unknown field", "/v1/pin", `{"vm":"db","force":true}`, http.StatusBadRequest},
		{"two values", "/v1/pin", `{"vm":"db"}{"vm":"web-2"}`, http.StatusBadRequest},
		{"VM nobody knows", "/v1/pin", `{"vm":"nobody"}`, http.StatusBadRequest},
		{"VM where none is meant", "/v1/drain", `{"vm":"db"}`, http.StatusBadRequest},
		{"nothing where nothing is needed", "/v1/drain", ``, http.StatusOK},
	} {
		status, err := request(o.Socket, http.MethodPost, tc.path, tc.body)
		if status != tc.want || err != nil {
			t.Errorf("%s: want %d, have %d, %v", tc.name, tc.want, status, err)
		}
	}
	if n := len(b.Got()); n != 1 {
		t.Errorf("%d commands got through, want 1", n)
	}
}

func TestSocketOfADeadDaemonIsReplaced(t *testing.T) {
	path := filepath.Join(socketDir(t), "s.sock")
	l, err := net.Listen("unix", path) // does not block
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o := options(edgetest.NewBackend(edgetest.View()))
	o.Socket = path
	serve(t, o)
	if _, err := client.New(path).Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLiveDaemonKeepsItsSocket(t *testing.T) {
	o := options(edgetest.NewBackend(edgetest.View()))
	o.Socket = filepath.Join(socketDir(t), "s.sock")
	serve(t, o)
	for _, name := range []string{"with its lock", "without"} {
		if _, err := server.New(o); err == nil || !strings.Contains(err.Error(), "another daemon") {
			t.Errorf("%s: have %v", name, err)
		}
		// Even a daemon that does not hold the lock keeps a socket that it answers on.
		if err := os.Remove(o.Socket + ".lock"); err != nil && name == "with its lock" {
			t.Fatal(err)
		}
	}
	if _, err := client.New(o.Socket).Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOtherFilesAreNotReplaced(t *testing.T) {
	path := filepath.Join(socketDir(t), "s.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(edgetest.NewBackend(nil))
	o.Socket = path
	if _, err := server.New(o); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Errorf("have %v", err)
	}
	if data, _ := os.ReadFile(path); string(data) != "precious" {
		t.Error("the file is gone")
	}
}

func TestOneOfManyStartersWins(t *testing.T) {
	o := options(edgetest.NewBackend(edgetest.View()))
	o.Socket = filepath.Join(socketDir(t), "s.sock")
	var wg sync.WaitGroup
	won := make(chan *server.Server, 8)
	for range cap(won) {
		wg.Go(func() {
			if s, err := server.New(o); err == nil {
				won <- s
			}
		})
	}
	wg.Wait()
	close(won)
	n := 0
	for s := range won {
		n++
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d daemons hold the socket", n)
	}
}

func TestUnknownGroupLeavesItToRoot(t *testing.T) {
	o := options(edgetest.NewBackend(edgetest.View()))
	o.Socket, o.Group = filepath.Join(socketDir(t), "s.sock"), "no-such-group-here"
	var log strings.Builder
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(o.Socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if !strings.Contains(log.String(), "groupadd") {
		t.Errorf("the log says %q", &log)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
