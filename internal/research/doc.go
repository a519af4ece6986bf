// Package research is the floor of experiments: the simulated host, scenarios, traces, the optimum that knows the future,
// reports and what the papers published. It may import control, config, model and base. sluiced links nothing of it.
package research
