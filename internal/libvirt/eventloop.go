package libvirt

import (
	"fmt"
	"sync"

	lv "libvirt.org/go/libvirt"

	"sluice/internal/model"
)

// theLoop is package state because libvirt's event loop is: it can be registered
// once per process and serves every connection in it.
var theLoop eventLoop

// eventLoop runs libvirt's event loop while at least one Conn is open.
type eventLoop struct {
	mu    sync.Mutex
	ready bool
	timer int
	users int
	stop  chan struct{}
	done  chan struct{}
}

// acquire starts the loop for its first user. It fails if libvirt cannot be loaded.
func (l *eventLoop) acquire() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.register(); err != nil {
		return err
	}
	if l.users++; l.users == 1 {
		l.stop, l.done = make(chan struct{}), make(chan struct{})
		go run(l.stop, l.done)
	}
	return nil
}

// register loads libvirt and makes its own event loop the process's. The timer is
// only there to wake the loop up when it has to stop.
func (l *eventLoop) register() error {
	if l.ready {
		return nil
	}
	if err := lv.EventRegisterDefaultImpl(); err != nil {
		return fmt.Errorf("load libvirt.so.0: %w: %w (install package libvirt0 or libvirt-libs)", model.ErrPermanent, plain(err))
	}
	timer, err := lv.EventAddTimeout(-1, func(int) {})
	if err != nil {
		return fmt.Errorf("libvirt event loop: %w", plain(err))
	}
	l.timer, l.ready = timer, true
	return nil
}

// release stops the loop after its last user. The rounds after the stop let libvirt
// free what it only frees from within its loop.
func (l *eventLoop) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	close(l.stop)
	for range 3 {
		lv.EventUpdateTimeout(l.timer, 0)
	}
	<-l.done
	lv.EventUpdateTimeout(l.timer, -1)
}

func run(stop, done chan struct{}) {
	defer close(done)
	for {
		select {
		case <-stop:
			return
		default:
			// It fails only if the loop is not registered.
			_ = lv.EventRunDefaultImpl()
		}
	}
}
