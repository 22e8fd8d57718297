package lifecycle

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// metrics are what the service counts. Labels have few values and hold no ids.
type metrics struct {
	events         *prometheus.CounterVec
	byKind         [int(thread.EventEnded) + 1]prometheus.Counter
	operations     *prometheus.CounterVec
	commitFailures prometheus.Counter
	panics         prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, loaded func() float64) *metrics {
	m := &metrics{
		events:         prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pedelec_events_total", Help: "Events told, by kind."}, []string{"kind"}),
		operations:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pedelec_operations_total", Help: "Operations completed, by kind and code of the outcome."}, []string{"kind", "outcome"}),
		commitFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: "pedelec_commit_failures_total", Help: "Changes of threads that could not be stored at the first try."}),
		panics:         prometheus.NewCounter(prometheus.CounterOpts{Name: "pedelec_lifecycle_panics_total", Help: "Panics recovered while a thread handled an input."}),
	}
	for k := thread.EventCreated; k <= thread.EventEnded; k++ {
		m.byKind[k] = m.events.WithLabelValues(k.String())
	}
	if reg != nil {
		reg.MustRegister(m.events, m.operations, m.commitFailures, m.panics,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pedelec_threads_loaded", Help: "Threads in memory."}, loaded))
	}
	return m
}

func (m *metrics) count(ev *thread.Event) {
	m.byKind[ev.Kind].Inc()
	if ev.Kind != thread.EventOperationCompleted {
		return
	}
	outcome := "success"
	if ev.Error != nil {
		outcome = string(ev.Error.Code)
	}
	m.operations.WithLabelValues(ev.OperationKind.String(), outcome).Inc()
}
