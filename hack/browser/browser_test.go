// Package browser shows the pages of `manager history` to a real browser, with the invented day that hack/pages serves.
// It checks their texts, their updates, their use by keyboard, in both colour schemes, on a phone and on a large
// screen, axe-core's rules, and the amount that they load. With -pictures it takes the pictures of the documentation.
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

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var (
	pictures = flag.String("pictures", "", "directory for the pictures of the documentation; empty: none are taken")
	looks    = flag.String("looks", "", "directory for a picture of each page, width and colour scheme; empty: none "+
		"are taken")
)

// The pages that are looked at. The days' jobs are those of operations/history/page/pagetest.
const (
	lost    = "job?runnerUID=00000000-0000-4000-8000-00000000aaaa"
	harmful = "job?runnerUID=00000000-0000-4000-8000-00000000cccc"
	gpu     = "set?cluster=6c1f8f8e-0b5e-4c55-9d55-1d2f3a4b5c6d&namespace=research&set=gpu"
	linux   = "set?cluster=6c1f8f8e-0b5e-4c55-9d55-1d2f3a4b5c6d&namespace=team-web&set=linux"
)

var pages = []string{"", gpu, linux, "jobs", "jobs?text=nothing+has+this+name", lost, harmful, "usage", "usage?by=job",
	"trends", "trends?by=branch&repository=acme%2Fweb", "run?run=19123456789", "run?run=19200000001", "run?run=1",
	"nowhere"}

// Anything may take as long as patience on a machine that is busy with other tests.
const patience = 6 * time.Minute

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
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "pages") // of another module, which this one can't see
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
	opened := &tab{hosts: map[string]bool{}}
	opened.Context, cancel = chromedp.NewContext(ctx, chromedp.WithListener(opened.listen))
	t.Cleanup(cancel)
	opened.do(t, command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 600,
	}), command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}))
	return opened
}

// command is a command of the protocol as an action.
func command[P, R any](command cdp.Command[P, R], parameters P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, parameters)
		return err
	})
}

func (tab *tab) listen(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded: // among them what the content security policy has refused
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			tab.wrong = append(tab.wrong, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		tab.wrong = append(tab.wrong, fmt.Sprint("console: ", e.Type))
	case *runtime.EventExceptionThrown:
		tab.wrong = append(tab.wrong, e.ExceptionDetails.Text)
	case *network.EventRequestWillBeSent:
		tab.hosts[e.Request.URL[:min(len(e.Request.URL), len(site))]] = true
	case *network.EventLoadingFinished:
		tab.loaded += e.EncodedDataLength
	}
}

// errors returns the errors so far, and forgets them.
func (tab *tab) errors() (wrong []string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	wrong, tab.wrong = tab.wrong, nil
	return wrong
}

func (tab *tab) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(tab, actions...); err != nil {
		t.Fatal(err)
	}
}

// show opens a page.
func (tab *tab) show(t *testing.T, page string) {
	t.Helper()
	tab.do(t, chromedp.Navigate(site+page), chromedp.WaitReady(chromedp.CSS("#content")))
}

// evaluate returns the value of an expression in the page, or what its promise becomes.
func evaluate[T any](t *testing.T, tab *tab, expression string) T {
	t.Helper()
	value, err := chromedp.Run(tab, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%.200s: %v", expression, err)
	}
	return value
}

// until waits for an expression to be true. Where another page is loaded meanwhile, it goes on there. chromedp's own
// polling makes a function of a text, which the policy of the pages forbids.
func (tab *tab) until(t *testing.T, expression string) {
	t.Helper()
	waiting := `new Promise(done => { let left = 20; const look = () => { if (` + expression +
		`) done(true); else if (!left--) done(false); else setTimeout(look, 50) }; look() })`
	for tab.Err() == nil {
		is, err := chromedp.Run(tab, chromedp.Evaluate[bool](waiting, chromedp.EvalAwaitPromise))
		if err == nil && is {
			return
		}
	}
	t.Fatalf("%s does not become true", expression)
}
