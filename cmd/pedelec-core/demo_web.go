package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/loopback"
	"github.com/pedelec/pedelec-core/internal/webdemo"
)

// Limits of the page's server and of the daemon behind it.
const (
	webHeaderLimit = 10 * time.Second // for the header of a request
	webCloseLimit  = 2 * time.Second  // for requests that run when the demo ends
	webShortLife   = 2 * time.Second  // a daemon that is gone sooner does not work
	webMaxShort    = 3                // so many short lives in a row end the demo
	webMaxConns    = 64               // a browser opens six
)

// webDemo serves the page and has a daemon run behind it.
type webDemo struct {
	*stage
	scripted  bool   // the agent is the scripted one, in a temporary home
	workspace string // of the page's sessions; "": the daemon makes them
	port      int    // of the page
}

// demoWeb serves the page until it is interrupted. A home that was named is the
// user's: its daemon and its agents are used.
func (a *app) demoWeb(ctx context.Context, port uint16) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	d, err := newWebDemo(a)
	if err != nil {
		return err
	}
	defer func() {
		d.kill() // if it could not even be asked to leave
		err = errors.Join(err, d.cleanUp(err))
	}()
	if _, ok := serving(ctx, d.home); !ok {
		if _, err := d.launch(ctx); err != nil {
			return unlessDone(ctx, err)
		}
		defer func() { err = errors.Join(err, d.leave()) }()
	}
	listener, err := loopback.Listen(ctx, fmt.Sprintf("%s:%d", loopback.Host, port), loopback.Options{MaxConns: webMaxConns})
	if err != nil {
		return err
	}
	d.port = listener.Port()
	return d.serve(ctx, listener)
}

// serve serves the page until the demo is to end.
func (d *webDemo) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           loopback.LimitBodies(webdemo.Handler(webdemo.Options{Port: d.port, Find: d.find}), bodyLimit),
		ReadHeaderTimeout: webHeaderLimit,
		MaxHeaderBytes:    loopback.MaxHeaderBytes,
	}
	var broken error // valid once served is closed
	served := make(chan struct{})
	go func() {
		defer close(served)
		broken = server.Serve(listener)
	}()
	d.greet()
	err := d.watch(ctx, served)
	select {
	case <-served: // by itself
		err = errors.Join(err, fmt.Errorf("the page cannot be served any more: %w", broken))
	default:
	}
	err = errors.Join(err, shutServer(server))
	<-served
	return err
}

// shutServer lets requests that run come to their end, for a moment.
func shutServer(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), webCloseLimit)
	defer cancel()
	if server.Shutdown(ctx) == nil {
		return nil
	}
	return server.Close() // what still runs is cut off
}

func newWebDemo(a *app) (*webDemo, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("the path of this program is unknown: %w", err)
	}
	s, err := newStage(program, a.stdout)
	if err != nil {
		return nil, err
	}
	if a.home == "" {
		return &webDemo{stage: s, scripted: true, workspace: s.project}, nil
	}
	if s.home, err = ipc.Home(a.home); err != nil {
		return nil, errors.Join(err, s.cleanUp(nil))
	}
	return &webDemo{stage: s}, nil
}

// watch waits until the demo is to end or its page is served no more. A daemon of its
// own that is gone is started again: the page shows how it recovers.
func (d *webDemo) watch(ctx context.Context, served <-chan struct{}) error {
	for short := 0; ; {
		began := time.Now()
		select {
		case <-ctx.Done():
			return nil
		case <-served:
			return nil
		case <-d.exited: // nil, and never ready, when the daemon is not ours
		}
		if short++; time.Since(began) >= webShortLife {
			short = 0
		}
		if short >= webMaxShort {
			return errors.New("the daemon does not stay: it left several times right after its start")
		}
		fmt.Fprintln(d.out, "The daemon is gone; it is started again.")
		if _, err := d.launch(ctx); err != nil {
			return unlessDone(ctx, err)
		}
	}
}

// unlessDone is err, or nothing when the demo was told to end.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// find tells the page where the daemon is now.
func (d *webDemo) find() (webdemo.Config, error) {
	f, err := ipc.ReadRuntimeFile(d.home)
	if err != nil {
		return webdemo.Config{}, errors.New("it has written no runtime file")
	}
	return webdemo.Config{Endpoint: f.HTTPEndpoint, Approve: d.approve(), Workspace: d.workspace, Scripted: d.scripted}, nil
}

// approve is the command that lets the page act.
func (d *webDemo) approve() string {
	name := d.program
	if found, err := exec.LookPath("pedelec-core"); err == nil && sameFile(found, d.program) {
		name = "pedelec-core"
	}
	words := []string{name, "--home", d.home, "origins", "approve", d.url()}
	for i, word := range words {
		words[i] = quoteWord(word)
	}
	return strings.Join(words, " ")
}

func (d *webDemo) url() string { return "http://" + loopback.Host + ":" + strconv.Itoa(d.port) }

func (d *webDemo) greet() {
	fmt.Fprintf(d.out, "Open %s in a browser.\n\n", d.paint.paint(bold, d.url()))
	if d.scripted {
		fmt.Fprintln(d.out, "The agent behind it does as it is told and is no model; all files are temporary.")
	}
	fmt.Fprintf(d.out, "The page may act when you have approved it:\n\n  %s\n\nCtrl-C ends the demo.\n", d.approve())
}

// leave lets the demo's own daemon put its things away.
func (d *webDemo) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit+goneLimit)
	defer cancel()
	select {
	case <-d.exited:
		return nil
	default:
	}
	c, err := ipc.Dial(ctx, d.home)
	if err != nil {
		return err
	}
	if err := c.Call(ctx, "shutdown", nil, nil); err != nil && !fault.Is(err, fault.CoreRuntimeUnavailable) {
		return err
	}
	return d.awaitExit(ctx)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// quoteWord makes a word safe to paste into a shell.
func quoteWord(word string) string {
	if strings.ContainsAny(word, " \t'\"$`\\&;()<>|*?!#") && os.PathSeparator == '/' {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	if strings.Contains(word, " ") {
		return `"` + word + `"`
	}
	return word
}
