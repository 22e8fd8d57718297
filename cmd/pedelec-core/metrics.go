package main

import (
	"errors"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/pedelec/pedelec-core/internal/loopback"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// registry is where parts register their metrics, and from where they are read.
type registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// liveHeap is what the last garbage collection left: the one figure of the heap
// that shows a leak without the noise of garbage.
var liveHeap = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/gc/heap/live:bytes$")}

// registerMetrics adds what belongs to no part: the program, its database, and
// the agents.
func (d *core) registerMetrics() error {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pedelec_build_info", Help: "1; the labels tell version and commit.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit},
	})
	build.Set(1)
	errs := []error{
		d.metrics.Register(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(liveHeap))),
		d.metrics.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		d.metrics.Register(build),
		d.metrics.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pedelec_store_bytes", Help: "Size of the database file.",
		}, d.storeBytes)),
		d.metrics.Register(agentCollector{d.providers.Runtimes}),
	}
	return errors.Join(errs...)
}

// countRefused tells of HTTP connections that were one too many.
func (d *core) countRefused(web *loopback.Listener) error {
	return d.metrics.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "pedelec_http_connections_refused_total", Help: "HTTP connections closed at once, since there were too many.",
	}, func() float64 { return float64(web.Refused()) }))
}

func (d *core) storeBytes() float64 {
	size, err := d.store.Size()
	if err != nil {
		return 0 // /readyz tells of it
	}
	return float64(size.FileBytes)
}

var (
	agentsDesc      = prometheus.NewDesc("pedelec_agents", "Agent processes that run.", []string{"provider"}, nil)
	agentTurnsDesc  = prometheus.NewDesc("pedelec_agent_turns", "Turns that run in agent processes.", []string{"provider"}, nil)
	agentMemoryDesc = prometheus.NewDesc("pedelec_agent_resident_bytes", "Resident memory of agent processes, where the system tells it.", []string{"provider"}, nil)
)

// agentCollector tells of the agents, asked at each scrape.
type agentCollector struct{ runtimes func() []thread.RuntimeInfo }

func (agentCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- agentsDesc
	descs <- agentTurnsDesc
	descs <- agentMemoryDesc
}

func (c agentCollector) Collect(metrics chan<- prometheus.Metric) {
	var count, turns, memory [1 << 8]float64 // by thread.Provider
	for _, r := range c.runtimes() {
		count[r.Provider]++
		turns[r.Provider] += float64(r.Turns)
		memory[r.Provider] += float64(r.RSSBytes)
	}
	for _, p := range thread.Providers {
		metrics <- prometheus.MustNewConstMetric(agentsDesc, prometheus.GaugeValue, count[p], p.String())
		metrics <- prometheus.MustNewConstMetric(agentTurnsDesc, prometheus.GaugeValue, turns[p], p.String())
		metrics <- prometheus.MustNewConstMetric(agentMemoryDesc, prometheus.GaugeValue, memory[p], p.String())
	}
}
