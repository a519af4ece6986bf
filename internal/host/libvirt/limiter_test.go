package libvirt

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/host/libvirt/libvirttest"
	"sluice/internal/model"
)

// through makes a call through a limiter as a pool does.
func through(ctx context.Context, l *limiter, vm model.VMID, fn func() (int, error)) (int, error) {
	if err := l.enter(vm); err != nil {
		return 0, err
	}
	return call(ctx, l, vm, "test", fn)
}

func TestLimiterLeavesStuckCallsBehind(t *testing.T) {
	var l limiter
	release := make(chan struct{})
	wait := func() (int, error) { <-release; return 1, nil }
	at := func() (int, error) { return 2, nil }
	if _, err := through(within(t, 10*time.Millisecond), &l, "a", wait); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("stuck: %v", err)
	}
	if _, err := through(t.Context(), &l, "a", at); !errors.Is(err, ErrStuck) {
		t.Errorf("the same domain: %v", err)
	}
	if v, err := through(t.Context(), &l, "b", at); v != 2 || err != nil {
		t.Errorf("another domain: %d, %v", v, err)
	}
	if s := l.stuck(); len(s) != 1 || s[0].vm != "a" || s[0].op != "test" {
		t.Errorf("stuck lists %v", s)
	}
	close(release)
	libvirttest.Eventually(t, patience, "the call returns", func() bool { return len(l.stuck()) == 0 })
	if v, err := through(t.Context(), &l, "a", at); v != 2 || err != nil {
		t.Errorf("afterwards: %d, %v", v, err)
	}
	if len(l.vms) != 0 {
		t.Errorf("the limiter remembers %d domains", len(l.vms))
	}
}

func TestLimiterBoundsCallsPerVM(t *testing.T) {
	var l limiter
	release := make(chan struct{})
	done := make(chan error)
	for range maxPerVM {
		go func() {
			_, err := through(t.Context(), &l, "a", func() (int, error) { <-release; return 0, nil })
			done <- err
		}()
	}
	libvirttest.Eventually(t, patience, "the limiter is full", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.vms["a"] != nil && l.vms["a"].calls == maxPerVM
	})
	if err := l.enter("a"); !errors.Is(err, ErrStuck) {
		t.Errorf("one more: %v", err)
	}
	close(release)
	for range maxPerVM {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for range 2 * maxPerVM { // calls that concern no single domain are not bounded here
		if err := l.enter(""); err != nil {
			t.Error(err)
		}
	}
}

// Results that arrive at the same moment as the deadline are either taken or dropped, and the counts stay consistent.
func TestLimiterRace(t *testing.T) {
	var l limiter
	for i := range 500 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		vm := model.VMID(fmt.Sprint(i % 7))
		if v, err := through(ctx, &l, vm, func() (int, error) { return 7, nil }); err == nil && v != 7 {
			t.Fatalf("have %d", v)
		}
	}
	libvirttest.Eventually(t, patience, "all are back", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.vms) == 0
	})
}

func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		code lv.ErrorNumber
		text string
		want error
	}{
		{lv.ErrNoDomain, "Domain not found", model.ErrGone},
		{lv.ErrDeviceMissing, "no device", model.ErrGone},
		{lv.ErrInternalError, "No more available PCI slots", model.ErrPermanent},
		{lv.ErrInternalError, "unable to execute QEMU command 'device_del': Device ua-x is already in the process of unplug", errPending},
		{lv.ErrInternalError, "Hot-unplug failed: guest is busy (power indicator blinking)", errPending},
		{lv.ErrAgentUnresponsive, "Guest agent is not responding", model.ErrGuest},
		{lv.ErrArgumentUnsupported, "QEMU guest agent is not configured", model.ErrPermanent},
		{lv.ErrAccessDenied, "access denied", model.ErrPermanent},
		{lv.ErrInternalError, "client socket is closed", ErrDisconnected},
		{lv.ErrSystemError, "Failed to connect socket to '/x': No such file or directory", ErrDisconnected},
	} {
		cause := lv.Error{Code: uint32(tc.code), Message: tc.text}
		err := fail("do a thing to", "web1", fmt.Errorf("in between: %w", cause))
		var back lv.Error
		if !errors.Is(err, tc.want) || !errors.As(err, &back) || back.Code != uint32(tc.code) {
			t.Errorf("%s: %v", tc.text, err)
		}
	}
	if err := plain(lv.Error{Code: uint32(lv.ErrInternalError), Message: "anything"}); errors.Is(err, model.ErrPermanent) ||
		err.Error() != "anything" {
		t.Errorf("an unknown error: %v", err)
	}
}

func TestStateOf(t *testing.T) {
	for _, tc := range []struct {
		state lv.DomainState
		why   int32
		want  model.VMState
	}{
		{lv.DomainRunning, 0, model.VMRunning},
		{lv.DomainBlocked, 0, model.VMRunning},
		{lv.DomainRunning, int32(lv.DomainRunningPostcopy), model.VMMigrating},
		{lv.DomainPaused, int32(lv.DomainPausedUser), model.VMPaused},
		{lv.DomainPaused, int32(lv.DomainPausedMigration), model.VMMigrating},
		{lv.DomainPmsuspended, 0, model.VMPaused},
		{lv.DomainShutdown, 0, model.VMStopped},
		{lv.DomainCrashed, 0, model.VMStopped},
	} {
		if got := stateOf(tc.state, tc.why); got != tc.want {
			t.Errorf("%v/%d: %s, want %s", tc.state, tc.why, got, tc.want)
		}
	}
}

func TestJobForbids(t *testing.T) {
	operation := func(op lv.DomainJobOperation) []lv.TypedParam {
		return []lv.TypedParam{{Field: "other"}, {Field: lv.DomainJobOperationStr, Value: *lv.NewTypedParamValueInt(int32(op))}}
	}
	for _, tc := range []struct {
		kind   lv.DomainJobType
		params []lv.TypedParam
		want   bool
	}{
		{lv.DomainJobNone, operation(lv.DomainJobOperationStrMigrationOut), false},
		{lv.DomainJobUnbounded, operation(lv.DomainJobOperationStrMigrationOut), true},
		{lv.DomainJobBounded, operation(lv.DomainJobOperationStrBackup), false},
		{lv.DomainJobBounded, nil, true},
	} {
		if got := jobForbids(tc.kind, tc.params); got != tc.want {
			t.Errorf("job %d, %+v: %v", tc.kind, tc.params, got)
		}
	}
}
