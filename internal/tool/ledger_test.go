package tool

import "testing"

// ledger counts the evaluations of a program's subschemas beside its guards.
// The budget is sound if none is ever unpaid.
type ledger struct {
	evaluations int
	budget      *budget // of the check that ran last
}

func openLedger(p *program) *ledger {
	l := &ledger{}
	for s := range p.guards {
		guarded := s.Format.Validate
		s.Format.Validate = func(v any) error {
			if l.budget != p.budget {
				l.evaluations, l.budget = 0, p.budget
			}
			l.evaluations++
			return guarded(v)
		}
	}
	return l
}

// check fails the test if the last check evaluated more than it was charged.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	if l.budget == nil {
		return // no subschema has keywords
	}
	if charged := MaxEvaluations - l.budget.steps; l.evaluations > charged {
		t.Errorf("%d evaluations, and %d were charged", l.evaluations, charged)
	}
}
