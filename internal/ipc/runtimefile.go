package ipc

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Names of the files in the home folder by which clients find the daemon.
const (
	RuntimeFileName      = "runtime.json"
	AgentRuntimeFileName = "agent-runtime.json" // without the token: agents are pointed here
)

// loopbackHost is the only host that readers accept, literally.
const loopbackHost = "127.0.0.1"

// maxRuntimeFileBytes bounds what a reader takes from a runtime file.
const maxRuntimeFileBytes = 64 << 10

// RuntimeFile is the content of runtime.json. The first five fields are what
// existing clients need; agent-runtime.json holds these alone.
type RuntimeFile struct {
	Protocol string `json:"protocol"`
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Endpoint string `json:"endpoint"` // host:port of the TCP listener
	PID      int    `json:"pid"`

	HTTPEndpoint string    `json:"httpEndpoint,omitzero"` // host:port of the HTTP listener
	Token        string    `json:"token,omitzero"`        // 64 hex characters
	InstanceID   string    `json:"instanceId,omitzero"`
	StartedAt    time.Time `json:"startedAt,omitzero"`
	Version      string    `json:"version,omitzero"`
}

// NewRuntimeFile returns the content for this process and a TCP listener.
func NewRuntimeFile(tcp net.Addr) RuntimeFile {
	port := 0
	if addr, ok := tcp.(*net.TCPAddr); ok {
		port = addr.Port
	}
	return RuntimeFile{
		Protocol: Protocol,
		Host:     loopbackHost,
		Port:     port,
		Endpoint: net.JoinHostPort(loopbackHost, strconv.Itoa(port)),
		PID:      os.Getpid(),
	}
}

// ForAgents returns what agent-runtime.json holds.
func (f RuntimeFile) ForAgents() RuntimeFile {
	return RuntimeFile{Protocol: f.Protocol, Host: f.Host, Port: f.Port, Endpoint: f.Endpoint, PID: f.PID}
}

// Write writes both runtime files into home. A reader sees the old file or the
// new one, never a part.
func (f RuntimeFile) Write(home string) error {
	// The agents' first: who sees runtime.json takes all for ready.
	if err := writeRuntimeFile(filepath.Join(home, AgentRuntimeFileName), f.ForAgents()); err != nil {
		return err
	}
	return writeRuntimeFile(filepath.Join(home, RuntimeFileName), f)
}

// Remove removes both runtime files from home, each only if it still names the
// process and port of f: a successor may have written its own.
func (f RuntimeFile) Remove(home string) error {
	return errors.Join(
		f.removeOwn(filepath.Join(home, RuntimeFileName)),
		f.removeOwn(filepath.Join(home, AgentRuntimeFileName)),
	)
}

func (f RuntimeFile) removeOwn(path string) error {
	there, err := readRuntimeFile(path)
	if err != nil || there.PID != f.PID || there.Endpoint != f.Endpoint {
		return nil // gone, unreadable or somebody else's: not ours to remove
	}
	return removeIfThere(path)
}

// temporarySuffix and random digits end the name under which a runtime file is
// written.
const temporarySuffix = ".tmp"

// RemoveStaleRuntimeFiles removes both runtime files whatever they say, and the file
// that was left of one by a daemon that was killed while it wrote. Only the holder of
// the instance lock may call it, before it listens.
func RemoveStaleRuntimeFiles(home string) error {
	entries, err := os.ReadDir(home)
	if err != nil {
		return err
	}
	var failed error
	for _, e := range entries {
		for _, name := range []string{RuntimeFileName, AgentRuntimeFileName} {
			left := strings.HasPrefix(e.Name(), name+temporarySuffix) && e.Type().IsRegular()
			if e.Name() == name || left {
				failed = errors.Join(failed, removeIfThere(filepath.Join(home, e.Name())))
			}
		}
	}
	return failed
}

// ReadRuntimeFile reads <home>/runtime.json and checks what every reader must:
// protocol, host and an endpoint on that host. Error:
// CORE_RUNTIME_UNAVAILABLE.
func ReadRuntimeFile(home string) (RuntimeFile, error) {
	return ReadRuntimeFileAt(filepath.Join(home, RuntimeFileName))
}

// ReadRuntimeFileAt is ReadRuntimeFile for a path, such as the one to which
// agents are pointed.
func ReadRuntimeFileAt(path string) (RuntimeFile, error) {
	f, err := readRuntimeFile(path)
	if err != nil {
		return RuntimeFile{}, fault.Wrap(fault.CoreRuntimeUnavailable, "ipc.runtimefile", err, notRunning)
	}
	return f, nil
}

const notRunning = "The daemon is not running. Start it with: pedelec-core serve"

func readRuntimeFile(path string) (RuntimeFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return RuntimeFile{}, err
	}
	if !info.Mode().IsRegular() { // a pipe would be waited for without end
		return RuntimeFile{}, fmt.Errorf("%s is no plain file", path)
	}
	if info.Size() > maxRuntimeFileBytes {
		return RuntimeFile{}, fmt.Errorf("%s has %d bytes, which no runtime file has", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return RuntimeFile{}, err
	}
	return parseRuntimeFile(data)
}

func parseRuntimeFile(data []byte) (RuntimeFile, error) {
	var f RuntimeFile
	if err := json.Unmarshal(data, &f); err != nil {
		return RuntimeFile{}, fmt.Errorf("runtime file: %w", err)
	}
	if f.Protocol != Protocol {
		return RuntimeFile{}, fmt.Errorf("runtime file: protocol is %q, want %q", f.Protocol, Protocol)
	}
	if f.Host != loopbackHost {
		return RuntimeFile{}, fmt.Errorf("runtime file: host is %q, want %q", f.Host, loopbackHost)
	}
	if want := net.JoinHostPort(loopbackHost, strconv.Itoa(f.Port)); f.Endpoint != want || f.Port < 1 || f.Port > 65535 {
		return RuntimeFile{}, fmt.Errorf("runtime file: endpoint is %q, which is not host and port", f.Endpoint)
	}
	return f, nil
}

func writeRuntimeFile(path string, f RuntimeFile) (err error) {
	data, err := json.Marshal(f, jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	// CreateTemp makes the file with mode 0600, so it is never readable by others.
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+temporarySuffix+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if _, err = tmp.Write(data); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	if err = fault.Point("ipc.runtimefile.rename"); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
