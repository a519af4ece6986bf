// Bench measures bandwidth control on real kernel queues and real TCP. Guests are network namespaces, each with an HTB class and a real
// guest agent of its own, behind a bridge with one uplink of 100 Mbit/s. Bench runs each scenario under each allocator, and reports how
// well guarantees were kept and how much of the link was used. It needs root; all that it creates is in namespaces that end with it.
//
// Generator, sink and controller are one process under SCHED_RR, so that load on the machine does not decide the result. A run in which
// the controller was late too often is discarded and counted.
package main
