package libvirt

import (
	"context"
	"errors"
	"fmt"
	"time"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/base/sleep"
	"sluice/internal/model"
)

// jobLimit bounds a look at a domain's jobs.
const jobLimit = 2 * time.Second

// hangLimit is how long a QEMU may take over one monitor command before we call the
// domain stuck: far above what hot-plug takes, far below a person's patience.
const hangLimit = time.Second

// checkJobs looks for migrations: at all domains, or at those known to be in a job.
func (c *Conn) checkJobs(s *session, all bool) {
	for _, vm := range c.inv.ids(all) {
		c.checkJob(s, vm)
	}
}

// checkJob looks at one domain without making anyone wait.
func (c *Conn) checkJob(s *session, vm model.VMID) {
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, jobLimit)
		defer cancel()
		taken, err := occupied(ctx, s, vm)
		if err != nil {
			return
		}
		c.inv.setHung(vm, taken)
		// The question about jobs would wait behind whatever occupies the domain. If
		// that is a call of ours, the job would be our own.
		if taken > 0 || s.hotplug.calls.busy(vm) {
			return
		}
		job, err := inJob(ctx, s, vm)
		if err == nil {
			c.inv.setJob(vm, job)
		}
	})
}

// occupied returns for how long a domain's QEMU has owed libvirt an answer; zero if
// it owes none. The question itself does not wait for QEMU.
func occupied(ctx context.Context, s *session, vm model.VMID) (time.Duration, error) {
	return onDomain(ctx, s.queries, vm, "read control state", control)
}

// control is the question that occupied asks. A driver that does not know it has no QEMU to wait for.
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

// inJob says whether a job is under way that forbids touching the domain: a migration,
// or a save, dump or snapshot, which QEMU does as a migration into a file.
func inJob(ctx context.Context, s *session, vm model.VMID) (bool, error) {
	info, err := onDomain(ctx, s.hotplug, vm, "read job", func(c *client, d lv.Domain) (jobInfo, error) {
		kind, params, err := c.DomainGetJobStats(d, 0)
		return readJob(kind, params), err
	})
	if isCode(err, lv.ErrNoSupport) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return jobForbids(info), nil
}

// jobInfo is what libvirt says of a domain's job.
type jobInfo struct {
	Type         lv.DomainJobType
	Operation    lv.DomainJobOperation
	OperationSet bool
}

func readJob(kind int32, params []lv.TypedParam) jobInfo {
	info := jobInfo{Type: lv.DomainJobType(kind)}
	for _, p := range params {
		if op, ok := p.Value.I.(int32); ok && p.Field == lv.DomainJobOperationStr {
			info.Operation, info.OperationSet = lv.DomainJobOperation(op), true
		}
	}
	return info
}

func jobForbids(info jobInfo) bool {
	if info.Type == lv.DomainJobNone {
		return false
	}
	if !info.OperationSet {
		return true
	}
	switch info.Operation {
	case lv.DomainJobOperationStrMigrationIn, lv.DomainJobOperationStrMigrationOut,
		lv.DomainJobOperationStrSave, lv.DomainJobOperationStrRestore, lv.DomainJobOperationStrDump,
		lv.DomainJobOperationStrSnapshot, lv.DomainJobOperationStrSnapshotRevert:
		return true
	}
	return false
}

// fit fails if the domain is in no state to be changed.
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

// untilFree looks until a domain's QEMU is at work on no other command, for up to hangLimit: a call that joins the queue for a
// stuck domain cannot be taken back.
func untilFree(ctx context.Context, look func() (time.Duration, error)) error {
	for {
		taken, err := look()
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

// freePause is the time between looks at a domain whose QEMU is at work.
const freePause = 20 * time.Millisecond

// busyLimit is how long a domain's XML waits for a QEMU that works on one command after another.
const busyLimit = 5 * time.Second

// xmlWaitsFrom is the first version of libvirt whose answer may wait until nothing occupies the domain: 9.0 answers at once, 11 waits.
// Tests change it.
var xmlWaitsFrom uint64 = 10_000_000

// xml reads a domain's XML. Where libvirt would wait for a QEMU that is stuck it does not ask.
func (c *client) xml(ctx context.Context, d lv.Domain, flags lv.DomainXMLFlags) (string, error) {
	err := untilAtRest(ctx, func() (time.Duration, error) {
		taken, _ := control(c, d) // a monitor that is lost keeps nobody waiting
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

// untilAtRest is untilFree with an end of its own.
func untilAtRest(ctx context.Context, look func() (time.Duration, error)) error {
	within, cancel := context.WithTimeout(ctx, busyLimit)
	defer cancel()
	err := untilFree(within, look)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: its QEMU has been at work on one command after another for %s (%s)", ErrStuck, busyLimit, stuckRemedy)
	}
	return err
}

// answersAtOnce says whether this libvirt tells the XML of a domain whatever occupies it.
func (c *client) answersAtOnce() bool {
	v, err := c.ConnectGetLibVersion()
	return err == nil && v < xmlWaitsFrom
}
