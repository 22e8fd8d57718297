package assets

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// payload is 100 MiB that do not compress to nothing.
func payload() []byte {
	b := make([]byte, MaxFileBytes)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

// BenchmarkUpload100MiB is one upload with digest and fsync, over HTTP.
func BenchmarkUpload100MiB(b *testing.B) {
	s := newScene(b)
	body := payload()
	b.SetBytes(MaxFileBytes)
	b.ResetTimer()
	for b.Loop() {
		if got := s.put(s.uploadTicket(threadA, "/f", MaxFileBytes), body); got.status != http.StatusCreated {
			b.Fatal(got.status)
		}
		<-s.threads.begun
	}
}

// BenchmarkUpload100MiBBaseline is what the same takes at least: io.Copy from a
// socket into a file with SHA-256 and fsync.
func BenchmarkUpload100MiBBaseline(b *testing.B) {
	body := payload()
	path := filepath.Join(b.TempDir(), "f")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(b, err)
	defer l.Close()
	b.SetBytes(MaxFileBytes)
	b.ResetTimer()
	for b.Loop() {
		var sender sync.WaitGroup
		sender.Go(func() {
			conn, err := net.Dial("tcp4", l.Addr().String())
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			if _, err := conn.Write(body); err != nil {
				b.Error(err)
			}
		})
		conn, err := l.Accept()
		must(b, err)
		f, err := os.Create(path + ".new")
		must(b, err)
		_, err = io.Copy(io.MultiWriter(f, sha256.New()), conn)
		must(b, err)
		must(b, f.Sync())
		must(b, f.Close())
		must(b, os.Rename(path+".new", path))
		conn.Close()
		sender.Wait()
	}
}

// BenchmarkDownload100MiB is one download over HTTP.
func BenchmarkDownload100MiB(b *testing.B) {
	s := newScene(b)
	must(b, os.MkdirAll(s.assets(), 0o700))
	must(b, os.WriteFile(s.assets("f"), payload(), 0o600))
	ticket := s.downloadTicket(threadA, "/f")
	b.SetBytes(MaxFileBytes)
	b.ResetTimer()
	for b.Loop() {
		r, err := http.NewRequestWithContext(b.Context(), "GET", ticket.DownloadURL, nil)
		must(b, err)
		r.Header.Set("Authorization", "Bearer "+ticket.Token)
		resp, err := s.client.Do(r)
		must(b, err)
		if n, err := io.Copy(io.Discard, resp.Body); n != MaxFileBytes || err != nil {
			b.Fatal(n, err)
		}
		resp.Body.Close()
	}
}

// TestUploadsCostLittleMemory watches the heap while 100 MiB stream through:
// at most 4 MiB more for one upload, 16 MiB for 16 at once.
func TestUploadsCostLittleMemory(t *testing.T) {
	for _, c := range []struct{ uploads, size, limit int }{{1, MaxFileBytes, 4 << 20}, {16, 16 << 20, 16 << 20}} {
		s := newScene(t)
		body := make([]byte, c.size)
		var tickets []UploadTicket
		for _, id := range s.many(c.uploads) {
			tickets = append(tickets, s.uploadTicket(id, "/"+id, c.size))
		}
		before := heap()
		watch := startWatch()
		var all sync.WaitGroup
		for _, ticket := range tickets {
			all.Go(func() {
				r, err := http.NewRequestWithContext(t.Context(), "PUT", ticket.UploadURL, bytes.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Authorization", "Bearer "+ticket.Token)
				resp, err := s.client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusCreated {
					t.Errorf("status %d", resp.StatusCode)
				}
			})
		}
		all.Wait()
		grown := int64(watch.stop()) - int64(before)
		t.Logf("%d uploads of %d MiB: %d KiB more at most", c.uploads, c.size>>20, grown>>10)
		if grown > int64(c.limit) {
			t.Errorf("%d uploads: %d bytes more, over %d", c.uploads, grown, c.limit)
		}
	}
}

// heap returns the bytes in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // the first one only demotes what pools hold
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// watch samples the heap every few milliseconds.
type watch struct {
	quit, done chan struct{}
	most       uint64
}

func startWatch() *watch {
	w := &watch{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			w.most = max(w.most, heap())
			select {
			case <-w.quit:
				return
			case <-tick.C:
			}
		}
	}()
	return w
}

func (w *watch) stop() uint64 {
	close(w.quit)
	<-w.done
	return w.most
}
