package ipc

import "time"

// memoryInspector makes the same link each time.
type memoryInspector struct{}

func (memoryInspector) NewLink() (url string, expires time.Time) {
	return "http://127.0.0.1:1/inspect/#c0de", testTime.Add(time.Minute)
}
