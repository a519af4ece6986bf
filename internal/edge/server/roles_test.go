package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/api/v1"
	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/server"
	"sluice/internal/model"
)

func newRequest(path string) *http.Request {
	return httptest.NewRequest(http.MethodGet, path, nil)
}

func newRequestTo(host, path string) *http.Request {
	r := newRequest(path)
	r.Host = host
	return r
}

func post(path, body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
}

func record(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestRoles(t *testing.T) {
	b := edgetest.NewBackend(edgetest.View())
	o := options(b)
	o.Operate, o.Own = "4001, @5001,nobody", " @root2 ,4002"
	o.Incoming = func(context.Context, model.Subject, []model.NIC) ([]model.VFStep, error) { return nil, nil }
	var log strings.Builder
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	h := server.NewHandler(o)
	if !strings.Contains(log.String(), "@root2 is unknown") {
		t.Errorf("the log says %q", log.String())
	}
	nobody, err := user.Lookup("nobody")
	if err != nil || nobody.Uid != "65534" {
		t.Fatalf("%+v, %v", nobody, err)
	}
	for _, c := range []struct {
		name          string
		uid           uint32
		groups        []uint32
		operate, owns bool
	}{
		{"root", 0, nil, true, true},
		{"an owner", 4002, nil, true, true},
		{"an operator", 4001, nil, true, false},
		{"an operator by name", 65534, nil, true, false},
		{"a member of the operators", 4009, []uint32{7, 5001}, true, false},
		{"anybody", 4009, []uint32{7, 4001}, false, false},
	} {
		for path, allowed := range map[string]bool{
			"/v1/drain": c.operate, "/v1/undrain": c.operate, "/v1/fsck/repair": c.operate, "/v1/reload": c.owns,
		} {
			want := http.StatusForbidden
			if allowed {
				want = http.StatusOK
			}
			if w := record(h, server.AsUser(post(path, ""), c.uid, c.groups...)); w.Code != want {
				t.Errorf("%s: POST %s: %d %s, want %d", c.name, path, w.Code, w.Body, want)
			}
		}
		want := http.StatusForbidden
		if c.owns {
			want = http.StatusOK
		}
		if w := record(h, server.AsUser(post("/v1/incoming", `{"uuid":"a","domain":"a","nics":[{"mac":"52:54:00:00:01:01"}]}`), c.uid,
			c.groups...)); w.Code != want {
			t.Errorf("%s: POST /v1/incoming: %d %s, want %d", c.name, w.Code, w.Body, want)
		}
		if c.owns {
			w := record(h, server.AsUser(post("/v1/incoming", `{"uuid":"a","domain":"a","nics":[{"mac":"xx"}]}`), c.uid, c.groups...))
			if w.Code != http.StatusBadRequest {
				t.Errorf("%s: POST /v1/incoming with a bad MAC: %d %s, want 400", c.name, w.Code, w.Body)
			}
		}
		want = http.StatusForbidden
		if c.operate {
			want = http.StatusOK
		}
		for path, body := range map[string]string{"/v1/sla/set": `{"vm":"db","sla":{"guarantee":"2Gbit"}}`, "/v1/sla/clear": `{"vm":"db"}`} {
			if w := record(h, server.AsUser(post(path, body), c.uid, c.groups...)); w.Code != want {
				t.Errorf("%s: POST %s: %d %s, want %d", c.name, path, w.Code, w.Body, want)
			}
		}
		if w := record(h, server.AsUser(newRequest("/v1/vms"), c.uid, c.groups...)); w.Code != http.StatusOK {
			t.Errorf("%s: reading: %d", c.name, w.Code)
		}
	}
	if w := record(h, server.AsUser(post("/v1/reload", ""), 4001)); !strings.Contains(w.Body.String(), "api.own") {
		t.Errorf("the refusal does not say what to do: %s", w.Body)
	}
	r := server.OverTCP(post("/v1/drain", ""))
	r.Host = "localhost"
	if w := record(h, r); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "over TCP") {
		t.Errorf("over TCP: %d %s", w.Code, w.Body)
	}
}

// Roles follow the user and groups of the connection's peer credentials: real users connect over a real socket.
func TestRolesOfRealUsers(t *testing.T) {
	needRoot(t)
	const games = 60 // the group that may use the socket
	var log lockedBuilder
	o := options(edgetest.NewBackend(edgetest.View()))
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	o.Socket, o.Group = filepath.Join(socketDir(t), "s.sock"), "games"
	o.Operate, o.Own = "4001, @5001", "4002, @5002, @0"
	serve(t, o)
	for _, c := range []struct {
		name          string
		uid, gid      int
		supplementary []uint32
		operate, owns bool
	}{
		{"root", 0, 0, nil, true, true},
		{"a user of the socket's group", 4009, games, nil, false, false},
		{"an operator", 4001, games, nil, true, false},
		{"an owner", 4002, games, nil, true, true},
		{"whose primary group operates", 4009, 5001, []uint32{games}, true, false},
		{"whose primary group owns", 4009, 5002, []uint32{games}, true, true},
		{"whose supplementary group operates", 4009, games, []uint32{7, 5001}, true, false},
		{"the last of many supplementary groups", 4009, games, append(slices.Repeat([]uint32{7}, 40), 5002), true, true},
		{"groups with the numbers of users", 4009, 4001, []uint32{games, 4002}, false, false},
		{"users with the numbers of groups", 5001, games, nil, false, false},
		{"root's group", 4009, 0, []uint32{games}, true, true},
	} {
		for path, allowed := range map[string]bool{"/v1/drain": c.operate, "/v1/reload": c.owns} {
			want := http.StatusForbidden
			if allowed {
				want = http.StatusOK
			}
			code, err := requestAs(t, c.uid, c.gid, o.Socket, http.MethodPost, path, "", c.supplementary...)
			if code != want || err != nil {
				t.Errorf("%s: POST %s: %d, %v, want %d", c.name, path, code, err, want)
			}
		}
	}
	if want := fmt.Sprintf("(uid 4002, pid %d)", os.Getpid()); !strings.Contains(log.String(), want) {
		t.Errorf("the log does not say who: %q", want)
	}
}

// lockedBuilder collects the logs of several goroutines.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// However often a user repeats a forbidden request, the log stays short and says how often it was.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(edgetest.NewBackend(edgetest.View()))
		var log strings.Builder
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		h := server.NewHandler(o)
		for range 1000 {
			if w := record(h, server.AsUser(post("/v1/drain", ""), 4001)); w.Code != http.StatusForbidden {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		time.Sleep(time.Minute)
		record(h, server.AsUser(post("/v1/drain", ""), 4002))
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "uid 4001") || !strings.Contains(lines[1], "uid 4002") ||
			!strings.Contains(lines[1], "not_logged=999") {
			t.Errorf("%d lines, the last: %s", len(lines), lines[len(lines)-1])
		}
	})
}

// The backend gets the user, reason and end of an override.
func TestOverridesCarryWhoWhyAndWhen(t *testing.T) {
	b := edgetest.NewBackend(edgetest.View())
	h := server.NewHandler(options(b))
	until := edgetest.Now.Add(time.Hour)
	for _, body := range []string{
		`{"vm":"db","reason":"month end","for_seconds":7200}`,
		`{"vm":"db","until":"` + until.Format(time.RFC3339) + `"}`,
	} {
		if w := record(h, server.AsUser(post("/v1/pin", body), 0)); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	want := []server.Command{
		{Verb: api.VerbPin, VM: edgetest.ID(3), VMName: "db", User: "root", Reason: "month end", For: 2 * time.Hour},
		{Verb: api.VerbPin, VM: edgetest.ID(3), VMName: "db", User: "root", Until: until},
	}
	if d := cmp.Diff(want, b.Got()); d != "" {
		t.Error(d)
	}
	for path, bodies := range map[string][]string{
		"/v1/pin": {
			`{"vm":"db","reason":"` + strings.Repeat("x", 257) + `"}`, `{"vm":"db","reason":"two\nlines"}`, `{"vm":"db","reason":"\u001b[2J"}`,
			`{"vm":"db","for_seconds":-1}`, `{"vm":"db","for_seconds":0.5}`, `{"vm":"db","for_seconds":1e300}`,
			`{"vm":"db","until":"2001-01-01T00:00:00Z"}`, `{"vm":"db","until":"soon"}`,
			`{"vm":"db","for_seconds":60,"until":"2101-01-01T00:00:00Z"}`,
		},
		"/v1/sla/set": {
			`{"vm":"db"}`, `{"vm":"db","sla":{}}`, `{"sla":{"limit":"1Gbit"}}`, `{"vm":"db","sla":{"limit":"1"}}`, `{"vm":"db","sla":{"limit":1}}`,
			`{"vm":"db","sla":{"maximum":"1Gbit"}}`,
			`{"vm":"db","sla":{"guarantee":"2Gbit","limit":"1Gbit"}}`, `{"vm":"db","sla":{"guarantee":"2kpps","limit":"1kpps"}}`,
			`{"vm":"db","sla":{"weight":-1}}`, `{"vm":"db","sla":{"weight":1e9}}`,
			`{"vm":"db","sla":{"class":"\u001b[2J"}}`, `{"vm":"db","nic":"[","sla":{"limit":"1Gbit"}}`, `{"vm":"db","nic":"` +
				strings.Repeat("x", 65) + `","sla":{"limit":"1Gbit"}}`,
		},
		"/v1/sla/clear": {`{"vm":"db","sla":{"limit":"1Gbit"}}`, `{"vm":"db","reason":"x"}`, `{}`},
		"/v1/release":   {`{"vm":"db","nic":"a"}`, `{"vm":"db","sla":{"limit":"1Gbit"}}`},
		"/v1/unpin":     {`{"vm":"db","reason":"x"}`, `{"vm":"db","for_seconds":60}`},
		"/v1/undrain":   {`{"reason":"x"}`},
		"/v1/reload":    {`{"until":"2101-01-01T00:00:00Z"}`},
	} {
		for _, body := range bodies {
			if w := record(h, server.AsUser(post(path, body), 0)); w.Code != http.StatusBadRequest {
				t.Errorf("%s %.60s: %d %s", path, body, w.Code, w.Body)
			}
		}
	}
	if n := len(b.Got()); n != 2 {
		t.Errorf("%d commands got through, want 2", n)
	}
}

// Before the first observation, VMs are unknown.
func TestNoVMIsCalledUnknownBeforeTheFirstLook(t *testing.T) {
	h := server.NewHandler(options(edgetest.NewBackend(nil)))
	w := record(h, server.AsUser(post("/v1/pin", `{"vm":"db"}`), 0))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "no VM") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// last keeps only the command of the last request.
type last struct {
	*edgetest.Backend
	got []server.Command
}

func (l *last) Do(_ context.Context, c server.Command) (api.Result, error) {
	l.got = append(l.got, c)
	return api.Result{}, nil
}

// FuzzCommands checks that the answer to any body is JSON, and that an accepted command names an existing VM and has a
// reason and an end within bounds.
func FuzzCommands(f *testing.F) {
	for _, body := range []string{
		``, `{"vm":"db"}`, `{"vm":"db","reason":"x","for_seconds":60}`, `{"vm":"nobody"}`,
		`{"vm":"db","until":"2100-01-01T00:00:00Z"}`, `[`, `{"vm":"db","nic":"a*","sla":{"guarantee":"2Gbit 5kpps","weight":2,"class":"x"}}`,
	} {
		for verb := range uint8(9) {
			f.Add(verb, body)
		}
	}
	paths := []string{"pin", "release", "unpin", "drain", "undrain", "reload", "fsck/repair", "sla/set", "sla/clear"}
	v := edgetest.View()
	b := &last{Backend: edgetest.NewBackend(v)}
	h := server.NewHandler(options(b))
	f.Fuzz(func(t *testing.T, verb uint8, body string) {
		b.got = nil
		w := record(h, server.AsUser(post("/v1/"+paths[int(verb)%len(paths)], body), 0))
		got := b.got
		if (w.Code == http.StatusOK) != (len(got) == 1) || w.Header().Get("Content-Type") != "application/json" {
			t.Fatalf("%d, %d commands, %s", w.Code, len(got), w.Body)
		}
		for _, c := range got {
			if c.VM != "" && v.Snapshot.FindVM(c.VM) == nil || len(c.Reason) > api.MaxReason || c.For < 0 || c.For != 0 && !c.Until.IsZero() ||
				(c.Verb == api.VerbSetSLA) != (c.SLA != model.SLA{}) {
				t.Fatalf("%+v got through", c)
			}
		}
	})
}
