package tap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// switchPort is the state that makes a tap a port of the embedded switch. Its rules are compiled into the programs, which are
// replaced when the rules change, so that every frame is judged by one complete set of rules, the old or the new. The programs
// reference both maps. The rules read back are therefore those the programs enforce, and the maps live as long as the programs.
type switchPort struct {
	rules *ebpf.Map  // model.SwitchPort as JSON, frozen: what the programs that reference it were compiled from
	id    ebpf.MapID // of rules
	spec  model.SwitchPort
	table *ebpf.Map // meters and counters, which survive a change of the rules
	mem   portMemory

	foreign bool // made by another version and unreadable: its programs stay attached until the port is set again
}

const (
	rulesMap = "sluice_rules"
	portMap  = "sluice_port"
)

// newSwitchPort creates the maps for new rules. It keeps the meters and counters of old unless that is nil.
func newSwitchPort(spec model.SwitchPort, old *switchPort) (*switchPort, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode rules: %w", err)
	}
	rules, err := newRulesMap(text)
	if err != nil {
		return nil, err
	}
	var table *ebpf.Map
	if old != nil && !old.foreign {
		table, err = old.table.Clone()
	} else {
		table, err = newSharedMap(portMap, portWords)
	}
	if err != nil {
		return nil, errors.Join(err, rules.Close())
	}
	return openSwitchPort(rules, table)
}

func newRulesMap(text []byte) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: rulesMap, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(text)), MaxEntries: 1, Flags: unix.BPF_F_RDONLY_PROG,
	})
	if err != nil {
		return nil, fmt.Errorf("make eBPF map: %w", err)
	}
	if err := errors.Join(m.Put(uint32(0), text), m.Freeze()); err != nil {
		return nil, errors.Join(fmt.Errorf("write rules: %w", err), m.Close())
	}
	return m, nil
}

// openSwitchPort takes ownership of the maps; it closes them on failure.
func openSwitchPort(rules, table *ebpf.Map) (_ *switchPort, err error) {
	p := &switchPort{rules: rules, table: table}
	if err = p.read(); err == nil {
		p.mem, err = openPortMemory(table)
	}
	if errors.Is(err, errLayout) {
		p.foreign, err = true, nil
	}
	if err != nil {
		return nil, errors.Join(err, rules.Close(), table.Close())
	}
	return p, nil
}

func (p *switchPort) read() error {
	info, err := p.rules.Info()
	if err != nil {
		return fmt.Errorf("ask for eBPF map: %w", err)
	}
	p.id, _ = info.ID()
	text, err := p.rules.LookupBytes(uint32(0))
	if err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&p.spec) != nil {
		return errLayout
	}
	return nil
}

// portOfLink opens the port that the attached program was compiled from, nil if it is not a switch port.
func portOfLink(l link.Link) (*switchPort, error) {
	info, err := l.Info()
	if err != nil {
		return nil, err
	}
	prog, err := ebpf.NewProgramFromID(info.Program)
	if err != nil {
		return nil, fmt.Errorf("open eBPF program: %w", err)
	}
	defer prog.Close()
	about, err := prog.Info()
	if err != nil {
		return nil, fmt.Errorf("ask for eBPF program: %w", err)
	}
	ids, _ := about.MapIDs()
	var rules, table *ebpf.Map
	for _, id := range ids {
		m, name, err := mapByID(id)
		switch {
		case err != nil:
			return nil, errors.Join(err, closeMaps(rules, table))
		case name == rulesMap && rules == nil:
			rules = m
		case name == portMap && table == nil:
			table = m
		default:
			_ = m.Close()
		}
	}
	if rules == nil || table == nil {
		return nil, closeMaps(rules, table)
	}
	return openSwitchPort(rules, table)
}

func mapByID(id ebpf.MapID) (*ebpf.Map, string, error) {
	m, err := ebpf.NewMapFromID(id)
	if err != nil {
		return nil, "", fmt.Errorf("open eBPF map: %w", err)
	}
	info, err := m.Info()
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("ask for eBPF map: %w", err), m.Close())
	}
	return m, info.Name, nil
}

func closeMaps(maps ...*ebpf.Map) (err error) {
	for _, m := range maps {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}

// Close closes the maps; p may be nil.
func (p *switchPort) Close() error {
	if p == nil {
		return nil
	}
	err := closeMaps(p.rules, p.table)
	if p.mem.sharedWords != nil {
		err = errors.Join(err, p.mem.Close())
	}
	return err
}

// portMemory holds the meters and counters of a port, by rule.
type portMemory struct{ *sharedWords }

// Layout of portMemory, in words. A change needs a new portLayout.
const (
	portLayout = 1

	maxRules = 8        // per port: the PF and the VFs of an igb NIC
	noRule   = maxRules // the slot that counts frames which match no rule

	wordRules = 8
	ruleWords = 32

	// Counters of a rule, after its meters.
	wordSpoof = 16
	wordVLAN  = 17
	wordRate  = 18

	portWords = wordRules + (maxRules+1)*ruleWords
)

// ruleMeter is the offset of a meter within its rule, in words. Rules use only the contract meters.
func ruleMeter(m meter, dir int) int { return dir*2*meterWords + int(m)*meterWords }

func ruleWord(rule int) int { return wordRules + rule*ruleWords }

func openPortMemory(m *ebpf.Map) (portMemory, error) {
	words, err := openShared(m, portWords, portLayout)
	return portMemory{words}, err
}

// limit sets the rates of the rules.
func (p portMemory) limit(rules []model.SwitchRule, now uint64) {
	for i := range maxRules {
		var rates [2]model.Rate
		if i < len(rules) {
			rates = [2]model.Rate{dirTx: rules[i].Limit, dirRx: rules[i].Receive}
		}
		for dir, rate := range rates {
			p.setMeter(contractBits, ruleWord(i)+ruleMeter(contractBits, dir), rate.Bits, now)
			p.setMeter(contractPackets, ruleWord(i)+ruleMeter(contractPackets, dir), rate.Packets, now)
		}
	}
}

// counts returns the counters of each rule, and last those of frames that match none.
func (p portMemory) counts(rules int) []model.SwitchDrop {
	all := make([]model.SwitchDrop, 0, rules+1)
	for i := range rules {
		all = append(all, p.drops(i))
	}
	return append(all, p.drops(noRule))
}

func (p portMemory) drops(rule int) model.SwitchDrop {
	at := ruleWord(rule)
	return model.SwitchDrop{Spoof: p.word(at + wordSpoof), VLAN: p.word(at + wordVLAN), Rate: p.word(at + wordRate)}
}
