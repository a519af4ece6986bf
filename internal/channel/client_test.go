package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
)

// answerWith answers the next request with what say returns for its ID.
func answerWith(conn net.Conn, say func(id uint64) []byte) {
	m, err := NewReader(conn).Next()
	if err != nil {
		return
	}
	_, _ = conn.Write(say(m.ID))
}

func pipe(t testing.TB) (*Client, net.Conn) {
	here, there := net.Pipe()
	c := NewClient(here)
	t.Cleanup(func() {
		_ = there.Close()
		_ = c.Close()
	})
	return c, there
}

func TestClientPassesOverWhatIsNotItsAnswer(t *testing.T) {
	c, daemon := pipe(t)
	go answerWith(daemon, func(id uint64) []byte {
		stale := fmt.Sprintf("ody\":1}\n{\"v\":1,\"id\":%d,\"error\":{\"code\":\"denied\"}}\n{\"v\":1,\"id\":%d,\"method\":\"hello\"}\n", id-1,
			id)
		return fmt.Appendf([]byte(stale), "{\"v\":1,\"id\":%d,\"body\":{\"program\":\"this\",\"more\":1}}\n", id)
	})
	var w Welcome
	if err := c.Call(within(t, patience), MethodHello, Hello{}, &w); err != nil || w.Program != "this" {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestClientOfAnotherVersion(t *testing.T) {
	c, daemon := pipe(t)
	go answerWith(daemon, func(id uint64) []byte { return fmt.Appendf(nil, "{\"v\":9,\"id\":%d,\"body\":{}}\n", id) })
	var refused *Error
	if err := c.Call(within(t, patience), MethodHello, Hello{}, nil); !errors.As(err, &refused) || refused.Code != CodeVersion {
		t.Errorf("%v", err)
	}
}

func TestClientWhoseServerEnds(t *testing.T) {
	c, daemon := pipe(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Call(within(t, patience), MethodHello, Hello{}, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("the call under way: %v", err)
		}
	})
	if _, err := NewReader(daemon).Next(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Close()
	wg.Wait()
	<-c.Done()
	if err := c.Call(within(t, patience), MethodHello, Hello{}, nil); err == nil {
		t.Error("a call succeeded after the end")
	}
}

func TestClientGivesUpWithItsContext(t *testing.T) {
	c, daemon := pipe(t)
	ctx, cancel := context.WithCancel(context.Background())
	go answerWith(daemon, func(uint64) []byte {
		cancel()
		return nil
	})
	if err := c.Call(ctx, MethodHello, Hello{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if len(c.waiting) != 0 {
		t.Errorf("%d calls are still remembered", len(c.waiting))
	}
}

func TestClientsHaveIDsOfTheirOwn(t *testing.T) {
	a, _ := pipe(t)
	b, _ := pipe(t)
	if a.last == b.last || a.last == 0 {
		t.Errorf("both begin with %d", a.last)
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	socket, _ := serve(t, Dispatch(&desk{}), Limits{Requests: 1000})
	c := dial(t, socket)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			var w Welcome
			name := fmt.Sprint(i)
			if err := c.Call(within(t, patience), MethodHello, Hello{Program: name}, &w); err != nil || w.Program != "desk for "+name {
				t.Errorf("%s: %+v, %v", name, w, err)
			}
		})
	}
	wg.Wait()
}

func TestMessageTooLongIsNotSent(t *testing.T) {
	c, _ := pipe(t)
	if err := c.Send(MethodCounters, Counters{Interfaces: make([]Interface, 1000)}); err == nil {
		t.Error("it was sent")
	}
}

// A server whose list never ends does not exhaust the client's memory.
func TestListWithoutEnd(t *testing.T) {
	socket, _ := serve(t, handlerFunc(func(_ context.Context, _ Method, body json.RawMessage) (any, error) {
		var from ListFrom
		err := strict(body, &from)
		return List{VFs: make([]Held, 200), Next: from.From + 1}, err
	}), Limits{Requests: 1 << 20, Bytes: 1 << 30})
	got, err := dial(t, socket).List(within(t, patience))
	if err != nil || len(got) < maxList || len(got) > maxList+200 {
		t.Errorf("%d VFs, %v", len(got), err)
	}
}

func TestDialNamesWhatIsMissing(t *testing.T) {
	if _, err := Dial(within(t, patience), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("connected to nothing")
	}
}

// FuzzClient lets a hostile daemon send anything before and after the answer.
func FuzzClient(f *testing.F) {
	f.Add([]byte("x"), []byte(`{"v":1,"id":1,"body":{}}`))
	f.Add([]byte("{\"v\":1,\"id\":\n\x00"), []byte("{\"v\":1,\"id\":7,\"error\":{}}\n"))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		c, daemon := pipe(t)
		go answerWith(daemon, func(id uint64) []byte {
			b := fmt.Appendf(bytes.Clone(before), "\n{\"v\":1,\"id\":%d,\"body\":{\"program\":\"this\"}}\n", id)
			return append(b, after...)
		})
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var w Welcome
		if err := c.Call(ctx, MethodHello, Hello{}, &w); err != nil || w.Program != "this" {
			t.Fatalf("%q: %+v, %v", before, w, err)
		}
	})
}
