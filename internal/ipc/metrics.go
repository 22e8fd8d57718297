package ipc

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// codeDone labels requests that succeeded.
const codeDone = "ok"

// typeUnknown labels lines that name no known request.
const typeUnknown = "unknown"

// metrics count what goes over the wire. Labels are request types and codes,
// both from fixed lists; never ids, paths or origins.
type metrics struct {
	connections   prometheus.Gauge
	sockets       prometheus.Gauge
	refused       prometheus.Counter
	cut           prometheus.Counter
	panics        prometheus.Counter
	subscriptions prometheus.Gauge
	events        prometheus.Counter
	requests      *prometheus.CounterVec
	byRoute       map[*route]routeMetrics
	unknown       routeMetrics
}

// routeMetrics are the counters of one request type, looked up once.
type routeMetrics struct {
	name     string
	done     prometheus.Counter
	duration prometheus.Observer
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		connections:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "pedelec_ipc_connections", Help: "Open TCP connections."}),
		sockets:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "pedelec_ipc_websockets", Help: "Open WebSockets."}),
		refused:       prometheus.NewCounter(prometheus.CounterOpts{Name: "pedelec_ipc_connections_refused_total", Help: "Connections closed before anything was parsed."}),
		cut:           prometheus.NewCounter(prometheus.CounterOpts{Name: "pedelec_ipc_cut_clients_total", Help: "Connections closed because the client did not read."}),
		panics:        prometheus.NewCounter(prometheus.CounterOpts{Name: "pedelec_ipc_panics_total", Help: "Panics that were recovered in connections."}),
		subscriptions: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pedelec_ipc_subscriptions", Help: "Open subscriptions."}),
		events:        prometheus.NewCounter(prometheus.CounterOpts{Name: "pedelec_ipc_events_written_total", Help: "Events written to clients."}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pedelec_ipc_requests_total", Help: "Requests by type and the code of their answer.",
		}, []string{"type", "code"}),
		byRoute: map[*route]routeMetrics{},
	}
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pedelec_ipc_request_seconds", Help: "From the start of a request to its answer being ready.",
		Buckets: []float64{.00001, .0001, .001, .005, .025, .1, .5, 2, 10, 30},
	}, []string{"type"})
	for _, c := range []prometheus.Collector{m.connections, m.sockets, m.refused, m.cut, m.panics, m.subscriptions, m.events, m.requests, duration} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	of := func(name string) routeMetrics {
		return routeMetrics{name, m.requests.WithLabelValues(name, codeDone), duration.WithLabelValues(name)}
	}
	for name, r := range routes {
		m.byRoute[r] = of(name)
	}
	m.unknown = of(typeUnknown)
	return m, nil
}

// request counts an answered request; r is nil when its type was not known.
func (m *metrics) request(r *route, code fault.Code, took time.Duration) {
	of, ok := m.byRoute[r]
	if !ok {
		of = m.unknown
	}
	of.duration.Observe(took.Seconds())
	if code == "" {
		of.done.Inc()
		return
	}
	if code.Info().Code != code {
		code = fault.Internal // only codes of the table become labels
	}
	m.requests.WithLabelValues(of.name, string(code)).Inc()
}

func (m *metrics) told(lines int) { m.events.Add(float64(lines)) }

func (m *metrics) subscribed(change int) { m.subscriptions.Add(float64(change)) }
