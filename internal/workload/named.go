package workload

// Named makes one of the ten workloads of the published table.
type Named struct {
	Name string
	Text string
	Make func(seed uint64) *Workload
}

// Ten lists the workloads that policies are compared on, in the table's order.
func Ten() []Named { return nil }
