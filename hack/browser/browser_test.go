// Package browser shows the pages of `manager history` to a real browser, with the invented day that hack/pages serves:
// what they say, that they follow what happens, by keyboard, in both colour schemes, on a phone and on a large screen,
// by axe-core's rules, and how much they load. With -pictures it takes those of the documentation.
package browser

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var pictures = flag.String("pictures", "", "directory for the pictures of the documentation; empty: none are taken")

// The pages that are looked at. The days' jobs are those of internal/history/page/pagetest.
const (
	lost    = "job?runnerUID=00000000-0000-4000-8000-00000000aaaa"
	harmful = "job?runnerUID=00000000-0000-4000-8000-00000000cccc"
	gpu     = "set?cluster=6c1f8f8e-0b5e-4c55-9d55-1d2f3a4b5c6d&namespace=research&set=gpu"
	linux   = "set?cluster=6c1f8f8e-0b5e-4c55-9d55-1d2f3a4b5c6d&namespace=team-web&set=linux"
)

var pages = []string{"", gpu, linux, "jobs", "jobs?text=nothing+has+this+name", lost, harmful, "usage", "usage?by=job", "nowhere"}

// patience is how long anything may take on a machine that is busy with other tests.
const patience = 2 * time.Minute

var (
	site string         // where the pages are
	jobs io.WriteCloser // each line that is written becomes a job
	axe  string         // axe-core's script
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	fetch := exec.Command("./axe.sh")
	fetch.Stderr = os.Stderr
	found, err := fetch.Output()
	if err != nil {
		return 0, fmt.Errorf("fetch axe-core: %w", err)
	}
	script, err := os.ReadFile(strings.TrimSpace(string(found)))
	if err != nil {
		return 0, err
	}
	axe = string(script)
	directory, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(directory)
	program := filepath.Join(directory, "pages")
	build := exec.Command("go", "build", "-o", program, "./hack/pages")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build hack/pages: %w\n%s", err, out)
	}
	server := exec.Command(program, "-address", "127.0.0.1:0")
	server.Stderr = os.Stderr
	if jobs, err = server.StdinPipe(); err != nil {
		return 0, err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := server.Start(); err != nil {
		return 0, err
	}
	if site, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		return 0, fmt.Errorf("hack/pages says nothing: %w", err)
	}
	site = strings.TrimSpace(site)
	code := m.Run()
	jobs.Close() // it ends with its input
	return code, server.Wait()
}

// browser finds a browser. Ubuntu's package chromium is a snap, which containers don't have.
func browser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", fmt.Errorf("chromium is missing, in which these tests look at pages: apt-get install chromium")
}

// tab is an open page, and what has gone wrong or over the network since it was opened.
type tab struct {
	context.Context
	mu     sync.Mutex
	wrong  []string
	hosts  map[string]bool
	loaded float64
}

// open opens a tab of a width, in a colour scheme.
func open(t *testing.T, width int64, scheme string) *tab {
	t.Helper()
	program, err := browser()
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program),
		chromedp.WSURLReadTimeout(patience))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses root otherwise
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	opened := &tab{Context: ctx, hosts: map[string]bool{}}
	chromedp.ListenTarget(ctx, opened.listen)
	opened.do(t, network.Enable(), log.Enable(), emulation.SetDeviceMetricsOverride(width, 900, 1, width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
	return opened
}

func (tab *tab) listen(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded: // among them what the content security policy has refused
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			tab.wrong = append(tab.wrong, fmt.Sprint(e.Entry.Text, " ", e.Entry.URL))
		}
	case *runtime.EventConsoleAPICalled:
		tab.wrong = append(tab.wrong, fmt.Sprint("console: ", e.Type))
	case *runtime.EventExceptionThrown:
		tab.wrong = append(tab.wrong, e.ExceptionDetails.Error())
	case *network.EventRequestWillBeSent:
		tab.hosts[e.Request.URL[:min(len(e.Request.URL), len(site))]] = true
	case *network.EventLoadingFinished:
		tab.loaded += e.EncodedDataLength
	}
}

// errors returns what has gone wrong, and forgets it.
func (tab *tab) errors() (wrong []string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	wrong, tab.wrong = tab.wrong, nil
	return wrong
}

func (tab *tab) do(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(tab, actions...); err != nil {
		t.Fatal(err)
	}
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](t *testing.T, tab *tab, expression string) (value T) {
	t.Helper()
	tab.do(t, chromedp.Evaluate(expression, &value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true)
	}))
	return value
}

// until waits for an expression to be true.
func (tab *tab) until(t *testing.T, expression string) {
	t.Helper()
	if err := chromedp.Run(tab, chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(patience))); err != nil {
		t.Fatalf("%s does not become true: %v", expression, err)
	}
}
