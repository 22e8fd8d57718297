package claude

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

// share returns what a turn cost, in tokens of every kind. Newer releases tell it;
// older ones tell the total of the process, of which the part before counts once
// only; the oldest tell the main model's part. before is updated.
func (r *result) share(before *uint64) uint64 {
	now, total := sum(r.ModelUsage)
	was := min(*before, now)
	if total {
		*before = now
	}
	switch since, told := sum(r.SinceLast); {
	case told:
		return since
	case total:
		return now - was
	}
	var u usageCount
	if r.Usage.Kind() != '{' || jsonrpc.Unmarshal(r.Usage, &u) != nil {
		return 0
	}
	return u.Input + u.Output + u.CacheRead + u.CacheCreate
}

// sum adds up what all models cost. Figures of another shape are none.
func sum(models jsontext.Value) (total uint64, told bool) {
	var each map[string]modelUsage
	if models.Kind() != '{' || jsonrpc.Unmarshal(models, &each) != nil {
		return 0, false
	}
	for _, m := range each {
		total += m.Input + m.Output + m.CacheRead + m.CacheCreate
	}
	return total, true
}
