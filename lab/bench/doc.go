// Bench measures bandwidth control on real kernel queues and real TCP: guests are network namespaces,
// each with an HTB class of its own and a real guest agent, behind a bridge with one uplink of 100 Mbit/s.
// It runs each scenario under each allocator and says how well guarantees were kept and how much of the
// link was used. It needs root; all that it makes is in namespaces that end with it.
//
// Generator, sink and controller are one process under SCHED_RR, so that a busy machine does not
// decide the result; a run in which the controller was late too often is discarded and counted.
package main
