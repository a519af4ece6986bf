// Package fluid models a link and its senders as fluids, without packets, queues or TCP. Its tests compare and tune bandwidth
// allocators on this model before they meet a kernel. Every run follows from its arguments and a seed.
package fluid
