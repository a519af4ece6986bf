package libvirt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/base/sleep"
	"sluice/internal/model"
)

// jobLimit bounds a query of a domain's jobs.
const jobLimit = 2 * time.Second

// hangLimit is how long a QEMU may take for one monitor command before the domain counts as stuck: far longer than a hot-plug takes, and
// far shorter than a person would wait.
const hangLimit = time.Second

// checkJobs checks for migrations: of all domains, or of those known to be in a job.
func (c *Conn) checkJobs(s *session, all bool) {
	for _, vm := range c.inv.ids(all) {
		c.checkJob(s, vm)
	}
}

// checkJob checks one domain in the background.
func (c *Conn) checkJob(s *session, vm model.VMID) {
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, jobLimit)
		defer cancel()
		taken, err := occupied(ctx, s, vm)
		if err != nil {
			return
		}
		c.inv.setHung(vm, taken)
		// The query of jobs would wait behind whatever occupies the domain. If that is a call of ours, the job would be our own.
		if taken > 0 || s.hotplug.calls.busy(vm) {
			return
		}
		job, err := inJob(ctx, s, vm)
		if err == nil {
			c.inv.setJob(vm, job)
		}
	})
}

// occupied returns how long a domain's QEMU has owed libvirt an answer, zero if it owes none. The query does not wait for QEMU.
func occupied(ctx context.Context, s *session, vm model.VMID) (time.Duration, error) {
	return onDomain(ctx, s.queries, vm, "read control state", control)
}

// control is the query of occupied. A driver that does not support it has no QEMU to wait for.
func control(c *client, d lv.Domain) (time.Duration, error) {
	state, _, since, err := c.DomainGetControlInfo(d, 0)
	switch {
	case isCode(c.explain(err), lv.ErrNoSupport):
		return 0, nil
	case err != nil:
		return 0, err
	case lv.DomainControlState(state) == lv.DomainControlOccupied:
		return max(time.Millisecond, time.Duration(since)*time.Millisecond), nil
	case lv.DomainControlState(state) == lv.DomainControlError:
		return 0, errors.New("libvirt has lost the domain's monitor (restart libvirtd, or the domain)")
	}
	return 0, nil
}

// inJob reports whether a job is in progress during which the domain must not be changed: a migration, or a save, dump or snapshot, which
// QEMU performs as a migration into a file.
func inJob(ctx context.Context, s *session, vm model.VMID) (bool, error) {
	is, err := onDomain(ctx, s.hotplug, vm, "read job", func(c *client, d lv.Domain) (bool, error) {
		kind, params, err := c.DomainGetJobStats(d, 0)
		return err == nil && jobForbids(lv.DomainJobType(kind), params), err
	})
	if isCode(err, lv.ErrNoSupport) {
		return false, nil
	}
	return is, err
}

// jobForbids reports whether a job forbids changing its domain. One of an unknown operation does.
func jobForbids(kind lv.DomainJobType, params []lv.TypedParam) bool {
	if kind == lv.DomainJobNone {
		return false
	}
	for _, p := range params {
		if op, ok := p.Value.I.(int32); ok && p.Field == lv.DomainJobOperationStr {
			return slices.Contains(exclusiveJobs, lv.DomainJobOperation(op))
		}
	}
	return true
}

var exclusiveJobs = []lv.DomainJobOperation{
	lv.DomainJobOperationStrMigrationIn, lv.DomainJobOperationStrMigrationOut, lv.DomainJobOperationStrSave, lv.DomainJobOperationStrRestore,
	lv.DomainJobOperationStrDump, lv.DomainJobOperationStrSnapshot, lv.DomainJobOperationStrSnapshotRevert,
}

// fit fails if the domain cannot be changed now.
func (c *Conn) fit(ctx context.Context, s *session, vm model.VMID) error {
	if err := untilFree(ctx, func() (time.Duration, error) { return occupied(ctx, s, vm) }); err != nil {
		return err
	}
	busy, err := inJob(ctx, s, vm)
	if err != nil {
		return err
	}
	if busy {
		return errors.New("it is being migrated or saved; wait for that to end")
	}
	return nil
}

// untilFree waits until a domain's QEMU executes no other command, for up to hangLimit: a call that is queued for a stuck domain cannot be
// cancelled.
func untilFree(ctx context.Context, query func() (time.Duration, error)) error {
	for {
		taken, err := query()
		if err != nil || taken == 0 {
			return err
		}
		if taken > hangLimit {
			return fmt.Errorf("%w: its QEMU has not answered libvirt for %s (%s)", ErrStuck, taken.Round(time.Second), stuckRemedy)
		}
		if sleep.For(ctx, freePause) != nil {
			return ctx.Err()
		}
	}
}

// freePause is the interval between queries of a domain whose QEMU is busy.
const freePause = 20 * time.Millisecond

// busyLimit bounds the wait for a domain's XML while its QEMU executes one command after another.
const busyLimit = 5 * time.Second

// xmlWaitsFrom is the first version of libvirt that may wait until nothing occupies the domain before it returns the XML: 9.0 returns at
// once, 11 waits. Tests change it.
var xmlWaitsFrom uint64 = 10_000_000

// xml reads a domain's XML. It makes no call for which libvirt would wait for a stuck QEMU.
func (c *client) xml(ctx context.Context, d lv.Domain, flags lv.DomainXMLFlags) (string, error) {
	err := untilAtRest(ctx, func() (time.Duration, error) {
		taken, _ := control(c, d) // libvirt waits for no answer on a lost monitor
		if taken > 0 && c.answersAtOnce() {
			return 0, nil
		}
		return taken, nil
	})
	if err != nil {
		return "", err
	}
	return c.DomainGetXMLDesc(d, flags)
}

// untilAtRest is untilFree for at most busyLimit.
func untilAtRest(ctx context.Context, query func() (time.Duration, error)) error {
	within, cancel := context.WithTimeout(ctx, busyLimit)
	defer cancel()
	err := untilFree(within, query)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: its QEMU has been executing one command after another for %s (%s)", ErrStuck, busyLimit, stuckRemedy)
	}
	return err
}

// answersAtOnce reports whether this libvirt returns a domain's XML whatever occupies the domain.
func (c *client) answersAtOnce() bool {
	v, err := c.ConnectGetLibVersion()
	return err == nil && v < xmlWaitsFrom
}
