package guest

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/internal/model"
)

// limitScript runs in the guest. Everything variable is passed as an argument.
//
//go:embed limit.sh
var limitScript string

// ErrLifted means that the guest did not have the limit that was set: something in the guest removed or changed it. The error says so if
// the limit has been set again.
var ErrLifted = errors.New("the guest did not keep its limit")

// Shaper limits what guests send, inside them: HTB on the device above a virtio NIC and its VF, so that the limit applies to both through
// every move. One process per NIC in the guest takes changes from a pipe; if it receives none for the lease, it leaves only the contract,
// or no limit if there is none, and exits.
//
// A change takes two agent commands if the agent may write files, otherwise it uses guest-exec. A guest can remove its limit at any time:
// trust that it is in force only as far as the host's own measurements agree. Limits of different VMs may be set concurrently, those of one
// VM's NICs only in sequence.
type Shaper struct {
	c     *Client
	lease time.Duration
	check time.Duration // how long after the last check the limit is read back again
	sys   string        // where the guest lists its network devices

	mu       sync.Mutex
	channels map[channelKey]*channel
}

type channelKey struct {
	vm  model.VMID
	mac model.MAC
}

// channel is the process in the guest that limits one NIC.
type channel struct {
	id     string // of the process, to tell it from one that was left behind
	handle int64  // of its pipe
	file   bool   // the pipe is open; otherwise guest-exec writes to it
	boot   string // identifies the guest's boot
	seq    uint64 // of the last record

	now, contract model.Rate
	sent, checked time.Time
}

// NewShaper returns a Shaper of what guests send; t carries its agent commands.
func NewShaper(t Transport) *Shaper {
	return &Shaper{
		c: New(t), lease: model.LimitLease, check: model.LimitLease / 4, sys: "/sys/class/net",
		channels: map[channelKey]*channel{},
	}
}

// Limit limits the VM's NIC to now, and to contract once it has not been called for the lease; zero parts are unlimited. If both are zero,
// nothing remains in the guest after the lease.
func (s *Shaper) Limit(ctx context.Context, vm model.VMID, mac model.MAC, now, contract model.Rate) error {
	if err := s.limit(ctx, channelKey{vm, mac}, now, contract); err != nil {
		return fmt.Errorf("limit NIC %s inside VM %s: %w", mac, vm, err)
	}
	return nil
}

func (s *Shaper) limit(ctx context.Context, key channelKey, now, contract model.Rate) error {
	ch := s.of(key)
	if ch == nil {
		return s.start(ctx, key, now, contract, nil)
	}
	err := errGone
	if time.Since(ch.sent) < s.lease*3/4 { // otherwise the process has exited, or is about to
		err = s.change(ctx, key, ch, now, contract)
	}
	if err != nil && !errors.Is(err, errAgain) {
		s.drop(ctx, key, ch)
	}
	if errors.Is(err, ErrRefused) || errors.Is(err, errGone) { // the agent, the process or the guest restarted
		return s.start(ctx, key, now, contract, ch)
	}
	return err
}

// change makes the process set the limit, and reads back what is in force if a check is due.
func (s *Shaper) change(ctx context.Context, key channelKey, ch *channel, now, contract model.Rate) error {
	ch.seq++
	err := s.send(ctx, key, ch, record(ch.seq, now, contract))
	if err != nil {
		return err
	}
	ch.sent = time.Now()
	if time.Since(ch.checked) >= s.check {
		err = s.verify(ctx, key, ch)
	}
	if err == nil || errors.Is(err, errAgain) {
		ch.now, ch.contract = now, contract
	}
	return err
}

// Lift removes the limit, the process and its files at once, including those of an earlier Shaper.
func (s *Shaper) Lift(ctx context.Context, vm model.VMID, mac model.MAC) error {
	key := channelKey{vm, mac}
	if ch := s.of(key); ch != nil {
		s.drop(ctx, key, ch)
	}
	_, err := s.script(ctx, key, "lift", "", "")
	if err != nil && !errors.Is(err, errNoMaster) { // without a device there is no limit
		return fmt.Errorf("lift the limit of NIC %s inside VM %s: %w", mac, vm, err)
	}
	return nil
}

// InForce reads back the limit of the VM's NIC, including one of an earlier Shaper; zero parts are unlimited. The guest's answer is
// untrusted.
func (s *Shaper) InForce(ctx context.Context, vm model.VMID, mac model.MAC) (model.Rate, error) {
	text, err := s.script(ctx, channelKey{vm, mac}, "show", "", "")
	if errors.Is(err, errNoMaster) {
		return model.Rate{}, nil
	}
	if err != nil {
		return model.Rate{}, fmt.Errorf("read the limit of NIC %s inside VM %s: %w", mac, vm, err)
	}
	st, err := parseState(text)
	return st.rate(), err
}

// Forget drops the state of VMs that no longer exist.
func (s *Shaper) Forget(there func(model.VMID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.channels {
		if !there(key.vm) {
			delete(s.channels, key)
		}
	}
}

func (s *Shaper) of(key channelKey) *channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.channels[key]
}

// start runs the process in the guest, which sets the limit before it answers, and opens its pipe. If there was a process before (last),
// start checks that the guest still has the limit or the contract which that process must have left.
func (s *Shaper) start(ctx context.Context, key channelKey, now, contract model.Rate, last *channel) error {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	ch := &channel{id: hex.EncodeToString(id[:]), seq: 1, now: now, contract: contract, sent: time.Now()}
	text, err := s.script(ctx, key, "start", ch.id, record(ch.seq, now, contract))
	if errors.Is(err, ErrRefused) {
		err = fmt.Errorf("%w; %s", err, remedyExec)
	}
	if err != nil {
		return err
	}
	st, err := parseState(text)
	if err != nil {
		return err
	}
	if st.seq != ch.seq {
		return bad("record %d where %d was set", st.seq, ch.seq)
	}
	ch.checked, ch.boot = time.Now(), st.boot
	// r+ does not wait for a reader, and creates no file if none exists.
	open := map[string]any{"path": ch.path(key, "in"), "mode": "r+"}
	err = s.c.do(ctx, key.vm, "guest-file-open", open, &ch.handle)
	if err != nil && !errors.Is(err, ErrRefused) {
		return err
	}
	ch.file = err == nil
	s.mu.Lock()
	s.channels[key] = ch
	s.mu.Unlock()
	if last == nil || last.boot != ch.boot || last.contract.IsZero() || st.kept(last.now) == nil {
		return nil
	}
	return again(st.kept(last.contract))
}

// drop forgets a channel and closes its pipe if the agent allows it.
func (s *Shaper) drop(ctx context.Context, key channelKey, ch *channel) {
	s.mu.Lock()
	delete(s.channels, key)
	s.mu.Unlock()
	if ch.file && ctx.Err() == nil {
		closing, cancel := context.WithTimeout(ctx, closeLimit)
		defer cancel()
		var nothing struct{}
		_ = s.c.do(closing, key.vm, "guest-file-close", map[string]any{"handle": ch.handle}, &nothing)
	}
}

// send writes a record to the pipe.
func (s *Shaper) send(ctx context.Context, key channelKey, ch *channel, rec string) error {
	if !ch.file {
		_, err := s.script(ctx, key, "write", ch.id, rec)
		return err
	}
	var wrote struct {
		Count int `json:"count"`
	}
	write := map[string]any{"handle": ch.handle, "buf-b64": []byte(rec)}
	if err := s.c.do(ctx, key.vm, "guest-file-write", write, &wrote); err != nil {
		return err
	}
	if wrote.Count != len(rec) {
		return bad("guest-file-write wrote %d bytes of %d", wrote.Count, len(rec))
	}
	var nothing struct{}
	return s.c.do(ctx, key.vm, "guest-file-flush", map[string]any{"handle": ch.handle}, &nothing)
}

// recordSize is the length of every record in bytes. It is below PIPE_BUF, so each record is one atomic write and one read.
const recordSize = 128

// record formats a line: its number, the current limit, the contract, the sum of these, and an end mark.
func record(seq uint64, now, contract model.Rate) string {
	n := []uint64{
		seq, bounded(now.Bits, model.MaxRate), bounded(now.Packets, maxPackets), bounded(contract.Bits, model.MaxRate),
		bounded(contract.Packets, maxPackets),
	}
	var sum uint64
	var words []string
	for _, v := range n {
		sum += v
		words = append(words, strconv.FormatUint(v, 10))
	}
	line := strings.Join(append(words, strconv.FormatUint(sum, 10), "."), " ")
	return fmt.Sprintf("%-*s\n", recordSize-1, line)
}

// maxPackets is above any NIC's rate, and small enough for the shell's arithmetic.
const maxPackets = 1e9

// bounded returns a limit, or 0 if it is too high to have an effect.
func bounded(v, most uint64) uint64 {
	if v >= most {
		return 0
	}
	return v
}

// dirOf returns the directory of a NIC's processes, each of which has a subdirectory. Only the guest's root can write to /run.
func dirOf(key channelKey) string { return "/run/sluice-" + key.mac.Hex() }

func (ch *channel) path(key channelKey, name string) string {
	return dirOf(key) + "/" + ch.id + "/" + name
}

// script runs an operation of limitScript in the guest and returns its output.
func (s *Shaper) script(ctx context.Context, key channelKey, op, id, rec string) (string, error) {
	lease := strconv.FormatFloat(s.lease.Seconds(), 'f', -1, 64)
	text, err := s.c.run(ctx, key.vm, "sh", "-c", limitScript, "sluice", op, key.mac.Hex(), key.mac.String(), id, lease, s.sys, rec)
	if err != nil {
		return "", err
	}
	return text, answered(text)
}
