// Package placementtest runs a real Placement for tests, behind a proxy that can kill it at a given request.
package placementtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// notInstalled is the exit code of scripts/placement if PyPI does not give it.
const notInstalled = 75

// Server is a Placement with an empty ledger, which is kept while it is killed and started again.
type Server struct {
	URL string // of the proxy; always the same

	t        testing.TB
	program  *exec.Cmd // starts a Placement for each line
	lines    io.Writer
	ports    io.Reader
	complain bytes.Buffer

	mu      sync.Mutex
	pid     int // 0: it does not run
	address string
	kill    func(request string) bool // nil: never
	answers bool
	before  func(request string)
	seen    []string
}

// Start starts a Placement, which ends with the test. The test is skipped if it cannot be installed, but fails where CI=true.
func Start(t testing.TB) *Server {
	t.Helper()
	if os.Getenv("SLUICE_TEST_NO_PLACEMENT") == "1" {
		t.Skip("SLUICE_TEST_NO_PLACEMENT=1")
	}
	_, here, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(here), "../../../../scripts/placement")
	s := &Server{t: t, program: exec.Command(script, t.TempDir(), "restarts")} //nolint:gosec // it ends below
	s.program.Stderr = &s.complain
	var err error
	if s.lines, err = s.program.StdinPipe(); err == nil {
		s.ports, err = s.program.StdoutPipe()
	}
	if err == nil {
		err = s.program.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		_ = s.program.Process.Kill()
		_ = s.program.Wait()
	})
	s.Restart()
	proxy := httptest.NewServer(s)
	t.Cleanup(proxy.Close)
	s.URL = proxy.URL
	return s
}

// Restart starts Placement after it was killed.
func (s *Server) Restart() {
	s.t.Helper()
	var port, pid int
	_, err := fmt.Fprintln(s.lines)
	if err == nil {
		_, err = fmt.Fscan(s.ports, &port, &pid)
	}
	if err != nil {
		_ = s.program.Wait()
		if s.program.ProcessState.ExitCode() == notInstalled && os.Getenv("CI") != "true" {
			s.t.Skipf("no Placement from PyPI: %s", &s.complain)
		}
		s.t.Fatalf("Placement has not started: %v, %v\n%s", err, s.program.ProcessState, &s.complain)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid, s.address = pid, fmt.Sprintf("http://127.0.0.1:%d", port)
}

// Direct is the address of Placement itself, without the proxy; "": it does not run.
func (s *Server) Direct() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pid == 0 {
		return ""
	}
	return s.address
}

// Kill ends Placement at once. Whoever asks it gets no answer.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

func (s *Server) end() {
	if s.pid != 0 {
		_ = syscall.Kill(s.pid, syscall.SIGKILL)
		s.pid = 0
	}
}

// KillAt has Placement killed at the nth request from now whose method and path are these, counted from 1; "": any. It is killed before it
// sees the request or, if it answers, before the answer arrives. n = 0: never. It also forgets what Requests lists.
func (s *Server) KillAt(n int, request string, answers bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers, s.seen = answers, nil
	s.kill = func(r string) bool {
		if request != "" && r != request {
			return false
		}
		n--
		return n == 0
	}
}

// Requests lists the method and path of each request since KillAt.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// WritesClaim reports whether a request that Requests lists writes what somebody claims.
func WritesClaim(request string) bool {
	return !strings.HasPrefix(request, http.MethodGet) && strings.Contains(request, " /allocations")
}

// Before has a function called before each request, with its method and path.
func (s *Server) Before(f func(request string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// ServeHTTP passes a request on, one after another, so that their order is that of changes in the ledger.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := r.Method + " " + r.URL.Path
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		before(request)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, request)
	last := s.pid != 0 && s.kill != nil && s.kill(request)
	if last && !s.answers {
		s.end()
	}
	status, header, body, err := s.pass(r)
	if last {
		s.end()
	}
	if err != nil || last {
		panic(http.ErrAbortHandler) // closes the connection without an answer
	}
	for k, v := range header {
		w.Header()[k] = v
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (s *Server) pass(r *http.Request) (status int, header http.Header, body []byte, err error) {
	if s.pid == 0 {
		return 0, nil, nil, errors.New("it does not run")
	}
	q, err := http.NewRequestWithContext(r.Context(), r.Method, s.address+r.URL.RequestURI(), r.Body)
	if err != nil {
		return 0, nil, nil, err
	}
	q.Header, q.ContentLength = r.Header, r.ContentLength
	answer, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		return 0, nil, nil, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Header, body, err
}
