package fluid

import (
	"fmt"
	"math"
	"testing"

	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

func TestLink(t *testing.T) {
	l := &Link{Speed: 40, Senders: []Sender{guaranteed(0, 1, always), guaranteed(0, 3, always), guaranteed(0, 1, always)}}
	unlimited := bandwidth.Unlimited
	sent := make([]float64, 3)
	l.Carry(0, []float64{100, 100, 4}, []bandwidth.Allowance{unlimited, unlimited, unlimited}, nil, sent)
	if fmt.Sprint(sent) != "[9 27 4]" {
		t.Errorf("carries %v, want a quarter and three of what the third leaves", sent)
	}
	l.Carry(0, []float64{100, 100, 0}, []bandwidth.Allowance{unlimited, {Bits: 5, Packets: math.Inf(1)}, unlimited}, nil, sent)
	if fmt.Sprint(sent) != "[35 5 0]" {
		t.Errorf("carries %v, want the second at its limit", sent)
	}
	l.Packets, l.Senders[0].Frame, l.Senders[1].Frame = 10, 1, 10
	l.Carry(0, []float64{100, 100, 0}, []bandwidth.Allowance{unlimited, unlimited, unlimited}, nil, sent)
	if fmt.Sprint(sent) != "[2.5 37.5 0]" {
		t.Errorf("carries %v, want packets shared one to three, and bits where the link is full", sent)
	}
}

func TestIdeal(t *testing.T) {
	l := &Link{Speed: 40, Senders: []Sender{guaranteed(0, 1, nil), guaranteed(0, 1, nil), guaranteed(0, 1, nil), guaranteed(0, 1, nil)}}
	sla := func(i int, g uint64, priority int, weight float64) {
		l.Senders[i].SLA = model.SLA{Guarantee: model.Rate{Bits: g}, Priority: priority, Weight: weight}
	}
	entitled, ideal := make([]float64, 4), make([]float64, 4)
	sla(0, 10, 0, 0)
	sla(1, 10, 0, 0)
	sla(2, 0, 0, 2)
	l.Ideal(0, []float64{100, 4, 100, 100}, entitled, ideal)
	if fmt.Sprint(entitled, ideal) != "[10 4 0 0] [16.5 4 13 6.5]" {
		t.Errorf("entitled and ideal are %v %v: guarantees first, then by weight", entitled, ideal)
	}
	sla(0, 30, 1, 0)
	sla(1, 20, 0, 0)
	sla(2, 40, 0, 0)
	l.Ideal(0, []float64{100, 100, 100, 100}, entitled, ideal)
	if fmt.Sprintf("%.2f", entitled) != "[30.00 3.33 6.67 0.00]" {
		t.Errorf("entitled to %.2f: the higher class first, in a class by guarantee", entitled)
	}
}
