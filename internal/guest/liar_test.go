package guest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/model"
)

// liar is an agent that misbehaves. talk gets each line and the connection.
func liar(t testing.TB, talk func(line string, w io.Writer)) *Socket {
	t.Helper()
	dir, err := os.MkdirTemp("", "ga")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				in := bufio.NewScanner(c)
				for in.Scan() {
					talk(in.Text(), c)
				}
			})
		}
	})
	s := NewSocket(filepath.Join(dir, "sock"))
	t.Cleanup(func() {
		_ = s.Close()
		_ = l.Close()
		wg.Wait()
		_ = os.RemoveAll(dir)
	})
	return s
}

var syncID = regexp.MustCompile(`guest-sync-delimited.*"id":(\d+)`)

// polite answers the sync as qemu-ga does, an error object first; the rest is up to next.
func polite(next func(line string, w io.Writer)) func(string, io.Writer) {
	return func(line string, w io.Writer) {
		if m := syncID.FindStringSubmatch(line); m != nil {
			_, _ = fmt.Fprintf(w, "{\"error\":{\"class\":\"GenericError\",\"desc\":\"JSON parse error\"}}\n\xff{\"return\":%s}\n", m[1])
			return
		}
		next(line, w)
	}
}

func says(text string) func(string, io.Writer) {
	return func(_ string, w io.Writer) { _, _ = io.WriteString(w, text) }
}

// flood writes until the other side has had enough.
func flood(text string) func(string, io.Writer) {
	block := []byte(strings.Repeat(text, 64<<10/len(text)))
	return func(_ string, w io.Writer) {
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
}

func nics(stats string) string {
	return `{"return":[{"name":"eth0","hardware-address":"52:54:00:00:00:01","statistics":{` + stats + `}}]}` + "\n"
}

// Each of these agents is found out: an error of the guest's, soon, without a panic.
func TestLiars(t *testing.T) {
	silent := func(string, io.Writer) {}
	long := strings.Repeat("x", maxName+1)
	for name, talk := range map[string]func(string, io.Writer){
		"says nothing":             silent,
		"is silent after the sync": polite(silent),
		"floods instead of sync":   flood("spam "),
		"floods markers":           flood("\xff{\"return\":1}\n"),
		"floods an answer":         polite(flood(`{"return":[`)),
		"floods without newline":   polite(flood("0")),
		"stops in mid-answer":      polite(says(`{"return":[{"name":`)),
		"syncs with wrong ids":     says("\xff{\"return\":-7}\n"),
		"garbage":                  polite(says("%!$ \x00\x01\xfe\n")),
		"a number":                 polite(says("42\n")),
		"nothing in it":            polite(says("{}\n")),
		"wrong type":               polite(says(`{"return":{"name":"eth0"}}` + "\n")),
		"two answers in one line":  polite(says(`{"return":[]}{"return":[]}` + "\n")),
		"deep":                     polite(says(strings.Repeat("[", 100_000) + "\n")),
		"deep inside":              polite(says(`{"return":[],"x":` + strings.Repeat(`{"a":`, 50) + "1" + strings.Repeat("}", 50) + "}\n")),
		"negative":                 polite(says(nics(`"rx-bytes":-1`))),
		"fraction":                 polite(says(nics(`"rx-bytes":1.5`))),
		"exponent":                 polite(says(nics(`"rx-bytes":1e3`))),
		"NaN":                      polite(says(nics(`"rx-bytes":NaN`))),
		"string":                   polite(says(nics(`"rx-bytes":"7"`))),
		"huge":                     polite(says(nics(`"rx-bytes":9223372036854775808`))),
		"beyond 64 bits":           polite(says(nics(`"tx-packets":99999999999999999999999`))),
		"long name":                polite(says(`{"return":[{"name":"` + long + `"}]}` + "\n")),
		"control in name":          polite(says(`{"return":[{"name":"a\u001b[2J"}]}` + "\n")),
		"no name":                  polite(says(`{"return":[{}]}` + "\n")),
		"same name twice":          polite(says(`{"return":[{"name":"a"},{"name":"a"}]}` + "\n")),
		"too many":                 polite(says(`{"return":[` + strings.Repeat(`{"name":"a"},`, maxInterfaces) + `{"name":"a"}]}` + "\n")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := liar(t, talk)
			start := time.Now()
			got, err := New(s).Interfaces(within(t, 500*time.Millisecond), "vm")
			if err == nil || !errors.Is(err, model.ErrGuest) {
				t.Errorf("have %v, %v", got, err)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// A reply with an odd MAC is no lie: the interface is just none of ours.
func TestOddInterfaces(t *testing.T) {
	s := liar(t, polite(says(`{"return":[{"name":"lo","hardware-address":"00:00:00:00:00:00"},{"name":"tun0"},`+
		`{"name":"ib0","hardware-address":"80:00:00:00:fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:01"},`+
		`{"name":"Ethernet Instance 0","hardware-address":"52:54:00:00:00:01","statistics":{"rx-bytes":7}}]}`+"\n")))
	got, err := New(s).Interfaces(within(t, patience), "vm")
	if err != nil || len(got) != 1 || got[0].RxBytes != 7 {
		t.Errorf("have %+v, %v", got, err)
	}
}

// An answer that comes after its asker has gone is not taken for the next one's.
func TestLateAnswer(t *testing.T) {
	release := make(chan struct{})
	var once sync.Once
	s := liar(t, polite(func(_ string, w io.Writer) {
		first := false
		once.Do(func() { first = true })
		if first {
			<-release
			_, _ = io.WriteString(w, `{"return":"late"}`+"\n")
			return
		}
		_, _ = io.WriteString(w, `{"return":"own"}`+"\n")
	}))
	if _, err := s.Agent(within(t, 50*time.Millisecond), "vm", []byte(`{}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("first: %v", err)
	}
	close(release)
	got, err := s.Agent(within(t, patience), "vm", []byte(`{}`))
	if err != nil || !bytes.Contains(got, []byte("own")) {
		t.Errorf("second: %q, %v", got, err)
	}
}

// While one command waits, others give up when their time is up.
func TestSocketTurnObeysContext(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	s := liar(t, polite(func(_ string, w io.Writer) {
		close(asked)
		<-release
		_, _ = io.WriteString(w, `{"return":{}}`+"\n")
	}))
	done := make(chan error)
	go func() { _, err := s.Agent(within(t, patience), "vm", []byte(`{}`)); done <- err }()
	<-asked
	if _, err := s.Agent(within(t, 20*time.Millisecond), "vm", []byte(`{}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second: %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("first: %v", err)
	}
}
