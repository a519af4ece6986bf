package loop

import (
	"errors"
	"time"

	"sluice/internal/control/executor"
	"sluice/internal/control/plan"
	"sluice/internal/model"
)

// NoJournal is for a loop that changes nothing.
type NoJournal struct{}

// Begin implements Journal. It refuses: after a crash nobody would know of the Move.
func (NoJournal) Begin(model.Move) error { return errors.New("there is no journal") }

// End implements Journal.
func (NoJournal) End(model.Move) error { return nil }

// Options configure the loop.
type Options struct {
	Mode       model.Mode
	Parallel   int           // moves under way at once; values below 1 count as 1
	Retries    int           // tries of a Step beyond the first
	RetryDelay time.Duration // before the first retry; doubles
	Backoff    time.Duration // after a failed move a NIC backs off this long; doubles up to BackoffMax
	BackoffMax time.Duration
	Timeouts   plan.Timeouts
}

// DefaultOptions apply where the config is silent.
var DefaultOptions = Options{
	Mode:       model.ModeObserve,
	Parallel:   model.DefaultParallel,
	Retries:    model.DefaultRetries,
	RetryDelay: time.Second,
	Backoff:    model.DefaultBackoff,
	BackoffMax: model.DefaultBackoffMax,
	Timeouts:   plan.DefaultTimeouts,
}

func (o Options) executor() executor.Options {
	return executor.Options{Retries: o.Retries, Delay: o.RetryDelay}
}
