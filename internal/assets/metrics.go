package assets

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// outcomeDone labels transfers that succeeded.
const outcomeDone = "ok"

// metrics count transfers. Labels are directions and codes, never ids or paths.
type metrics struct {
	transfers *prometheus.CounterVec
	bytes     *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, running func(direction) float64) *metrics {
	m := &metrics{
		transfers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pedelec_asset_transfers_total", Help: "Transfers and refused tries at one, by direction and outcome.",
		}, []string{"direction", "outcome"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pedelec_asset_bytes_total", Help: "Bytes of files that were moved, by direction.",
		}, []string{"direction"}),
	}
	if reg == nil {
		return m
	}
	reg.MustRegister(m.transfers, m.bytes)
	for d := range directions {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pedelec_asset_transfers", Help: "Transfers that run.",
			ConstLabels: prometheus.Labels{"direction": kinds[d].name},
		}, func() float64 { return running(d) }))
	}
	return m
}

// transfer counts one that is over; code is "" for a success.
func (m *metrics) transfer(d direction, code fault.Code, bytes int64) {
	outcome := outcomeDone
	if code != "" {
		outcome = string(code.Info().Code)
	}
	m.transfers.WithLabelValues(kinds[d].name, outcome).Inc()
	m.bytes.WithLabelValues(kinds[d].name).Add(float64(bytes))
}
