// Package control is the floor that decides: who holds a VF (placement), by which steps (plan, executor), who may send how
// much (bandwidth), what virtual PFs are (vpf), what guests are believed (claim), and the state machines that drive these (loop).
// Its packages are pure, but for the files that internal/tests/arch names as their edges: no clock, no randomness, no world.
// They may import model, channel and base.
package control
