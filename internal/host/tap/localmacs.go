package tap

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// localMACs is the map of MAC addresses on this host, shared by the programs of all taps.
type localMACs struct {
	table *ebpf.Map
	known map[macKey]bool
}

// macKey is an address in frame order, padded with two zero bytes.
type macKey [8]byte

const (
	localPin  = "macs"
	mostLocal = 1 << 16 // addresses; frames to one that does not fit go through the shaper
)

// localMACs opens the pinned map, or creates one.
func (s *taps) localMACs() (*localMACs, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.local != nil {
		return s.local, nil
	}
	table, err := s.loadLocal()
	if err != nil {
		return nil, err
	}
	l := &localMACs{table: table, known: map[macKey]bool{}}
	var key macKey
	var value uint8
	for all := table.Iterate(); all.Next(&key, &value); {
		l.known[key] = true
	}
	s.local = l
	return l, nil
}

func (s *taps) loadLocal() (*ebpf.Map, error) {
	if s.pins.Has(localPin) {
		m, err := ebpf.LoadPinnedMap(s.pins.Path(localPin), nil)
		if err == nil && m.Type() == ebpf.Hash && m.KeySize() == 8 && m.ValueSize() == 1 {
			return m, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open map of local MACs: %w", err)
		}
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "sluice_macs", Type: ebpf.Hash, KeySize: 8, ValueSize: 1, MaxEntries: mostLocal, Flags: unix.BPF_F_NO_PREALLOC,
	})
	if err != nil {
		return nil, fmt.Errorf("make map of local MACs: %w", err)
	}
	s.pin(m, localPin)
	return m, nil
}

func (s *taps) setLocal(macs []model.MAC) error {
	l, err := s.localMACs()
	if err != nil {
		return err
	}
	want := make(map[macKey]bool, len(macs))
	for _, mac := range macs {
		var key macKey
		copy(key[:], mac[:])
		want[key] = true
		if l.known[key] {
			continue
		}
		if err := l.table.Put(key, uint8(1)); err != nil {
			return fmt.Errorf("add %s: %w", mac, err)
		}
		l.known[key] = true
	}
	for key := range l.known {
		if want[key] {
			continue
		}
		if err := l.table.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove %x: %w", key[:6], err)
		}
		delete(l.known, key)
	}
	return nil
}
