package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// readMetrics returns the daemon's metrics by name, summed over labels. It asks
// over a connection of its own, which is closed when it returns.
func readMetrics(d *daemon) (map[string]float64, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + d.info.HTTPEndpoint + "/metrics")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body) // only to show it
		return nil, fmt.Errorf("/metrics: %s: %s", res.Status, clip(body))
	}
	sums := map[string]float64{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), " ")
		if !ok || name == "#" {
			continue
		}
		name, _, _ = strings.Cut(name, "{")
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return nil, err
		}
		sums[name] += value
	}
	return sums, lines.Err()
}

// awaitMetrics waits until metrics have these values.
func awaitMetrics(d *daemon, want map[string]float64) error {
	var now map[string]float64
	apart := time.NewTicker(20 * time.Millisecond) // a scrape costs the daemon more than what waitFor is for
	defer apart.Stop()
	err := waitFor(patience, fmt.Sprint("metrics to become ", want), func() (bool, error) {
		<-apart.C
		var err error
		if now, err = readMetrics(d); err != nil {
			return false, err
		}
		for name, value := range want {
			if now[name] != value {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		for name := range want {
			err = fmt.Errorf("%w; %s is %v", err, name, now[name])
		}
	}
	return err
}
