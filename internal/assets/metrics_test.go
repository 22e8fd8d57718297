package assets

import (
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTransfersAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := newScene(t, func(c *Config) { c.Registerer = reg })
	up := s.uploadTicket(threadA, "/f", 4)
	s.put(UploadTicket{UploadURL: up.UploadURL}, []byte("1234"))
	s.put(up, []byte("1234")).expect(t, http.StatusCreated, "")
	down := s.downloadTicket(threadA, "/f")
	s.get(down).expect(t, http.StatusOK, "")
	s.get(down, "Range", "bytes=9-").expect(t, http.StatusRequestedRangeNotSatisfiable, "")

	families, err := reg.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			key := family.GetName()
			for _, label := range m.GetLabel() {
				key += " " + label.GetValue()
			}
			got[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for key, want := range map[string]float64{
		"pedelec_asset_transfers_total upload ok":                        1,
		"pedelec_asset_transfers_total upload ASSET_UPLOAD_UNAUTHORIZED": 1,
		"pedelec_asset_transfers_total download ok":                      1,
		"pedelec_asset_transfers_total download INVALID_INPUT":           1,
		"pedelec_asset_bytes_total upload":                               4,
		"pedelec_asset_bytes_total download":                             4,
		"pedelec_asset_transfers upload":                                 0,
	} {
		if have, ok := got[key]; !ok || have != want {
			t.Errorf("%s is %v, want %v", key, have, want)
		}
	}
	if _, ok := got["pedelec_asset_transfers download"]; !ok {
		t.Error("running downloads are not told") // how many: the last one may not have ended yet
	}
}
