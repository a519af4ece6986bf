package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
	"sluice/internal/web"
)

// Looks of the live view.
const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	green = "\x1b[32m"
	red   = "\x1b[31m"
	plain = "\x1b[0m"
)

// Shares of the live view.
const (
	barWidth  = 24
	maxGroups = 8
	maxMoves  = 6
	fixedRows = 10 // headings, empty lines and the line the cursor rests on
)

// frame draws a View as lines of at most columns, at most rows of them.
func frame(v *model.View, columns, rows int) []string {
	if !web.Looked(v) {
		return []string{clip("Sluice has not looked at the host yet.", columns)}
	}
	list := web.VMs(v)
	s := web.Summary(v, "", 0)
	groups := groupsOf(list)
	out := header(s, columns)
	out = append(out, "", style(bold, groupHead(columns)))
	out = append(out, groupRows(groups, columns)...)
	recent := toShow(v.Recent)
	room := rows - fixedRows - min(maxGroups, len(groups)) - len(recent)
	out = append(out, "", style(bold, vmHead(columns)))
	out = append(out, vmRows(list, columns, max(3, room))...)
	out = append(out, "", style(bold, clip("Moves, newest first", columns)))
	for i := range recent {
		out = append(out, moveRow(&recent[i], columns))
	}
	return out[:min(len(out), max(1, rows-1))]
}

func header(s api.Status, columns int) []string {
	lines := []string{
		fmt.Sprintf("Sluice  %s  policy %s, %s, %s mode", s.Observed.Format(time.DateTime), s.Policy, pace(s), s.Mode),
		fmt.Sprintf("VFs held %d of %d   VMs %d   load %s packets/s, %s of it by VMs with a VF", s.VFs.Held, s.VFs.Total, s.VMs.Total, model.SI(s.Load.PPS), percent(s.Load.VFShare)),
		fmt.Sprintf("plugs %d (%s)   unplugs %d (%s)   failed %d   under way %d   waiting %d", s.Moves.Plugs, seconds(s.Moves.PlugMean), s.Moves.Unplugs, seconds(s.Moves.UnplugMean), s.Moves.Failed, s.Moves.Active, s.Moves.Pending),
	}
	for i := range lines {
		lines[i] = clip(lines[i], columns)
	}
	lines[0] = style(bold, lines[0])
	return lines
}

// group sums up VMs of one class, or of one name before the number.
type group struct {
	name       string
	vms, holds int
	pps        float64
}

func groupsOf(list []api.VM) []group {
	byName := map[string]*group{}
	for _, vm := range list {
		name := cmp.Or(vm.Class, strings.TrimRight(vm.Name, "0123456789-_."), vm.Name)
		g := byName[name]
		if g == nil {
			g = &group{name: name}
			byName[name] = g
		}
		g.vms++
		g.pps += vm.PPS
		if vm.VF != "" {
			g.holds++
		}
	}
	groups := make([]group, 0, len(byName))
	for _, g := range byName {
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b group) int { return web.Natural(a.name, b.name) })
	return groups
}

func groupHead(columns int) string {
	return clip(fmt.Sprintf("%-16s %5s %7s %10s", "Group", "VMs", "with VF", "packets/s"), columns)
}

func groupRows(groups []group, columns int) []string {
	top := 0.0
	for _, g := range groups {
		top = max(top, g.pps)
	}
	var out []string
	for _, g := range groups[:min(maxGroups, len(groups))] {
		text := fmt.Sprintf("%-16s %5d %7d %10s  %s", clip(printable(g.name), 16), g.vms, g.holds, model.SI(g.pps), bar(g.pps, top, barWidth))
		out = append(out, clip(text, columns))
	}
	return out
}

func vmHead(columns int) string {
	return clip(fmt.Sprintf("%-16s %-9s %10s  %-*s %s", "Busiest VMs", "path", "packets/s", barWidth, "", "why"), columns)
}

// vmRows shows the busiest VMs, holders green.
func vmRows(list []api.VM, columns, n int) []string {
	slices.SortStableFunc(list, func(a, b api.VM) int { return cmp.Compare(b.PPS, a.PPS) })
	var out []string
	for _, vm := range list[:min(n, len(list))] {
		text := fmt.Sprintf("%-16s %-9s %10s  %-*s %s", clip(printable(vm.Name), 16), clip(moving(vm), 9), model.SI(vm.PPS), barWidth, bar(vm.PPS, list[0].PPS, barWidth), because(vm.Why))
		out = append(out, style(map[bool]string{true: green, false: ""}[vm.VF != ""], clip(text, columns)))
	}
	return out
}

// moving is the path, or what is being done about it.
func moving(vm api.VM) string {
	if vm.UnderWay != "" {
		return vm.UnderWay + "..."
	}
	return pathOf(vm)
}

// because is a reason without the verdict, which the path beside it shows.
func because(reason string) string {
	if _, why, ok := strings.Cut(reason, ": "); ok {
		return why
	}
	return reason
}

// toShow are the newest of the moves, and of like repairs that went well the newest.
func toShow(moves []model.MoveStatus) []model.MoveStatus {
	var out []model.MoveStatus
	told := make(map[string]bool)
	for i := 0; i < len(moves) && len(out) < maxMoves; i++ {
		if m := &moves[i]; m.Move.Kind == model.MoveRepair && m.Error == "" {
			if told[firstStep(m)] {
				continue
			}
			told[firstStep(m)] = true
		}
		out = append(out, moves[i])
	}
	return out
}

func moveRow(m *model.MoveStatus, columns int) string {
	text := finished(m)
	if m.Error != "" {
		return style(red, clip(text, columns))
	}
	if m.Move.Reason.Code != "" {
		text += ": " + because(m.Move.Reason.String())
	}
	return style(dim, clip(text, columns))
}

// bar draws x of top as a bar of at most width columns; what is above 0 shows.
func bar(x, top float64, width int) string {
	if !(x > 0) || !(top > 0) {
		return ""
	}
	return strings.Repeat("=", max(1, min(width, int(x/top*float64(width)+0.5))))
}

// clip cuts a text to n columns; all of ours is one column a rune.
func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	if n < 2 {
		return string(r[:max(0, n)])
	}
	return string(r[:n-1]) + "~"
}

func style(look, s string) string {
	if look == "" {
		return s
	}
	return look + s + plain
}
