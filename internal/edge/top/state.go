package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"

	"sluice/api/v1"
)

// page is one of the pages.
type page int

const (
	pageList page = iota
	pageVM
	pageProblems
	pageHelp
)

// state is everything that determines the screen except its size. It has no clock.
type state struct {
	title string
	data  *Data
	err   error // why there is no new data

	page   page
	scroll int // lines of a text page above the screen
	last   int // maximum of scroll

	order   int // index of columns
	reverse bool
	filter  string
	typing  bool   // the filter is being typed
	chosen  string // UUID; "": the first row
	first   int    // row of the list at the top of the table
	height  int    // rows of the table when it was last drawn
	rows    []*api.VM
	shares  map[string]share // by UUID

	vm    string // UUID of the VM in detail
	lines []string
	quit  bool
}

// share is the sum over a VM's NICs, in bits/s.
type share struct {
	guarantee, short float64
	takes            float64 // of what others lack
}

func newState(title string) *state { return &state{title: title, order: orderLoad, data: &Data{}} }

// look takes new data.
func (s *state) look(d *Data) {
	s.data = d
	s.shares = map[string]share{}
	for i := range d.Bandwidth.NICs {
		if n := &d.Bandwidth.NICs[i]; n.VirtualPF == "" { // otherwise it is included in its virtual PF
			s.add(n)
		}
	}
	for i := range d.Bandwidth.VirtualPFs {
		s.add(&d.Bandwidth.VirtualPFs[i])
	}
	s.arrange()
}

func (s *state) add(n *api.NICShare) {
	sum := s.shares[n.ID]
	s.shares[n.ID] = share{sum.guarantee + n.Guarantee.Bits, sum.short + n.Short, sum.takes + n.Takes}
}

// explained takes the explanation of a VM, if it is still the one in detail.
func (s *state) explained(vm string, lines []string, err error) {
	if s.page != pageVM || vm != s.vm {
		return
	}
	if s.lines = lines; err != nil {
		s.lines = []string{err.Error()}
	}
}

// arrange filters and sorts the rows.
func (s *state) arrange() {
	s.rows = s.rows[:0]
	for i := range s.data.VMs {
		if vm := &s.data.VMs[i]; s.matches(vm) {
			s.rows = append(s.rows, vm)
		}
	}
	by := columns[s.order].compare
	slices.SortStableFunc(s.rows, func(a, b *api.VM) int {
		if s.reverse {
			a, b = b, a
		}
		return cmp.Or(by(s, a, b), strings.Compare(a.ID, b.ID))
	})
	s.keepVisible()
}

// matches reports whether all words of the filter occur in what is shown of the VM.
func (s *state) matches(vm *api.VM) bool {
	text := strings.ToLower(strings.Join([]string{vm.Name, path(vm), vm.State, vm.Class, vm.Network, vm.Code, vm.Short}, "\n"))
	return !slices.ContainsFunc(strings.Fields(strings.ToLower(s.filter)), func(word string) bool { return !strings.Contains(text, word) })
}

// at returns the selected row: the first if none is selected or the selected VM is gone.
func (s *state) at() int {
	return max(0, slices.IndexFunc(s.rows, func(vm *api.VM) bool { return vm.ID == s.chosen }))
}

func (s *state) keepVisible() {
	at := s.at()
	s.first = max(0, min(s.first, at, len(s.rows)-s.height))
	if s.height > 0 && at >= s.first+s.height {
		s.first = at - s.height + 1
	}
}

// move selects another row, or scrolls text.
func (s *state) move(by int) {
	if s.page != pageList {
		s.scroll = max(0, min(s.last, s.scroll+by))
		return
	}
	if len(s.rows) == 0 {
		return
	}
	at := max(0, min(len(s.rows)-1, s.at()+by))
	if s.chosen = s.rows[at].ID; at == 0 {
		s.chosen = "" // the first row, whichever VM that is
	}
	s.keepVisible()
}

// key handles a key.
func (s *state) key(ev *tcell.EventKey) {
	if ev.Key() == tcell.KeyCtrlC {
		s.quit = true
		return
	}
	if s.typing {
		s.typed(ev)
		return
	}
	const far = 1 << 30
	page := max(1, s.height-1)
	move := map[tcell.Key]int{
		tcell.KeyUp: -1, tcell.KeyDown: 1, tcell.KeyPgUp: -page, tcell.KeyPgDn: page, tcell.KeyHome: -far, tcell.KeyEnd: far,
	}
	if by := move[ev.Key()]; by != 0 {
		s.move(by)
		return
	}
	switch ev.Key() {
	case tcell.KeyLeft:
		s.sort(-1)
	case tcell.KeyRight:
		s.sort(1)
	case tcell.KeyEnter:
		s.detail()
	case tcell.KeyEscape, tcell.KeyBackspace, tcell.KeyBackspace2:
		s.back()
	case tcell.KeyRune:
		s.letter(ev.Rune())
	}
}

func (s *state) letter(r rune) {
	switch r {
	case 'q':
		if s.page == pageList {
			s.quit = true
		}
		s.show(pageList)
	case 'j':
		s.move(1)
	case 'k':
		s.move(-1)
	case '<':
		s.sort(-1)
	case '>':
		s.sort(1)
	case 'r':
		s.reverse = !s.reverse
		s.arrange()
	case '/':
		s.show(pageList)
		s.typing = true
	case 'p':
		s.toggle(pageProblems)
	case '?', 'h':
		s.toggle(pageHelp)
	}
}

// typed handles a key while the filter is being typed: the list is updated at once.
func (s *state) typed(ev *tcell.EventKey) {
	switch ev.Key() {
	case tcell.KeyEnter:
		s.typing = false
	case tcell.KeyEscape:
		s.typing, s.filter = false, ""
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		if r := []rune(s.filter); len(r) > 0 {
			s.filter = string(r[:len(r)-1])
		}
	case tcell.KeyCtrlU:
		s.filter = ""
	case tcell.KeyRune:
		s.filter += string(ev.Rune())
	}
	s.arrange()
}

func (s *state) show(p page) { s.page, s.scroll = p, 0 }

func (s *state) toggle(p page) {
	if s.page == p {
		p = pageList
	}
	s.show(p)
}

// back leaves a page or, in the list, clears the filter.
func (s *state) back() {
	if s.page == pageList {
		s.filter = ""
		s.arrange()
	}
	s.show(pageList)
}

func (s *state) detail() {
	if s.page != pageList || len(s.rows) == 0 {
		return
	}
	s.vm, s.lines = s.rows[s.at()].ID, nil
	s.chosen = s.vm // keep it selected for when the user comes back
	s.show(pageVM)
}

// sort selects the next or previous column to sort by.
func (s *state) sort(by int) {
	if s.page != pageList {
		return
	}
	s.order = (s.order + by + len(columns)) % len(columns)
	s.reverse = false
	s.arrange()
}
