// Package research is the floor of experiments: the simulated host, scenarios, traces, the optimum that knows the future, reports, and
// figures from the papers. It may import control, config, model and base. sluiced links none of it.
package research
